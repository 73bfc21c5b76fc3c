"""A few hundred random programs on the simulated chip, and that a wrong answer of the chip would be seen.

All 10,000: `make test-long`, or `python -m tests.fuzz --programs 10000 --seed N`.
"""

import numpy as np
import pytest

from bertha.compiler.check.check import check
from bertha.compiler.program import Program
from bertha.rtl.isa import COMMANDS, FaultReason, Opcode
from tests.fuzz import damage, generate, harness
from tests.fuzz.harness import CHUNK, CONFIG, Failure, run_chunk

SEED = 20


@pytest.mark.parametrize("chunk", range(4))
def test_programs(chunk):
    """They end, change nothing that they may not, and leave a chip on which a good program is exact."""
    print("seed", SEED)
    tally, _ = run_chunk(SEED, chunk * CHUNK, CHUNK)
    assert tally.total() == CHUNK
    kinds, hosts, ends = ({key[column] for key in tally} for column in range(3))
    assert {"legal", "damaged", "ruined", "bus error"} <= kinds
    assert {"waits", "meddles"} <= hosts
    assert {"done", "HOST_STOP", "ILLEGAL_COMMAND"} <= ends and len(ends) > 6


def test_every_option_is_drawn():
    """All opcodes, and every field with more than one value in all commands that have it."""
    print("seed", SEED)
    seen = {}
    for number in range(150):
        for command in generate.draw_case(np.random.default_rng([SEED, number]), CONFIG).commands:
            for name, value in command.fields.items():
                seen.setdefault((command.opcode, name), set()).add(value)
    for opcode in Opcode:
        for field in COMMANDS[opcode]:
            if field.name != "opcode":
                values = seen.get((opcode, field.name), set()) | {0}
                assert len(values) > 1, f"{opcode.name} {field.name}"
    for name, every in (
        ("statistics", {0, 1, 2}),
        ("wide", {0, 1, 2}),
        ("columns", {1, 2, 3, 4}),
        ("gain", set(range(16))),
    ):
        assert every <= seen[Opcode.GEMM, name]


def test_legal_programs_are_legal(monkeypatch):
    """The compiler's checker, which looks at semaphores and accesses in its own way, agrees."""
    print("seed", SEED)
    monkeypatch.setattr(generate._Decoration, "run", lambda self: self._commands)  # leaves units behind
    for number in range(60):
        case = generate.draw_case(np.random.default_rng([SEED, number]), CONFIG)
        start, end = case.window
        image = case.before[start - case.base : end - case.base].tobytes()
        program = Program(
            config=CONFIG,
            commands=case.commands,
            pieces=[(start, image)],
            program_address=case.address,
            window=case.window,
            scratch=[(start, end - start)],
        )
        check(program)


def _fails(monkeypatch, match, number=0, **changes):
    for name, value in changes.items():
        monkeypatch.setattr(harness, name, value)
    with pytest.raises(Failure, match=match) as caught:
        run_chunk(SEED, number, 40)
    assert "python -m tests.fuzz --seed 20 --first" in str(caught.value)
    assert "LOAD        dram_addr=0x" in str(caught.value)  # the program as text


def test_a_wrong_byte_is_seen(monkeypatch):
    def draw(random, config):
        case = generate.draw_case(random, config)
        case.after[len(case.after) // 2] ^= 1
        return case

    _fails(monkeypatch, "bytes of the results differ|leave its results", draw_case=draw)


def test_a_byte_beside_what_may_be_stored_is_seen(monkeypatch):
    def stored(case, **where):
        return np.zeros(len(case.before), bool)

    _fails(monkeypatch, "changed that no STORE may change", stored=stored)


def test_a_wrong_fault_is_seen(monkeypatch):
    def wrong(random, config, case):
        case, expected = damage.damage(random, config, case)
        return case, damage.Expected(FaultReason.AXI_DECERR)

    _fails(monkeypatch, "the end must be .*AXI_DECERR", damage=wrong)


def test_a_hang_is_seen(monkeypatch):
    monkeypatch.setattr(harness._Timing, "cycles", lambda self, code, config: -1200)
    _fails(monkeypatch, "must end within 200 cycles")
