"""Options are checked, and runs that differ don't share a folder."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from bertha.errors import UserError
from bertha.sim import prepare
from bertha.sim.options import LayerOptions, ModelOptions, check_options, run_name
from bertha.sim.prepare import read_texts, run_folder

DEFAULT = LayerOptions()
WHOLE = ModelOptions()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preset": "huge"}, "preset must be one of tiny4, edge8, edge16, server32, not 'huge'"),
        ({"seq": 0}, "seq must be at least 1 token, not 0"),
        ({"seq": 1.5}, "seq must be an integer, not 1.5"),
        ({"layer": "0"}, "layer must be an integer, not '0'"),
        ({"latency": 0}, "latency must be from 1 to 100000 cycles, not 0"),
        ({"latency": 1 << 33}, "latency must be from 1 to 100000 cycles, not 8589934592"),
        ({"bandwidth": 0.0}, "bandwidth must be from 0.01 to 1024 bytes a cycle, not 0"),
        ({"bandwidth": 1e-9}, "bandwidth must be from 0.01 to 1024 bytes a cycle, not 1e-09"),
        ({"bandwidth": math.inf}, "bandwidth must be from 0.01 to 1024 bytes a cycle, not inf"),
        ({"bandwidth": math.nan}, "bandwidth must be from 0.01 to 1024 bytes a cycle, not nan"),
        ({"duplicates": (1, 2, 3)}, "duplicates must be four numbers from 0 such as 0,0,4,4, not 1,2,3"),
    ],
)
def test_rules(change, message):
    with pytest.raises(UserError) as error:
        check_options(replace(DEFAULT, **change))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": "w4a4"}, "recipe must be one of w8a8, w8a8-split, mixed, a16, not 'w4a4'"),
        ({"packing": "tight"}, "packing must be one of static, data, not 'tight'"),
        ({"seq": 0}, "seq must be at least 1 token, not 0"),
    ],
)
def test_rules_of_whole_models(change, message):
    with pytest.raises(UserError) as error:
        check_options(replace(WHOLE, **change))
    assert str(error.value) == message


@pytest.mark.parametrize("change", [{"latency": 100_000, "bandwidth": 0.01}, {"bandwidth": 1024.0}])
def test_limits_are_allowed(change):
    check_options(replace(DEFAULT, **change))


def test_names_of_plain_runs_are_plain():
    assert run_name(DEFAULT) == "minilm-layer0-s128-edge16"
    assert run_name(WHOLE) == "minilm-s128-edge16"
    assert run_name(replace(WHOLE, model="synthetic-base-12")) == "synthetic-base-12-s128-edge16"


def test_whatever_changes_a_run_changes_its_name(tmp_path):
    """Text by its content, a model by its folder; every other option by its value."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = tmp_path / "a" / "text.txt", tmp_path / "b" / "text.txt"
    first.write_text("One sentence.")
    second.write_text("Another sentence.")
    changes = [
        {},
        {"layer": 1},
        {"seq": 64},
        {"preset": "edge8"},
        {"latency": 30},
        {"bandwidth": 0.5},
        {"bandwidth": 5.0},
        {"waves": True},
        {"duplicates": (1, 2, 3, 4)},
        {"duplicates": (12, 3, 4, 0)},
        {"text": first},
        {"text": second},
        {"model": str(tmp_path / "a" / "model")},
        {"model": str(tmp_path / "b" / "model")},
        {"model": str(tmp_path / "b" / "mo del")},
        {"model": str(tmp_path / "b" / "mo_del")},
    ]

    def name(change):
        options = replace(DEFAULT, **change)
        return run_name(options, read_texts(options))

    names = [name(change) for change in changes]
    whole = (
        {},
        {"recipe": "a16"},
        {"packing": "data"},
        {"packing": "static"},
        {"text": first},
        {"text": first, "pairs": True},
    )
    for change in whole:
        options = replace(WHOLE, **change)
        names.append(run_name(options, read_texts(options)))
    names.append(run_name(replace(WHOLE, text=Path("-")), ["One sentence."]))
    assert names[-1].startswith("minilm-s128-edge16-stdin-")
    first.write_text("One sentence.\nAnd one more.")
    names.append(name({"text": first}))
    assert len(set(names)) == len(names)


def test_names_are_names_of_folders(tmp_path):
    """However long and strange what they are made of is."""
    folder = tmp_path / ("ünder [a] (path) " * 12)
    text = tmp_path / ("sentences & more; " * 13 + ".txt")
    text.write_text("One.")
    options = replace(DEFAULT, model=str(folder), text=text, duplicates=(1, 2, 3, 4), waves=True)
    name = run_name(options, read_texts(options))
    assert len(name) < 200
    assert Path(name).name == name
    (tmp_path / name).mkdir()
    assert run_name(replace(options, model=str(folder) + "/.."), ["One."]) != name


def test_what_an_earlier_run_left_is_gone_before_the_next_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "BUILD", tmp_path)
    folder = tmp_path / "sim" / "name"
    folder.mkdir(parents=True)
    for file in ("report.json", "waves.fst", "outcome1.json", "output1.npz", "views.gtkw"):
        (folder / file).write_text("old")
    with run_folder("name") as found:
        assert found == folder
        assert [file.name for file in folder.iterdir()] == ["views.gtkw"]  # the user's own stays
