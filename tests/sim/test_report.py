"""Operations are gathered from commands and trace, and folded into what a person reads."""

import json
from dataclasses import replace

import numpy as np
from rich.console import Console

from bertha.compiler.program import Command
from bertha.rtl.isa import Opcode
from bertha.sim.memory import Trace
from bertha.sim.report import (
    Operation,
    RunReport,
    describe_difference,
    operations,
    print_report,
    write_report,
)

COMMANDS = [
    Command(opcode=Opcode.LOAD, fields={}, name="layer0.weights.query.panel0", dram_bytes=64),
    Command(opcode=Opcode.GEMM, fields={"count": 1}, name="layer0.query.head0", macs=100),
    Command(opcode=Opcode.GEMM, fields={"count": 1}, name="layer0.query.head0", macs=60),
    Command(opcode=Opcode.GEMM, fields={"count": 1}, name="layer0.query.head1", macs=40),
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
        memory_latency=100,
        memory_bandwidth=8.0,
        cycles=100,
        macs=200,
        utilization=0.125,
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
        "sim_seconds sim_cycles_per_second ops"
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
