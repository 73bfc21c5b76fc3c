"""`bertha sweep`: results on disk, points that fail, sweeps that are taken up again, a scheduler that is there already."""

import csv
import json

import pytest
from distributed import LocalCluster

from bertha.cli import main
from bertha.compiler.predict import Timing, predict
from bertha.errors import ToolError
from bertha.prediction import Workload, compile_workload
from bertha.rtl.config import preset
from bertha.sweep import work
from bertha.sweep.execute import CHUNK, _chunks, run_points
from bertha.sweep.page import write_page
from bertha.sweep.points import grid, point_of
from bertha.sweep.store import Store
from tests.browser import opened

SMALL = ["--model", "reduced", "--preset", "tiny4", "--recipe", "w8a8"]


@pytest.fixture(scope="module")
def scheduler():
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


def swept(capsys, folder, *arguments, code=0):
    """Rows of the CSV, and what the command printed."""
    assert main(["sweep", *SMALL, "--out", str(folder), *map(str, arguments)]) == code
    captured = capsys.readouterr()
    with (folder / "predicted.csv").open(newline="") as file:
        return list(csv.DictReader(file)), captured


def test_local_processes(tmp_path, capsys):
    rows, captured = swept(capsys, tmp_path, "--tokens", "4,8", "--array", "4,8", "--workers", 1)
    assert len(rows) == 4
    for row in rows:
        config = preset("tiny4").replace(array_n=int(row["array_n"]))
        workload = Workload(model="reduced", tokens=int(row["tokens"]), recipe="w8a8")
        program, layers = compile_workload(workload, config)
        assert int(row["cycles"]) == predict(program, Timing(bandwidth=8), layers=layers).cycles
        assert int(row["multipliers"]) == config.array_n**2
        shares = ("working", "waits_load", "waits_vector", "waits_store", "other")
        assert sum(float(row[name]) for name in shares) == pytest.approx(1)
    assert "Pareto front" in captured.out
    assert f"plots  {tmp_path / 'predicted.html'}" in captured.out


def test_the_page_in_a_browser(tmp_path):
    """Three plots of two points each, one of which no other beats; nothing is fetched."""
    points = grid({"model": ["reduced"], "preset": ["tiny4"], "array_n": [4, 8]})
    costs = {"sentences_a_run": 1, "scratchpad_bytes": 1 << 16, "utilization": 0.5}
    rows = [
        (point, costs | {"multipliers": m, "cycles": c}) for point, m, c in zip(points, (16, 64), (900, 300))
    ]
    page = write_page(tmp_path / "page.html", rows, clock=1e8, title="2 <points>")
    found = opened(page, tmp_path)
    assert found["problems"] == [] and found["loaded"] == []
    assert [plot["traces"] for plot in found["plots"]] == [2, 2, 2]
    # Two points; and of the front its line and points: both have the same scratchpad, so there it is one point.
    assert [plot["marks"] for plot in found["plots"]] == [2 + 1 + 2, 2 + 1, 2 + 1 + 2]
    bar = "utilisation (%)"
    assert found["plots"][0]["titles"] == [bar, "multipliers of the array", "cycles a sentence"]
    assert found["plots"][2]["titles"] == [bar, "multipliers of the array", "sentences a second at 100 MHz"]


def test_it_is_taken_up_again(tmp_path, capsys, scheduler, monkeypatch):
    at = ["--scheduler", scheduler]
    first, _ = swept(capsys, tmp_path, "--latency", "20,50", *at)
    ran = []
    measure = work.measure
    monkeypatch.setattr(work, "measure", lambda point: ran.append(point.latency) or measure(point))
    second, captured = swept(capsys, tmp_path, "--latency", "20,50,90", *at)
    assert ran == [90]
    assert "2 of 3 points are finished already" in captured.err
    assert second[:2] == first and second[2]["cycles"] > second[1]["cycles"]
    (tmp_path / "predicted.jsonl").open("a").write('{"key": "broken')  # as an interrupted sweep leaves it
    third, _ = swept(capsys, tmp_path, "--latency", "20,50,90", *at)
    assert ran == [90] and third == second


def test_other_hardware_has_other_results(tmp_path, capsys, scheduler):
    swept(capsys, tmp_path, "--scheduler", scheduler)
    (line,) = (tmp_path / "predicted.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert len(Store(tmp_path, "predicted").finished()) == 1
    (tmp_path / "predicted.jsonl").write_text(json.dumps({**entry, "code": "another"}) + "\n")
    assert Store(tmp_path, "predicted").finished() == {}


def test_a_point_that_fails_is_told_and_ends_nothing(tmp_path, capsys, scheduler):
    rows, captured = swept(
        capsys, tmp_path, "--tokens", "4,4000", "--set", "row_slots=8", "--scheduler", scheduler, code=1
    )
    assert int(rows[0]["cycles"]) > 0 and rows[0]["error"] == ""
    assert rows[1]["cycles"] == "" and "row slots" in rows[1]["error"] or "must fit" in rows[1]["error"]
    assert captured.err.startswith("failed: ") and "tokens 4000" in captured.err
    assert len(Store(tmp_path, "predicted").finished()) == 1  # the other one is tried again


def test_a_worker_that_fails(scheduler):
    def broken(points):
        raise MemoryError("no room")

    found = []
    points = grid({"model": ["reduced"]})
    run_points(points, lambda point, result: found.append(result), function=broken, address=scheduler)
    assert found == [{"error": "MemoryError: no room"}]


def test_no_scheduler(monkeypatch):
    with pytest.raises(ToolError, match="the Dask scheduler tcp://127.0.0.1:1 can't be reached"):
        run_points([], print, address="tcp://127.0.0.1:1", patience="1s")


def test_points_of_a_program_go_together():
    axes = {"model": ["reduced"], "tokens": [4, 8], "latency": list(range(1, CHUNK + 3)), "bandwidth": ["1x"]}
    chunks = list(_chunks(grid(axes), CHUNK))
    assert sorted(len(chunk) for chunk in chunks) == [2, 2, CHUNK, CHUNK]
    assert all(len({point.tokens for point in chunk}) == 1 for chunk in chunks)


def test_rtl_takes_what_is_predicted():
    """Both on the same small model, which has two layers and so is predicted as it is."""
    point = point_of(
        {"model": "reduced", "preset": "tiny4", "tokens": 5, "recipe": "w8a8", "bandwidth": "0.5x"}
    )
    (predicted,), (simulated,) = work.predict_points([point]), work.simulate_points([point])
    assert "error" not in simulated
    assert simulated["cycles"] == pytest.approx(predicted["cycles"], rel=0.005)
    assert simulated["bytes_read"] == predicted["bytes_read"]
    assert simulated["bytes_written"] == predicted["bytes_written"]
    assert simulated["working"] == pytest.approx(predicted["working"], rel=0.005)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--latency", "soon"], "latency can't be 'soon'"),
        (["--set", "side=3"], "--set must name one of"),
        (["--workers", "0"], "workers must be at least 1, not 0"),
        (["--clock", "0"], "clock must be from above 0"),
        (["--file", "points.csv"], "points come from --file or from options, not from both"),
    ],
)
def test_errors_are_one_sentence(capsys, tmp_path, arguments, message):
    assert main(["sweep", *SMALL, "--out", str(tmp_path), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
