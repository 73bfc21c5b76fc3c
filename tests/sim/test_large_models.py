"""The commands of `tests.sim.large_models`, on a small model."""

from tests.sim.large_models import run_alone, run_shape


def test_sentences_packed_padded_and_alone(capsys):
    assert run_alone("tiny4", "reduced")
    assert capsys.readouterr().out.count("8 of 8 sentences equal") == 4


def test_shapes(capsys):
    assert run_shape("reduced:tiny4:20")
    assert run_shape("reduced-layer:tiny4:7")
    assert capsys.readouterr().out.count("every byte equal") == 2
