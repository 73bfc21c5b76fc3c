"""`bertha accuracy`: what it prints, and one sentence for each option out of its range."""

import pytest

from bertha.cli import main

SMALL = ["accuracy", "--model", "reduced", "--layers", "0", "--sentences"]


def exit_code(*arguments):
    """argparse ends the process for what it can't read; the rest returns."""
    try:
        return main(["accuracy", *arguments])
    except SystemExit as end:
        return end.code


def test_seed_chooses_the_sentences(capsys):
    def table(*options):
        assert main([*SMALL, "4", *options]) == 0
        return capsys.readouterr().out.partition("layer 0 against")[2]

    assert table() == table("--seed", "0") != table("--seed", "1")


def test_one_sentence_is_enough(capsys):
    assert main([*SMALL, "1"]) == 0
    assert "1 unseen sentences" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, message",
    [
        (["--sentences", "0"], "--sentences must be an integer from 1 to 9999, not 0"),
        (["--sentences", "-3"], "--sentences must be an integer from 1 to 9999, not -3"),
        (["--sentences", "10000"], "--sentences must be an integer from 1 to 9999, not 10000"),
        (["--seed", "-1"], "--seed must be an integer from 0 to 4294967295, not -1"),
        (["--layers", "2"], "layer must be from 0 to 1 in reduced, not 2"),
        (["--layers", "0", "-1"], "layer must be from 0 to 1 in reduced, not -1"),
        (["--duplicates", "0,0,4"], "duplicates must be four numbers from 0 such as 0,0,4,4, not '0,0,4'"),
        (["--duplicates", "0,0,4,-4"], "duplicates must be four numbers from 0"),
        (["--duplicates", "0,33,0,0"], "duplicates of output must be at most its 32 channels, not 33"),
        (["--duplicates", "0,0,0,65"], "duplicates of down must be at most its 64 channels, not 65"),
    ],
)
def test_option_out_of_range(capsys, options, message):
    assert exit_code("--model", "reduced", *options) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {message}") and printed.err.count("\n") == 1
    assert not printed.out


@pytest.mark.parametrize("options", [["--layers"], ["--duplicates"], ["--layers", "x"], ["--seed", "1.5"]])
def test_option_that_cannot_be_read(capsys, options):
    assert exit_code("--model", "reduced", *options) == 2
    assert capsys.readouterr().err.startswith("error: ")
