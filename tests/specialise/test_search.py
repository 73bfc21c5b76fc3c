"""The whole path on film reviews: search, files, report; and that the search can't see the test set."""

import json

import pytest
from safetensors.torch import load_file

from bertha.cli import main
from bertha.models.encoder import load_model
from bertha.specialise.ablation import ATTENTION, FFN, Curve
from bertha.specialise.cycles import Costs
from bertha.specialise.greedy import descend_greedily
from bertha.specialise.knapsack import cycles_of, kept_of, levels_for
from bertha.specialise.search import Rung, Search, best_rung
from tests.specialise.tasks import write_task

COSTS = Costs(whole=1000.0, head=20.0, neuron=5.0)


@pytest.fixture(autouse=True)
def costs(monkeypatch):
    """Cycles as of a large model: of a tiny one heads and neurons cost next to nothing."""
    monkeypatch.setattr("bertha.specialise.run.measure_costs", lambda config, tokens: COSTS)


def specialised(tuned, task, folder, *more):
    arguments = ["specialise", str(tuned), "--task", str(task), "--tokens", "16", "-o", str(folder), *more]
    assert main(arguments) == 0
    return folder


def test_the_search_cannot_see_the_test_set(tuned, task, tmp_path, capsys):
    other = write_task(tmp_path / "films", wrong_test=True)
    assert (other / "test.tsv").read_text() != (task / "test.tsv").read_text()
    found = [
        specialised(tuned, place, tmp_path / name, "--budget", "20", "--hard-attention", "2,5")
        for name, place in (("one", task), ("two", other))
    ]
    for name in ("special.json", "decisions.jsonl", "model.safetensors"):
        assert len({(folder / name).read_bytes() for folder in found}) == 1
    reports = [json.loads((folder / "report.json").read_text()) for folder in found]
    assert reports[0]["search"] == reports[1]["search"]
    assert reports[0]["models"] != reports[1]["models"]


def test_a_specialised_model_is_smaller_and_reported(tuned, task, tmp_path, capsys):
    folder = specialised(tuned, task, tmp_path / "special", "--budget", "20", "--integer", "4")
    report = json.loads((folder / "report.json").read_text())
    whole, pruned = report["models"]["baseline"], report["models"]["pruned"]
    assert pruned["cycles"] < whole["cycles"] and pruned["weight_bytes"] < whole["weight_bytes"]
    assert pruned["integer_rows"] == 4 and pruned["integer"] is not None
    assert report["search"]["evaluations"] == len(report["search"]["rungs"])
    assert [(len(load_model(folder).bert.encoder.layer), len(load_file(folder / "model.safetensors")))] == [
        (2, len(load_file(tuned / "model.safetensors")))
    ]
    again = ["specialise", str(folder), "--task", str(task), "-o", str(tmp_path / "again")]
    assert main(again) == 2 and "must be whole" in capsys.readouterr().err
    assert main(["specialise", "--report", str(folder), "-o", str(tmp_path)]) == 0
    assert "films" in capsys.readouterr().out
    page = (tmp_path / "specialised.html").read_text()
    assert "films" in page and "Plotly.newPlot" in page
    assert main(["specialise", "--report", str(tuned), "-o", str(tmp_path)]) == 2
    assert "must be a report of bertha specialise" in capsys.readouterr().err


def test_greedy_looks_at_blocks_first(encoder, training):
    counts = {}
    for blocks in (True, False):
        events = []
        search = Search(encoder, training, COSTS, notify=events.append)
        kept = descend_greedily(search, 100.0, blocks=blocks)  # everything may go
        assert kept == {(index, kind): () for index in (0, 1) for kind in (ATTENTION, FFN)}
        counts[blocks] = search.evaluations
        layers = [event["layer"] for event in events if event["what"] == "candidate"]
        assert layers == sorted(layers, reverse=True)
    assert counts == {True: 4, False: 2 * (4 + 12)}


def test_greedy_keeps_what_helps(encoder, training):
    events = []
    search = Search(encoder, training, COSTS, notify=events.append)
    kept = descend_greedily(search)
    now = search.whole.loss
    for event in events[1:]:
        assert event["goes"] == (event["loss"] < now and event["better"] > 0.5)
        now = event["loss"] if event["goes"] else now
    assert any(event["goes"] for event in events[1:]) == any(
        len(units) < {ATTENTION: 4, FFN: 24}[key[1]] for key, units in kept.items()
    )


def test_the_knapsack_takes_what_costs_least():
    curves = {
        (0, ATTENTION): Curve([[0], [1]], [0, 8, 20]),  # 20 cycles each
        (0, FFN): Curve([[0, 1], [2, 3]], [0, 1, 9]),  # 10 cycles each
    }
    levels = levels_for(curves, COSTS, 990)
    assert levels == {(0, ATTENTION): 0, (0, FFN): 1} and cycles_of(curves, levels, COSTS) == 990
    assert kept_of(curves, levels_for(curves, COSTS, 970)) == {(0, ATTENTION): (1,), (0, FFN): (2, 3)}
    assert kept_of(curves, levels_for(curves, COSTS, 0)) == {(0, ATTENTION): (), (0, FFN): ()}


def test_luck_further_down_doesnt_count():
    rungs = [
        Rung(kept={}, cycles=cycles, accuracy=0.9, loss=1.0, fallen=fallen)
        for cycles, fallen in ((90, -0.1), (80, 0.4), (70, 0.6), (60, 0.3))
    ]
    assert [best_rung(rungs, budget) for budget in (-0.5, 0, 0.5, 1)] == [None, rungs[0], rungs[1], rungs[3]]


@pytest.mark.parametrize(
    "more, sentence",
    [
        (["--hard-attention", "0"], "keys of hard attention must be from 1 to the 16 tokens of a run, not 0"),
        (
            ["--hard-attention", "17"],
            "keys of hard attention must be from 1 to the 16 tokens of a run, not 17",
        ),
        (["--budget", "-1"], "the budget must be from 0 to 100 points, not -1"),
        (["--method", "luck"], "--method must be one of reconstruct, fisher"),
    ],
)
def test_options_that_are_refused(tuned, task, tmp_path, capsys, more, sentence):
    arguments = ["specialise", str(tuned), "--task", str(task), "--tokens", "16", "-o", str(tmp_path / "out")]
    assert main([*arguments, *more]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_models_that_are_refused(model, task, tmp_path, capsys):
    assert main(["specialise", str(model), "--task", str(task), "-o", str(tmp_path / "out")]) == 2
    assert "must have a classification head" in capsys.readouterr().err
    assert main(["specialise", str(model)]) == 2
    assert "must be given --task" in capsys.readouterr().err
