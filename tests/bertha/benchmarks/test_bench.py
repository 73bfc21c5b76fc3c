"""`bertha bench`: what is chosen, kept, shown and written."""

import json

import pytest

from bertha.benchmarks import catalogue
from bertha.benchmarks.benchmark import Benchmark, Measured, Target
from bertha.benchmarks.context import Context, KeptFigures
from bertha.benchmarks.results import BEGIN, END, update_document
from bertha.benchmarks.run import kept_result, run_benchmark
from bertha.cli import main
from bertha.commands import bench
from bertha.errors import ToolError
from bertha.folders import CHECKOUT


class Figure:
    """A benchmark that tells how often it was measured."""

    def __init__(self, name, value, **facts):
        self.value, self.times = value, 0
        facts = {"target": Target(">=", 0.5), **facts}
        self.benchmark = Benchmark(name=name, what=f"what {name} is", measure=self._measure, **facts)

    def _measure(self, context):
        self.times += 1
        if isinstance(self.value, Exception):
            raise self.value
        return Measured(self.value, f"measured {self.times} times")


@pytest.fixture
def bertha_bench(monkeypatch, tmp_path, capsys):
    """Gives benchmarks to the command, and runs it: exit code, the rows of its table, standard error, the report."""
    monkeypatch.setattr(bench, "BUILD", tmp_path)
    monkeypatch.setattr(bench, "CHECKOUT", tmp_path / "checkout")
    document = tmp_path / "checkout" / "docs" / "results.md"
    document.parent.mkdir(parents=True)
    document.write_text(f"# Results\n{BEGIN}\nold\n{END}\nmore\n")

    def run(found, *arguments):
        benchmarks = {figure.benchmark.name: figure.benchmark for figure in found}
        monkeypatch.setattr(catalogue, "BENCHMARKS", benchmarks)
        code = main(["bench", *arguments])
        streams = capsys.readouterr()
        rows = [
            [cell.strip() for cell in line.split("│")[1:-1]]
            for line in streams.out.splitlines()
            if "│" in line
        ]
        file = tmp_path / "bench" / "report.json"
        report = json.loads(file.read_text()) if file.exists() else None
        return code, rows, streams.err, report

    run.document = document
    return run


def test_all_in_one_table(bertha_bench):
    """What is met and what isn't, what can't be measured, the JSON, and the document."""
    figures = [
        Figure("good", 0.75),
        Figure("bad", 0.25),
        Figure("fast", 12.5, target=Target("<=", 60, "s"), runs=False),
        Figure("broken", ToolError("no tool")),
    ]
    code, rows, error, report = bertha_bench(figures)
    assert code == 1
    assert [row[:5] for row in rows if row[0]] == [
        ["good", "≥ 50.00 %", "75.00 %", "yes", "RTL"],
        ["bad", "≥ 50.00 %", "25.00 %", "NO", "RTL"],
        ["fast", "≤ 60.0 s", "12.5 s", "yes", "timed"],
        ["broken", "≥ 50.00 %", "", "?", "failed"],
    ]
    assert "failed: broken: no tool" in error
    wanted = [("good", 0.5, 0.75, True), ("bad", 0.5, 0.25, False), ("fast", 60, 12.5, True)]
    wanted.append(("broken", 0.5, None, None))
    assert [tuple(item[key] for key in ("name", "target", "measured", "ok")) for item in report] == wanted
    text = bertha_bench.document.read_text()
    assert text.startswith(f"# Results\n{BEGIN}\n| benchmark") and text.endswith(f"{END}\nmore\n")
    assert "| `bad`: what bad is (measured 1 times) | ≥ 50.00 % | 25.00 % | **no** | RTL |" in text
    assert "old" not in text


def test_one_alone_is_taken_up_by_the_rest(bertha_bench):
    """Nothing is measured twice; what wasn't chosen is reported as it is known."""
    one, two = Figure("one", 0.75), Figure("two", 0.5)
    code, rows, _, report = bertha_bench([one, two], "--only", "two")
    assert code == 0
    assert [row[0] for row in rows if row[0]] == ["two"]
    assert [(item["name"], item["measured"], item["how"]) for item in report] == [
        ("one", None, "not measured"),
        ("two", 0.5, "RTL"),
    ]
    assert bertha_bench([one, two])[0] == 0
    assert (one.times, two.times) == (1, 1)
    assert bertha_bench([one, two], "--again", "--only", "one,two")[0] == 0
    assert (one.times, two.times) == (2, 2)
    _, rows, _, _ = bertha_bench([one, two], "--list")
    assert [row[2] for row in rows if row[0]] == ["75.00 %", "50.00 %"]
    assert (one.times, two.times) == (2, 2)


def test_predictions_stay_apart(bertha_bench):
    """They aren't taken for RTL, aren't in the document, and what has none is left out."""
    figures = [Figure("one", 0.75), Figure("stalls", 0.75, needs_rtl=True)]
    code, rows, _, report = bertha_bench(figures, "--predicted")
    assert code == 0
    assert [row[4] for row in rows if row[0]] == ["predicted", "needs RTL"]
    assert [item["how"] for item in report] == ["predicted", "needs RTL"]
    assert "old" in bertha_bench.document.read_text()
    assert bertha_bench(figures)[3][0]["how"] == "RTL"
    assert figures[0].times == 2


def test_no_such_benchmark(capsys):
    assert main(["bench", "--only", "speed-tiny4"]) == 2
    error = capsys.readouterr().err
    assert "a benchmark must be one of minilm-server32, " in error and "not 'speed-tiny4'" in error


def test_figures_of_other_sources_are_forgotten(tmp_path):
    """Nor is a line that was cut off in the way."""
    figure = Figure("one", 0.75)
    file = tmp_path / "kept.jsonl"
    run_benchmark(figure.benchmark, Context(KeptFigures(file, code="old")))
    assert kept_result(figure.benchmark, KeptFigures(file, code="old"), predicted=False).value == 0.75
    assert kept_result(figure.benchmark, KeptFigures(file, code="new"), predicted=False).value is None
    with file.open("a") as lines:
        lines.write('{"key": "cut o')
    assert kept_result(figure.benchmark, KeptFigures(file, code="old"), predicted=False).value == 0.75


@pytest.mark.parametrize(
    ("target", "shown", "met", "missed"),
    [
        (Target(">=", 0.98), "≥ 98.00 %", 0.98, 0.9799),
        (Target("<=", 0.02), "≤ 2.00 %", 0.02, 0.0201),
        (Target("<=", 0.005, strict=True), "< 0.50 %", 0.0049, 0.005),
        (Target(">=", 400_000, "cycles/s"), "≥ 400,000 cycles/s", 400_001, 399_999),
        (Target("<=", 1, "x"), "≤ 1.000", 1, 1.01),
    ],
)
def test_targets(target, shown, met, missed):
    assert str(target) == shown
    assert target.holds(met) and not target.holds(missed)


def test_the_document_has_a_place_for_it(tmp_path):
    text = (CHECKOUT / "docs" / "results.md").read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    other = tmp_path / "other.md"
    other.write_text("nothing")
    assert not update_document(other, [])
    assert other.read_text() == "nothing"
