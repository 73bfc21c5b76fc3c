"""Pruned models: dense with zeros, really smaller, and on disk are the same; what is repaired is nearer."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from bertha.cli import main
from bertha.golden import floating
from bertha.models.encoder import load_model
from bertha.models.errors import ModelError
from bertha.models.hard_attention import HardAttention
from bertha.models.structure import FILE, read_structure
from bertha.specialise.ablation import ATTENTION, FFN, curves, measure
from bertha.specialise.batches import label_sentences
from bertha.specialise.export import DENSE, export, structure_of
from bertha.specialise.prune import Repair, embedded_in, prune
from bertha.specialise.rows import embed_rows, run_layers

KEPT = {(0, ATTENTION): (1, 3), (0, FFN): (), (1, ATTENTION): (), (1, FFN): (0, 1, 5, 22)}
WHOLE = {ATTENTION: (0, 1, 2, 3), FFN: tuple(range(24))}


@pytest.fixture
def batches(encoder, training):
    sentences = label_sentences(encoder, training.fit, 16)
    return embed_rows(encoder, sentences, training.numbers(training.fit))


def outputs(layers, batches):
    return torch.cat([batch.states[batch.real] for batch in run_layers(layers, batches)])


def distance(left, right):
    return float((left - right).abs().max())


@pytest.mark.parametrize("repaired", [False, True], ids=["as it was", "repaired"])
def test_smaller_modules_compute_what_zeros_do(encoder, batches, repaired):
    repair = Repair.of(encoder, batches, measure(encoder, batches)) if repaired else None
    pruned = prune(encoder, KEPT, repair)
    assert pruned.layers[0].attention.output.dense.in_features == 10
    assert [layer.output.dense.in_features for layer in pruned.layers] == [0, 4]
    rows = embedded_in(pruned, encoder, batches)
    dense = pruned.encoder.bert.encoder.layer
    assert distance(outputs(pruned.layers, rows), outputs(dense, rows)) < 1e-5
    assert distance(outputs(dense, rows), outputs(encoder.bert.encoder.layer, batches)) > 0.01
    assert not dense[0].output.dense.bias.any() and not dense[1].attention.output.dense.bias.any()


def test_the_quantiser_sees_what_is_left(encoder):
    pruned = prune(encoder, {**KEPT, (0, FFN): (2, 3), (1, ATTENTION): (0,)}).encoder
    weights = [floating.layer_weights(pruned, index) for index in (0, 1)]
    assert [(one.heads, one.query.shape, one.down.shape) for one in weights] == [
        (2, (10, 20), (20, 2)),
        (1, (5, 20), (20, 4)),
    ]


def test_repair_comes_nearer_to_the_whole_model(encoder, batches):
    repair = Repair.of(encoder, batches, measure(encoder, batches))
    wanted = outputs(encoder.bert.encoder.layer, batches)
    kept = {key: WHOLE[key[1]][: len(WHOLE[key[1]]) * 3 // 4] for key in KEPT}
    found = {}
    for name, how in (("plain", None), ("repaired", repair)):
        pruned = prune(encoder, kept, how)
        got = outputs(pruned.layers, embedded_in(pruned, encoder, batches))
        first = np.cumsum([0, *(int(n) for batch in batches for n in batch.real.sum(dim=1))])[:-1]
        found[name] = float((got - wanted)[first].square().mean())  # the token that the head reads
    assert found["repaired"] < 0.8 * found["plain"]


@pytest.mark.parametrize("method", ["reconstruct", "fisher", "magnitude", "random"])
def test_curves_let_all_units_go_once(encoder, batches, method):
    for key, curve in curves(measure(encoder, batches), method, heads=4).items():
        assert sorted(unit for step in curve.steps for unit in step) == list(WHOLE[key[1]])
        assert curve.kept(0) == WHOLE[key[1]] and curve.kept(len(curve.steps)) == ()
        assert (np.diff(curve.errors) >= -1e-9 * curve.errors.max()).all(), (key, curve.errors)


def test_a_dead_unit_goes_first(encoder, batches):
    layer = encoder.bert.encoder.layer[1]
    layer.output.dense.weight[:, 7] = 0
    layer.attention.output.dense.weight[:, 10:15] = 0
    statistics = measure(encoder, batches)
    for method in ("reconstruct", "fisher", "magnitude"):
        found = curves(statistics, method, heads=4)
        assert found[1, FFN].steps[0] == [7] and found[1, ATTENTION].steps[0] == [2]
        assert found[1, FFN].errors[1] == pytest.approx(0, abs=1e-9)


def test_on_disk_only_what_is_left(encoder, tuned, tmp_path):
    pruned = prune(encoder, KEPT).encoder
    hard = HardAttention((3, 0))
    export(tuned, pruned, structure_of(encoder, KEPT, hard), tmp_path / "special")
    loaded = load_model(tmp_path / "special")
    assert loaded.hard_attention == hard
    wanted = pruned.bert.state_dict()
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in loaded.bert.state_dict().items())
    small, dense = (
        (place / "model.safetensors").stat().st_size
        for place in (tmp_path / "special", tmp_path / "special" / DENSE)
    )
    assert small < dense
    ids = torch.tensor([[2, 5, 9, 3]])
    anyone = AutoModelForSequenceClassification.from_pretrained(tmp_path / "special" / DENSE).eval()
    with torch.inference_mode():
        ours = encoder.classifier(pruned.run(ids, torch.ones_like(ids)).last_hidden_state[0].numpy())
        assert np.allclose(anyone(input_ids=ids).logits[0].numpy(), ours, atol=1e-5)


@pytest.mark.parametrize(
    "entry, sentence",
    [
        ('{"layer": 2}', "layer must be from 0 to 1, not 2"),
        ('{"layer": 0, "heads": [0, 4]}', "layer 0's heads must be from 0 to 3, not 4"),
        ('{"layer": 0, "neurons": "0-24"}', "layer 0's neurons must be from 0 to 23, not 24"),
        ('{"layer": 0, "neurons": "a"}', "layer 0's neurons must be ranges such as '0-127 200', not 'a'"),
        ('{"layer": 0, "neurons": "3 1"}', "layer 0's neurons must be ascending"),
        ('{"layer": 0, "attention_keys": 0}', "layer 0's attention_keys must be from 1 to 64, not 0"),
        ('{"layer": 0}, {"layer": 0}', "must name every layer once, but names 0 twice"),
        ("3", "every entry of layers must be an object, not 3"),
    ],
)
def test_structures_that_are_refused(encoder, tuned, tmp_path, entry, sentence, capsys):
    export(tuned, encoder, structure_of(encoder, {key: WHOLE[key[1]] for key in KEPT}), tmp_path / "special")
    path = tmp_path / "special" / FILE
    path.write_text(f'{{"layers": [{entry}]}}')
    with pytest.raises(ModelError) as caught:
        read_structure(path, encoder.config)
    assert sentence in str(caught.value)
    assert main(["compile", str(tmp_path / "special")]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith("error: ") and sentence in error[-1]
