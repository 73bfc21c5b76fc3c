"""Two reports side by side: values, differences and ratios, in the terminal and on the page; what is no report."""

import copy
import json
import re

import pytest

from bertha.cli import main

RUN = {
    "preset": "edge16",
    "array_n": 16,
    "model": "minilm",
    "recipe": "w8a8",
    "packing": "static",
    "tokens": 100,
    "padding": 28,
    "seq": 128,
    "memory_latency": 100,
    "memory_bandwidth": 8.0,
    "bit_exact": True,
    "cycles": 2000,
    "macs": 400_000,
    "utilization": 0.5,
    "padded_utilization": 0.625,
    "dram_bytes_read": 3000,
    "dram_bytes_written": 10,
    "engine_busy": {"gemm": 1000, "load": 500},
    "cosine_mean": 0.999,
    "cosine_min": 0.99,
    "embedding_cosine_mean": 0.9991,
    "embedding_cosine_min": 0.998,
    "snr_db": 30.0,
    "max_error": 0.25,
    "sim_cycles_per_second": 70_000.0,
    "sequences": [],
    "ops": [],
    "kinds": [
        {"name": "scores", "engine": "gemm", "busy_cycles": 400, "macs": 100, "dram_bytes": 0, "commands": 1},
        {"name": "weights (DMA)", "engine": "load", "busy_cycles": 500, "macs": 0, "dram_bytes": 2900},
    ],
    "embedding": {"name": "embedding", "cycles": 200, "utilization": 0.0},
    "layers": [{"name": "layer 0", "cycles": 1800, "utilization": 0.55}],
    "engines": {"gemm": {"working": 1000, "semaphore_load": 1000, "idle": 0}},
}
"""What a whole model's report has, as far as it is compared."""


def changed(**changes):
    return {**copy.deepcopy(RUN), **changes}


def layer_run():
    """A layer's report; heads and panels of an operation belong together."""
    rows = [("layer0.scores.head0", 30), ("layer0.scores.head1", 40), ("layer0.weights.query.panel3", 7)]
    ops = [
        {"name": name, "engine": "load" if "weights" in name else "gemm", "busy_cycles": busy, "macs": 1}
        | {"dram_bytes": 5, "start": 0, "end": 1, "commands": 1}
        for name, busy in rows
    ]
    left = {
        key: value for key, value in RUN.items() if key not in ("recipe", "packing", "kinds", "embedding")
    }
    names = ("embedding_cosine_mean", "embedding_cosine_min")
    return {**left, "recipe": None, "layers": [0], "ops": ops, **dict.fromkeys(names)}


@pytest.fixture
def written(tmp_path):
    """Writes a report into a folder of this name; the folder."""

    def write(name, content):
        folder = tmp_path / name
        folder.mkdir()
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / "report.json").write_text(text, encoding="utf-8")
        return folder

    return write


def compare(capsys, *arguments):
    """Exit code, table rows as lists of cells, and what is on standard error."""
    code = main(["compare", *map(str, arguments)])
    streams = capsys.readouterr()
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in streams.out.splitlines() if "│" in line
    ]
    return code, rows, streams.err


def test_two_runs(written, tmp_path, capsys):
    """Every kind of figure, one that only one side has, and what the same on both sides looks like."""
    faster = changed(
        cycles=1500,
        utilization=2 / 3,
        cosine_mean=0.9985,
        kinds=[
            {"name": "scores", "engine": "gemm", "busy_cycles": 300, "macs": 100, "dram_bytes": 0},
            {"name": "softmax", "engine": "vector", "busy_cycles": 90, "macs": 0, "dram_bytes": 0},
            {"name": "weights (DMA)", "engine": "load", "busy_cycles": 500, "macs": 0, "dram_bytes": 1450},
        ],
        layers=[{"name": "layer 0", "cycles": 1350, "utilization": 0.7}],
        engines={"gemm": {"working": 1000, "semaphore_load": 500, "idle": 0}},
    )
    page = tmp_path / "pages" / "compared.html"
    code, rows, error = compare(
        capsys, written("slow", RUN), written("fast", faster) / "report.json", "--html", page
    )
    assert (code, error) == (0, "")
    for row in (
        ["cycles", "2,000", "1,500", "-500", "0.7500"],
        ["MACs", "400,000", "400,000", "0", "1.0000"],
        ["utilisation", "50.00 %", "66.67 %", "+16.67 %", "1.3333"],
        ["cosine, mean", "0.99900", "0.99850", "-0.00050", "0.9995"],
        ["gemm busy", "50.00 %", "66.67 %", "+16.67 %", "1.3333"],
        ["scores", "gemm", "400", "300", "-100", "0.7500"],
        ["softmax", "vector", "0", "90", "+90", ""],
        ["weights (DMA)", "load", "2,900", "1,450", "-1,450", "0.5000"],
        ["embedding", "200", "200", "0", "1.0000", "0.00 %", "0.00 %"],
        ["layer 0", "1,800", "1,350", "-450", "0.7500", "55.00 %", "70.00 %"],
        ["gemm", "semaphore load", "1,000", "500", "-500", "0.5000"],
    ):
        assert row in rows
    assert not any(row[:2] == ["gemm", "idle"] for row in rows)
    text = page.read_text(encoding="utf-8")
    assert "Busy cycles by kind of operation" in text and '"y":[400,500,0]' in text.replace(" ", "")
    assert not re.search(r"<(script|link)[^>]+(src|href)=(?!.data:)", text)


def test_two_layers(written, tmp_path, capsys):
    code, rows, _ = compare(
        capsys, written("a", layer_run()), written("<b>", layer_run()), "--html", tmp_path / "x.html"
    )
    assert code == 0
    assert ["scores", "gemm", "70", "70", "0", "1.0000"] in rows
    assert ["weights.query", "load", "7", "7", "0", "1.0000"] in rows
    assert not any(row[0].startswith("embedding") for row in rows)
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page and "/<b>/" not in page


def test_two_predictions(tmp_path, capsys):
    """What `bertha predict --json` prints; the memory's latency shows."""
    files, found = [], []
    for latency in (10, 400):
        shape = "hidden=16,heads=2,ffn=32,layers=4"
        arguments = ["--preset", "tiny4", "--tokens", "8", "--latency", str(latency), "--json"]
        assert main(["predict", shape, *arguments]) == 0
        text = capsys.readouterr().out
        file = tmp_path / f"latency{latency}.json"
        file.write_text(text, encoding="utf-8")
        files.append(file)
        found.append(json.loads(text))
    code, rows, _ = compare(capsys, *files, "--html", tmp_path / "x.html")
    assert code == 0
    first, second = (prediction["cycles"] for prediction in found)
    assert second > first
    assert ["cycles", f"{first:,}", f"{second:,}", f"+{second - first:,}", f"{second / first:.4f}"] in rows
    dram = [prediction["activity"]["load"]["dram"] for prediction in found]
    assert any(row[:4] == ["load", "dram", f"{dram[0]:,}", f"{dram[1]:,}"] for row in rows)
    assert any(row[0] == "layer 0" for row in rows)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"cycles": 1', "must be JSON, but is damaged"),
        ("[1, 2]", "must be a report of `bertha sim` or of `bertha predict --json`, but is neither"),
        ('{"cycles": 1}', "but is neither"),
        (changed(kinds=[{"name": "scores"}]), "must be a whole report, but has no 'engine'"),
        (changed(cycles=0), "must be a whole report, but a value is wrong"),
        (changed(engines=3), "must be a whole report, but a value is wrong"),
        (layer_run(), "both must be of one kind, but"),
    ],
)
def test_what_is_no_report(written, content, sentence, capsys):
    code, rows, error = compare(capsys, written("right", RUN), written("wrong", content))
    assert code == 2
    assert sentence in error and error.count("\n") == 1
    assert rows == []


def test_no_file(tmp_path, capsys):
    code, _, error = compare(capsys, tmp_path, tmp_path / "nowhere")
    assert code == 2
    assert "report.json must be a report of `bertha sim`, but there is no such file" in error
    (tmp_path / "report.json").write_bytes(b"\xff\xfe\x00")
    code, _, error = compare(capsys, tmp_path, tmp_path)
    assert (code, "but is no text" in error) == (2, True)
