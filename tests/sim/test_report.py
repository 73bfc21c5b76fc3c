"""Operations are gathered from commands and trace, and folded into what a person reads."""

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from bertha.compiler.program import Command, Work
from bertha.rtl.counters.classes import CycleClass
from bertha.rtl.isa import Opcode
from bertha.sim.engine_tables import CLASS_NAMES
from bertha.sim.memory import Trace
from bertha.sim.report import Operation, RunReport, describe_difference, operations, write_report
from bertha.sim.tables import print_report

COMMANDS = [
    Command(opcode=Opcode.LOAD, fields={}, name="layer0.weights.query.panel0", dram_bytes=64),
    Command(opcode=Opcode.GEMM, fields={"count": 1}, name="layer0.query.head0", work=(Work(20, range(5)),)),
    Command(
        opcode=Opcode.GEMM, fields={"count": 1}, name="layer0.query.head0", work=(Work(20, range(5, 8)),)
    ),
    Command(
        opcode=Opcode.GEMM,
        fields={"count": 1},
        name="layer0.query.head1",
        work=(Work(2, range(4), range(3, 8)),),
    ),
    Command(opcode=Opcode.BARRIER, fields={}, name="layer0.end"),
]


def rows(*values):
    return np.array(list(values), dtype=Trace.ROW)


TRACE = {
    "load": rows((8, 3, 12)),
    "store": rows(),
    "gemm": rows((0, 0, 0), (10, 20, 29), (5, 30, 40), (4, 50, 53)),
    "vector": rows(),
}


def report(**changes):
    return RunReport(
        preset="tiny4",
        array_n=4,
        model="reduced",
        trained=False,
        layers=[0],
        seq=8,
        tokens=8,
        padding=0,
        truncated=0,
        memory_latency=100,
        memory_bandwidth=8.0,
        cycles=100,
        macs=200,
        utilization=0.125,
        padded_macs=200,
        padded_utilization=0.125,
        bit_exact=True,
        first_difference=None,
        cosine_min=0.99,
        cosine_mean=0.999,
        snr_db=30.0,
        max_error=0.1,
        sim_seconds=0.5,
        sim_cycles_per_second=200.0,
        dram_bytes_read=64,
        dram_bytes_written=0,
        engine_busy={"load": 8, "store": 0, "gemm": 19, "vector": 0},
        sequences=[
            {
                "name": "a sentence",
                "tokens": 8,
                "truncated": False,
                "cycles": 100,
                "utilization": 0.125,
                "bit_exact": True,
                "cosine_min": 0.99,
                "cosine_mean": 0.999,
                "snr_db": 30.0,
                "max_error": np.float64(0.1),
            }
        ],
        ops=operations(COMMANDS, TRACE),
        useful_utilization=0.125,
        input_operand="host",
        sentences=[{"text": "a sentence", "tokens": 8, "embedding_cosine": None}],
        **changes,
    )


def printed(what):
    console = Console(width=140, record=True, file=open("/dev/null", "w"))
    print_report(what, console)
    return console.export_text()


def test_commands_of_one_name_are_one_operation():
    assert operations(COMMANDS, TRACE) == [
        Operation(
            name="layer0.weights.query.panel0",
            engine="load",
            start=3,
            end=12,
            busy_cycles=8,
            macs=0,
            dram_bytes=64,
            commands=1,
        ),
        Operation(
            name="layer0.query.head0",
            engine="gemm",
            start=20,
            end=40,
            busy_cycles=15,
            macs=160,
            dram_bytes=0,
            commands=2,
        ),
        Operation(
            name="layer0.query.head1",
            engine="gemm",
            start=50,
            end=53,
            busy_cycles=4,
            macs=40,
            dram_bytes=0,
            commands=1,
        ),
    ]


def test_macs_of_padding_tokens_do_not_count():
    """Of 8 tokens the first 6 are real: 5 and 1 as rows, 4 rows and 3 keys."""
    found = operations(COMMANDS, TRACE, np.array([(0, 6)] * 6 + [(0, 0)] * 2))
    assert [item.macs for item in found] == [0, 100 + 20, 2 * 4 * 3]


def test_padding_and_truncation_are_told():
    assert "8 real of 8, no padding\n" in printed(report())
    assert "200 MACs\n" in printed(report())
    padded = replace(report(), tokens=6, padding=2, macs=144, utilization=0.09)
    text = printed(padded)
    assert "6 real of 8, 2 are padding\n" in text
    assert "144 MACs of real tokens (200 with padding)" in text
    assert "9.00 % of 16 MACs a cycle by real tokens, 12.50 % with padding" in text
    assert "no padding; the text was truncated to 8 tokens" in printed(replace(report(), truncated=1))
    one = report()
    several = replace(
        one, sequences=2 * one.sequences, sentences=2 * one.sentences, tokens=12, padding=4, truncated=2
    )
    assert "12 real of 16, 4 are padding; 2 of 2 sequences truncated to 8 tokens" in printed(several)
    several = replace(several, tokens=15, padding=1, truncated=1, seq=1)
    assert "15 real of 16, 1 is padding; 1 of 2 sequences truncated to 1 token\n" in printed(several)


def test_text_is_no_markup():
    """A sentence with brackets is printed as it is."""
    one = report()
    item = {**one.sequences[0], "name": "[/b] was [sic] here", "truncated": True}
    text = printed(replace(one, model="a[b]c", sequences=[item, item]))
    assert "cycles from the doorbell ([/b] was [sic] here)" in text
    assert any("[/b] was [sic] here" in line and "8 (truncated)" in line for line in text.splitlines())
    assert "a[b]c (random weights" in text


def test_a_report_is_whole_or_not_there(tmp_path):
    """What fails while it is written leaves the old one."""
    file = tmp_path / "report.json"
    write_report(report(), file)
    before = file.read_bytes()
    with pytest.raises(AttributeError):
        write_report(replace(report(), model=object()), file)
    assert file.read_bytes() == before


def test_heads_and_panels_share_a_row():
    lines = [line for line in printed(report()).splitlines() if "query" in line]
    assert [line.replace("│", " ").split()[:2] for line in lines] == [
        ["weights.query", "load"],
        ["query", "gemm"],
    ]
    cells = lines[1].replace("│", " ").split()
    assert cells == ["query", "gemm", "3", "20", "53", "19", "200", "65.8", "%"]


def test_summary_says_whether_it_is_exact():
    assert "every byte equals the integer model" in printed(report())
    wrong = replace(report(), bit_exact=False, first_difference="1 of 32 values")
    assert "DIFFERENT: 1 of 32 values" in printed(wrong)
    assert "random weights, not a trained model" in printed(report())


def test_sequences_are_reported_one_by_one():
    one = report()
    two = replace(
        one, sequences=one.sequences + [{**one.sequences[0], "name": "another", "bit_exact": False}]
    )
    text = printed(two)
    assert any("another" in line and "NO" in line for line in text.splitlines())


def test_json_has_the_promised_keys(tmp_path):
    write_report(report(), tmp_path / "report.json")
    found = json.loads((tmp_path / "report.json").read_text())
    promised = (
        "preset array_n model layers seq cycles macs utilization bit_exact cosine_min cosine_mean snr_db "
        "sim_seconds sim_cycles_per_second ops tokens padding truncated padded_macs padded_utilization"
    )
    assert set(promised.split()) <= set(found)
    assert found["ops"][1] == {
        "name": "layer0.query.head0",
        "engine": "gemm",
        "start": 20,
        "end": 40,
        "busy_cycles": 15,
        "macs": 160,
        "dram_bytes": 0,
        "commands": 2,
    }


def test_first_difference():
    expected = np.zeros((3, 4), np.int16)
    result = expected.copy()
    assert describe_difference(result, expected) is None
    result[1, 2], result[2, 0] = 7, 1
    assert describe_difference(result, expected) == (
        "2 of 12 values, first at token 1, feature 2: 7 instead of 0"
    )


def _counted(**counts):
    return {cycle_class.name.lower(): counts.get(cycle_class.name.lower(), 0) for cycle_class in CycleClass}


def test_cycles_of_engines_are_shown_by_class():
    """Classes that nobody was in have no row; shares are of all cycles."""
    one = report(
        engines={
            "load": _counted(working=30, dram_read=60, idle=10),
            "gemm": _counted(working=45, semaphore_vector=40, filling=15),
        },
        array_waits={"vector": _counted(working=25, semaphore_load=15), "load": _counted()},
    )
    text = printed(one)
    rows = {
        cells[0]: [cell for cell in cells[1:] if cell]
        for cells in ([cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines())
        if cells
    }
    assert rows["working"] == ["30", "30.00 %", "45", "45.00 %"]
    assert rows["waiting for vector"] == ["40", "40.00 %"]
    assert rows["all"] == ["100", "100.00 %"] * 2
    assert "waiting for store" not in rows and "held up by the scratchpad" not in rows
    waits = [line.replace("│", " ").split() for line in text.splitlines() if line.startswith("│ vector")]
    assert waits == [
        ["vector", "working", "25", "25.00", "%"],
        ["vector", "waiting", "for", "load", "15", "15.00", "%"],
    ]


def test_every_class_has_a_readable_name():
    assert set(CLASS_NAMES) == {cycle_class.name.lower() for cycle_class in CycleClass}


def test_an_accelerator_without_counters_has_no_such_tables():
    assert "each engine's cycles went" not in printed(report())
    assert "waits came from" not in printed(report())
