"""Encoder layers through the whole flow: every byte equals the integer model, PyTorch is close."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from bertha.cli import main
from bertha.folders import BUILD
from bertha.golden import integer_model
from bertha.rtl.config import PRESETS, Config
from bertha.sim.memory import stray_bytes
from bertha.sim.options import LayerOptions
from bertha.sim.prepare import prepare
from bertha.sim.run import run_layer

TEXT = "A film that nobody should miss.\nDull.\n\nThe second half, sadly, doesn't keep what the first promised.\n"


def run(**options):
    with open("/dev/null", "w", encoding="utf-8") as nothing:
        return run_layer(LayerOptions(**options), Console(file=nothing, width=140))


@pytest.mark.parametrize("preset", ["tiny4", "edge8", "edge16"])
@pytest.mark.parametrize("seq", [1, 7, 33])
def test_reduced_layer(preset, seq):
    """A layer of odd sizes, at sequence lengths that are no multiple of any array."""
    options = {"model": "reduced", "preset": preset, "seq": seq, "latency": 30}
    report = run(**options, layer=1)
    assert report.bit_exact
    assert report.cosine_min > 0.99
    assert (report.layers, report.input_operand) == ([1], "host")
    assert report.macs == seq * (4 * 32 * 32 + 2 * 32 * 64) + 2 * seq * seq * 32


@pytest.mark.parametrize("preset", ["tiny4", "edge8", "edge16"])
def test_duplicated_channels(preset):
    """Residues of every kind (LayerNorm, context, GELU), in odd numbers, change time but no rule."""
    report = run(model="reduced", preset=preset, seq=18, duplicates=(3, 1, 2, 5))
    assert report.bit_exact
    assert report.cosine_min > 0.99


def test_a_difference_fails(monkeypatch, capsys):
    """One wrong bit in one value is found and told, and the command fails."""
    right = integer_model.run_layer

    def wrong(*arguments):
        result = right(*arguments)
        result["output16"][3, 5] ^= 1
        return result

    monkeypatch.setattr(integer_model, "run_layer", wrong)
    assert main(["sim", "--model", "reduced", "--preset", "tiny4", "--seq", "8", "--layer", "0"]) == 1
    streams = capsys.readouterr()
    assert "1 of 256 values, first at token 3, feature 5" in streams.err
    assert "did what every command of its program says" in streams.err
    assert "DIFFERENT" in streams.out
    report = json.loads((BUILD / "sim" / "reduced-layer0-s8-tiny4" / "report.json").read_text())
    assert report["bit_exact"] is False


def test_stray_bytes_are_those_outside_of_results_and_scratch():
    before = np.zeros(64, np.uint8)
    memory = SimpleNamespace(base=100, bytes=before.copy())
    memory.bytes[10:20] = 1
    assert stray_bytes(memory, before, [(110, 10)]) == 0
    assert stray_bytes(memory, before, [(111, 8)]) == 2
    assert stray_bytes(memory, before, [(111, 8), (150, 14)]) == 2
    memory.bytes[50:60] = 2
    assert stray_bytes(memory, before, [(110, 10)]) == 10
    assert stray_bytes(memory, before, [(110, 10), (150, 9)]) == 1


SMALL = Config(array_n=4, scratchpad_bytes=8192, scratchpad_banks=4, row_slots=16)


@pytest.mark.parametrize(
    ("seq", "duplicates", "kinds"),
    [
        (31, (0, 0, 0, 0), {"scores"}),
        (33, (2, 3, 1, 2), {"scores", "context"}),
        (41, (0, 0, 0, 0), {"scores", "operands", "context", "blocks", "residual ahead"}),
        (51, (2, 3, 1, 2), {"scores", "operands", "context", "blocks"}),
    ],
)
def test_plans_for_a_small_scratchpad(monkeypatch, seq, duplicates, kinds):
    """Whatever the planner does to fit a layer in: every byte is right, and none outside results and scratch."""
    monkeypatch.setitem(PRESETS, "small4", SMALL)
    options = {"model": "reduced", "preset": "small4", "seq": seq, "duplicates": duplicates}
    plan = prepare(LayerOptions(**options), notify=lambda what: None).program.plan
    assert kinds == {
        kind
        for kind, found in (
            ("scores", len(plan.attention_blocks) > 1),
            ("operands", len(plan.x_blocks) > 1),
            ("context", plan.choice.spill),
            ("blocks", len(plan.blocks) > 1),
            ("residual ahead", plan.choice.residual_sets > 1),
        )
        if found
    }
    report = run(**options)
    assert report.first_difference is None
    assert report.bit_exact


def test_slow_memory_changes_no_byte():
    """A memory of a byte a cycle makes it slower, not different."""
    fast = run(model="reduced", preset="tiny4", seq=20)
    slow = run(model="reduced", preset="tiny4", seq=20, bandwidth=1.0, latency=300)
    assert fast.bit_exact
    assert slow.bit_exact
    assert slow.cycles > 1.5 * fast.cycles
    assert slow.dram_bytes_read == fast.dram_bytes_read


@pytest.mark.parametrize(("latency", "bandwidth"), [(100, 0.02), (20_000, None)])
def test_timeouts_follow_the_memory(latency, bandwidth):
    """A memory that makes the run last millions of cycles is slow, not a fault."""
    report = run(model="reduced", preset="tiny4", seq=40, latency=latency, bandwidth=bandwidth)
    assert report.bit_exact
    assert report.cycles > 1_100_000


def test_minilm_layer_on_edge16():
    """The real thing: a trained layer, a real text of 128 tokens, at the speed that was promised."""
    report = run()
    assert report.bit_exact
    assert report.trained
    assert report.seq == 128
    assert [item["tokens"] for item in report.sequences] == [128]
    assert report.macs == 239_075_328
    assert report.utilization >= 0.98
    assert report.cosine_mean >= 0.999
    assert report.cosine_min >= 0.995
    written = json.loads((BUILD / "sim" / "minilm-layer0-s128-edge16" / "report.json").read_text())
    assert written["cycles"] == report.cycles
    assert sum(item["macs"] for item in written["ops"]) == report.macs
    assert all(0 < item["start"] <= item["end"] <= report.cycles for item in written["ops"])
    # Every byte on the bus belongs to an operation or to the program's own commands.
    moved = sum(item["dram_bytes"] for item in written["ops"])
    assert 0 < report.dram_bytes_read + report.dram_bytes_written - moved < 100_000


def test_strange_text_is_printed_as_it_is(tmp_path, capsys):
    """Markup, control characters, Windows' line ends, a folder with a space: a sentence is a sentence."""
    folder = tmp_path / "my [texts]"
    folder.mkdir()
    (folder / "a b.txt").write_bytes(b"\xef\xbb\xbfA [/b] film.\r\n\r\nBell\x07 and \x1b[31mred.\r\n")
    arguments = ["--layer", "0", "--preset", "edge8", "--seq", "3", "--text", str(folder / "a b.txt")]
    assert main(["sim", *arguments]) == 0
    text = capsys.readouterr().out
    assert "cycles from the doorbell (A [/b] film.)" in text
    assert "\x1b" not in text and "\x07" not in text
    assert "6 real of 6, no padding; 2 of 2 sequences truncated to 3 tokens" in text
    path = Path(re.search(r"^report +(.+)$", text, re.M)[1])
    report = json.loads(path.read_text(encoding="utf-8"))
    assert [item["name"] for item in report["sequences"]] == ["A [/b] film.", "Bell  and  [31mred."]
    assert report["truncated"] == 2


def test_padded_sentences(tmp_path):
    """Sentences of different lengths, padded and masked, one after another."""
    text = tmp_path / "sentences.txt"
    text.write_text(TEXT, encoding="utf-8")
    report = run(preset="edge8", seq=24, text=text)
    assert report.bit_exact
    tokens = [item["tokens"] for item in report.sequences]
    assert len(tokens) == 3
    assert max(tokens) <= 24
    assert min(tokens) < 6
    assert report.cycles == sum(item["cycles"] for item in report.sequences)
    assert (report.tokens, report.padding) == (sum(tokens), 3 * 24 - sum(tokens))
    # Only what real tokens have to do with real tokens counts, in the headline and in each operation.
    linear = 4 * 384 * 384 + 2 * 384 * 1536
    useful = [count * linear + 2 * count * count * 384 for count in tokens]
    assert [item["macs"] for item in report.sequences] == useful
    assert report.macs == sum(useful)
    assert sum(operation.macs for operation in report.ops) == useful[0]
    assert report.utilization == report.macs / (64 * report.cycles)
    assert report.padded_macs == 3 * (24 * linear + 2 * 24 * 24 * 384)
    assert all(item["cosine_min"] >= 0.995 for item in report.sequences)


@pytest.mark.parametrize("preset", ["edge8", "server32"])
def test_minilm_layer_on_other_arrays(preset):
    report = run(preset=preset)
    assert report.bit_exact


def test_bert_base_shape():
    """Hidden 768, 12 heads, FFN 3072; the weights are random, with a trained model's statistics."""
    report = run(model="synthetic-base")
    assert report.bit_exact
    assert not report.trained
