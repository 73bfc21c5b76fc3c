"""Whole models through the whole flow: packed, padded and alone, every byte equals the integer model."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bertha.cli import main
from bertha.compiler.compile import compile_model
from bertha.compiler.packing import pack_sentences
from bertha.folders import BUILD
from bertha.golden import integer_model
from bertha.models.embedding import embedding_sums
from bertha.models.text import random_sentences
from bertha.quantize.cache import cached_model
from bertha.quantize.model import quantize_model
from bertha.quantize.quantizer import Operands, Settings
from bertha.rtl.config import preset
from bertha.sim.options import ModelOptions
from bertha.sim.packed import TEXTS
from bertha.sim.run import run_model
from tests.bertha.small import small_folder
from tests.sim.chip import chip, equal

LENGTHS = [3, 100, 5, 17, 9, 40, 26, 64]
LINEAR = 4 * 32 * 32 + 2 * 32 * 64  # of a token in a layer of the reduced model


def run(**options):
    output = io.StringIO()
    report = run_model(ModelOptions(**options), Console(file=output, width=140))
    return report, output.getvalue()


@pytest.fixture(scope="module")
def sentences(reduced):
    """The reduced model in integers, and embedding sums of eight sentences of 3 to 100 tokens."""
    model = cached_model(reduced, "w8a8-split", folder=BUILD / "quantized")
    made = [random_sentences(reduced, 1, length, seed=length)[0] for length in LENGTHS]
    sums = [embedding_sums(reduced, sentence) for sentence in made]
    return model, [integer_model.quantise_input(part, model.embedding_scale) for part in sums]


@pytest.mark.parametrize(
    "wide", [{"value"}, {"value", "output"}, {"value", "projections", "output", "intermediate", "down"}]
)
def test_a_wide_value(reduced, sentences, monkeypatch, wide):
    """V of two planes, as the quantiser makes it: alone and beside other wide operands, in a program for any packing."""
    monkeypatch.setattr(
        "bertha.quantize.model.plan_operands",
        lambda encoder, recipe, chosen: [Operands(wide=frozenset(wide))] * encoder.layers,
    )
    model = quantize_model(reduced, settings=Settings(calibration=24))
    assert all(layer.value_wide and layer.context_wide == ("output" in wide) for layer in model.layers)
    rows = [part for part in sentences[1] if len(part) < 30]
    packing, config = pack_sentences([len(part) for part in rows], 64)[0], preset("tiny4")
    x16 = packing.gather(rows, model.hidden)
    expected = integer_model.run_model(model, x16, packing.ranges)
    high, _ = np.split(expected["layers"][0]["value"].astype(int), 2, axis=1)
    assert np.abs(high).max() > 8
    for ranges in (None, packing.ranges):
        program = compile_model(model, config, tokens=len(x16), ranges=ranges)
        pieces = program.input_pieces(x16=x16, ranges=packing.ranges)
        assert equal(chip(config).run(program, [pieces])[0], expected["output16"])


@pytest.mark.parametrize("name", ["tiny4", "edge8", "edge16", "server32"])
def test_packed_padded_and_alone(sentences, name):
    """Three ways to run eight sentences, the same bytes."""
    model, rows = sentences
    config = preset(name)
    on_chip = chip(config)
    alone = []
    for part in rows:
        program = compile_model(model, config, tokens=len(part))
        alone += on_chip.run(program, [program.input_pieces(x16=part)])
    for result, expected in zip(alone, integer_model.run_sentences(model, rows), strict=True):
        assert equal(result, expected)

    any_packing = compile_model(model, config, tokens=max(LENGTHS))
    packings = pack_sentences(LENGTHS, max(LENGTHS))
    assert len(packings) < len(LENGTHS) and any(len(packing.sentences) > 2 for packing in packings)
    padded = [
        replace(pack_sentences([length], max(LENGTHS))[0], sentences=(number,))
        for number, length in enumerate(LENGTHS)
    ]
    for runs in (packings, padded):
        inputs = [
            any_packing.input_pieces(x16=packing.gather(rows, model.hidden), ranges=packing.ranges)
            for packing in runs
        ]
        for result, packing in zip(on_chip.run(any_packing, inputs), runs, strict=True):
            for place, number in zip(packing.places, packing.sentences, strict=True):
                assert equal(result[place], alone[number])

    # A program for one packing leaves attention tiles out, and no byte differs.
    packing = max(packings, key=lambda packing: len(packing.sentences))
    static = compile_model(model, config, tokens=packing.tokens, ranges=packing.ranges)
    (result,) = on_chip.run(static, [static.input_pieces(x16=packing.gather(rows, model.hidden))])
    for place, number in zip(packing.places, packing.sentences, strict=True):
        assert equal(result[place], alone[number])


@pytest.mark.parametrize("recipe", ["w8a8-split", "a16"])
def test_recipes_of_a_reduced_model(recipe):
    """The whole flow under cocotb, from the model's name to the report."""
    report, text = run(model="reduced", preset="tiny4", seq=48, recipe=recipe)
    assert report.bit_exact
    assert report.embedding_cosine_min > 0.998
    assert report.recipe == recipe and f"2 layers, {recipe}" in text
    lengths = [item["tokens"] for item in report.sentences]
    assert sum(lengths) == report.tokens == 48
    useful = 2 * sum(tokens * LINEAR + 2 * tokens * tokens * 32 for tokens in lengths)
    assert report.macs == useful
    assert report.useful_utilization == report.utilization == useful / (16 * report.cycles)
    assert report.embedding.cycles + sum(layer.cycles for layer in report.layers) == report.cycles
    assert sum(layer.macs for layer in report.layers) == sum(kind.macs for kind in report.kinds) == useful
    assert "every byte equals the integer model, packed and each sentence alone" in text
    assert "int8 operands of all layers: made on the accelerator" in text


def test_a_difference_fails(monkeypatch, capsys):
    """One wrong bit of a sentence alone, or of the packed run, is found and told, and the command fails."""
    packed, alone = integer_model.run_model, integer_model.run_sentences

    def wrong_packed(*arguments):
        result = packed(*arguments)
        result["output16"][3, 5] ^= 1
        return result

    def wrong_alone(*arguments):
        result = alone(*arguments)
        result[1][0, 7] ^= 1
        return result

    arguments = ["sim", "--model", "reduced", "--preset", "tiny4", "--seq", "8"]
    monkeypatch.setattr(integer_model, "run_model", wrong_packed)
    assert main(arguments) == 1
    assert "1 of 256 values, first at token 3, feature 5" in capsys.readouterr().err
    monkeypatch.setattr(integer_model, "run_model", packed)
    monkeypatch.setattr(integer_model, "run_sentences", wrong_alone)
    assert main(arguments) == 1
    streams = capsys.readouterr()
    assert "sentence 2, which alone gives other values: 1 of 64 values, first at token 0" in streams.err
    assert "DIFFERENT" in streams.out
    report = json.loads((BUILD / "sim" / "reduced-s8-tiny4" / "report.json").read_text())
    assert report["bit_exact"] is False


def test_the_report_is_as_promised():
    run(model="reduced", preset="tiny4", seq=12)
    report = json.loads((BUILD / "sim" / "reduced-s12-tiny4" / "report.json").read_text())
    promised = (
        "preset array_n model seq cycles macs utilization bit_exact cosine_min cosine_mean snr_db ops sequences "
        "useful_utilization sentences embedding_cosine_min embedding_cosine_mean layers kinds recipe saturations"
    )
    assert set(promised.split()) <= set(report)
    assert {"text", "tokens", "embedding_cosine"} <= set(report["sentences"][0])
    cosines = [item["embedding_cosine"] for item in report["sentences"]]
    assert report["embedding_cosine_min"] == min(cosines)
    assert report["embedding_cosine_mean"] == pytest.approx(np.mean(cosines))
    assert {"name", "index", "cycles", "macs", "utilization"} <= set(report["layers"][0])
    assert {item["name"].split(".")[0] for item in report["ops"]} == {"layer0", "layer1"}


def test_minilm_on_edge16():
    """The real thing: a trained model, sentences of all lengths, at the speed that was promised."""
    report, text = run()
    assert report.bit_exact
    assert report.trained
    assert [item["text"] for item in report.sentences] == list(TEXTS)
    assert (report.tokens, report.padding, len(report.sequences)) == (128, 0, 1)
    # Each token's linear layers, and each sentence's own attention.
    own = sum(item["tokens"] ** 2 for item in report.sentences)
    assert report.macs == 6 * (128 * (4 * 384 * 384 + 2 * 384 * 1536) + 2 * own * 384)
    assert report.padded_utilization > report.useful_utilization > 0.85
    assert report.engine_busy["gemm"] >= 0.99 * report.cycles
    assert report.embedding_cosine_min >= 0.995
    assert report.embedding_cosine_mean >= 0.9985
    assert len(report.layers) == 6
    for label in ("embedding", "layer 5", "softmax", "P·V", "least", "bound by", TEXTS[0][:40]):
        assert label in text


@pytest.fixture
def reported(capsys):
    """What a run printed, and its report.json."""

    def read():
        text = capsys.readouterr().out
        path = re.search(r"^report +(.+)$", text, re.MULTILINE)[1]
        return text, json.loads(Path(path).read_text(encoding="utf-8"))

    return read


def test_sentences_from_a_file_and_from_the_standard_input(tmp_path, monkeypatch, reported):
    """A sentence a line; those that don't fit one program take several runs, of one program or of several."""
    folder = small_folder(tmp_path / "model")
    lines = ["the film was good", "a bad film", "slow , slow , slow . a bad film ?", "slowly ."]
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(lines), encoding="utf-8")
    arguments = ["sim", "--model", str(folder), "--preset", "tiny4", "--tokens", "12", "--recipe", "w8a8"]

    assert main([*arguments, "--text", str(file)]) == 0
    text, static = reported()
    assert [item["text"] for item in static["sentences"]] == lines
    runs = len(static["sequences"])
    assert 1 < runs < len(lines)
    assert f"4 sentences in {runs} runs of at most 12 tokens, a program for each packing" in text
    assert static["cycles"] == sum(item["cycles"] for item in static["sequences"])

    pairs = tmp_path / "pairs.txt"
    pairs.write_text("a film\twas good\nslow\tslowly .\n", encoding="utf-8")
    assert main([*arguments, "--pairs", "--text", str(pairs)]) == 0
    _, paired = reported()
    # [CLS] and two [SEP] beside the words; the second text has other segment embeddings.
    assert [(item["text"], item["tokens"]) for item in paired["sentences"]] == [
        ("a film | was good", 7),
        ("slow | slowly .", paired["sentences"][1]["tokens"]),
    ]

    with open(file, "rb") as stream:
        monkeypatch.setattr("bertha.sim.prepare.STDIN", f"/dev/fd/{stream.fileno()}")
        assert main([*arguments, "--text", "-", "--packing", "data"]) == 0
    text, data = reported()
    assert "one program for all packings" in text
    cosines = [[item["embedding_cosine"] for item in report["sentences"]] for report in (static, data)]
    assert cosines[0] == cosines[1]
    assert [item["tokens"] for item in data["sequences"]] == [item["tokens"] for item in static["sequences"]]
