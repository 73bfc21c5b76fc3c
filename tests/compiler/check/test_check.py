"""Every rule of the checker has a program that breaks it."""

import numpy as np
import pytest

from bertha.compiler.check.check import ProgramError, check
from bertha.compiler.compile import compile_layer
from bertha.compiler.layout.records import column_records
from bertha.compiler.program import Command, Program
from bertha.rtl.config import preset
from bertha.rtl.isa import Opcode, Statistics, Table, Wide, semaphore
from tests.compiler.layers import random_layer

TINY = preset("tiny4")
LINE = TINY.line_bytes
DATA = 0  # a kilobyte of bytes that the image holds, and a kilobyte of room after it
ROOM = 1024


def program(*commands, config=TINY, content=bytes(ROOM), size=2 * ROOM, scratch=((ROOM, ROOM),)):
    commands = [
        Command(opcode=opcode, fields=fields, name=f"step{number}")
        for number, (opcode, fields) in enumerate(commands)
    ]
    return Program(
        config=config,
        commands=commands,
        pieces=[(DATA, content)],
        program_address=0,
        window=(0, size),
        scratch=scratch,
    )


def refuse(message, *commands, **more):
    with pytest.raises(ProgramError, match=message):
        check(program(*commands, **more))


def load(line=0, lines=64, address=DATA, **fields):
    return Opcode.LOAD, {"dram_addr": address, "scratchpad_addr": line, "lines": lines, "rows": 1, **fields}


def store(line=0, lines=8, address=ROOM, **fields):
    return Opcode.STORE, {"dram_addr": address, "scratchpad_addr": line, "lines": lines, "rows": 1, **fields}


def gemm(**fields):
    return Opcode.GEMM, {"a_addr": 0, "b_addr": 8, "c_addr": 100, "k": 8, "count": 1, "columns": 4, **fields}


LOADED = load(post1=semaphore(0))
WAIT = {"wait0": semaphore(0)}


def test_a_good_program_passes():
    check(program(LOADED, gemm(**WAIT, post1=semaphore(1)), store(100, 2, wait0=semaphore(1))))


@pytest.mark.parametrize(
    ("scratch", "message"),
    [
        ([], "must store only into results and declared scratch, not to 0x400"),
        ([(ROOM, 15 * LINE)], "must store only into results and declared scratch, not to 0x478"),
        ([(ROOM + 1, 16 * LINE)], "must store only into results and declared scratch, not to 0x400"),
        ([(ROOM + LINE, 15 * LINE)], r"command 1 \(step1, STORE\) must store only .*, not to 0x400"),
        ([(ROOM, 7 * LINE), (ROOM + 8 * LINE, 8 * LINE)], "must store only .*, not to 0x438"),
        ([(ROOM, ROOM + LINE)], "results and scratch must be in the window 0x0 to 0x800, not 0x400 to 0x808"),
    ],
)
def test_stores_stay_in_what_is_declared(scratch, message):
    commands = LOADED, store(0, 16, **WAIT)
    check(program(*commands, scratch=[(ROOM, 16 * LINE)]))
    check(program(*commands, scratch=[(ROOM, 8 * LINE), (ROOM + 8 * LINE, 8 * LINE)]))
    refuse(message, *commands, scratch=scratch)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"k": 3}, r"command 1 \(step1, GEMM\): k must be even, from 2 to 65536, not 3"),
        ({"k": 0}, "k must be even"),
        ({"k": 1 << 16}, "GEMM field k must be from 0 to 65535"),
        ({"columns": 0}, "columns must be from 1 to 4, not 0"),
        ({"columns": 5}, "columns must be from 1 to 4, not 5"),
        ({"count": 0}, "count must be at least 1, not 0"),
        ({"statistics": 3}, "statistics must be NONE, MAX or MOMENTS, not 3"),
        ({"out16": 1, "residue": 1, "params": 1}, "residue must go with int8 results"),
        ({"residue": 1}, "residue must go with column records"),
        ({"wide": 3}, "wide must be NONE, A or B, not 3"),
        ({"out16": 1, "out_wide": 1}, "out_wide must go without out16"),
        ({"wait1_each": 1}, "wait1_each must go with wait1"),
        ({"post0_each": 1}, "post0_each must go with post0"),
        ({"post1_each": 1}, "post1_each must go with post1"),
        ({"post1": 0x0101}, "post1 must be enabled or zero, not 0x101"),
        ({"post1": 1 << 15}, "post1 must take or post at least 1 unit, not 0"),
        ({"post1": 1 << 15 | 1 << 13 | 1}, "post1 must have its reserved bits zero"),
        ({"words": 2}, "GEMM has no field 'words'"),
    ],
)
def test_gemm_fields(fields, message):
    refuse(message, LOADED, gemm(**{**WAIT, **fields}))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (load(lines=0), "lines must be at least 1, not 0"),
        (load(rows=0), "rows must be at least 1, not 0"),
        (load(address=4), "dram_addr must be a multiple of 8, not 4"),
        (load(rows=2, dram_stride=4), "dram_stride must be a multiple of 8, not 4"),
        (load(address=2 * ROOM), "DRAM bytes must be in the window 0x0 to 0x800, not 0x800"),
        (load(lines=257), "DRAM bytes must be in the window"),
        (load(rows=3, lines=2, dram_stride=ROOM), "DRAM bytes must be in the window"),
        (load(line=8190), "must stay inside the scratchpad's 8192 lines, not touch 8190 to 8253"),
        (load(address=ROOM), "must read only what was written before, not dram 128"),
        (store(), "must read only what was written before, not scratchpad 0"),
        (gemm(), "must read only what was written before, not scratchpad 0"),
        (gemm(a_addr=8191), "must stay inside the scratchpad's 8192 lines, not touch 8191 to 8194"),
        ((Opcode.SOFTMAX, {"words": 3}), "words must be even, from 2 to 4096, not 3"),
        ((Opcode.SOFTMAX, {"words": 4098}), "words must be even, from 2 to 4096, not 4098"),
        ((Opcode.SOFTMAX, {"words": 4, "kept": 5}), "kept must be from 0 to 4, not 5"),
        ((Opcode.LAYERNORM, {"words": 2}), "write8 or write16 must be set, not neither"),
        ((Opcode.LAYERNORM, {"words": 2, "write16": 1, "residue": 1}), "residue must go with write8"),
        ((Opcode.LAYERNORM, {"words": 2, "write16": 1, "wide": 1}), "wide must go with write8"),
    ],
)
def test_single_commands(command, message):
    refuse(message, command)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (gemm(**WAIT, statistics=Statistics.MAX), "written before, not statistics 0"),
        (gemm(**WAIT, row_factor=1), "written before, not factors 0"),
        (gemm(**WAIT, ranges=1), "written before, not ranges 0"),
        (gemm(**WAIT, piecewise=1), "written before, not tables 1"),
        (gemm(**WAIT, wide=1, low_offset=62), "written before, not scratchpad 64"),
        (gemm(**WAIT, wide=2, low_offset=54), "written before, not scratchpad 64"),
        (gemm(**WAIT, out_wide=1, residue_addr=8191), "must stay inside the scratchpad's 8192 lines"),
        (
            gemm(**WAIT, statistics=Statistics.MAX, statistics_init=1, slot=15, slot_step=1, count=2),
            "must stay inside the 16 statistics, not touch 16 to 16",
        ),
        ((Opcode.FACTORS, {**WAIT, "slot": 16}), "must stay inside the 16 factors, not touch 16 to 16"),
        ((Opcode.RANGES, {**WAIT, "slot": 16}), "must stay inside the 16 ranges, not touch 16 to 16"),
        ((Opcode.SOFTMAX, {**WAIT, "words": 2, "dst8_addr": 99}), "written before, not statistics 0"),
    ],
)
def test_slots_and_tables(command, message):
    refuse(message, LOADED, command)


def test_softmax_wants_its_table():
    refuse(
        "written before, not tables 0",
        LOADED,
        gemm(**WAIT, statistics=Statistics.MAX, statistics_init=1, out16=1, post1=semaphore(1)),
        (Opcode.SOFTMAX, {"src_addr": 100, "words": 4, "dst8_addr": 200, "wait0": semaphore(1)}),
    )


class TestSemaphores:
    def test_a_wait_finds_its_units_in_program_order(self):
        refuse(
            "must find 2 units of semaphore 0 in program order, there are 1",
            LOADED,
            gemm(wait0=semaphore(0, 2)),
        )

    def test_one_poster(self):
        refuse(
            r"must not post semaphore 0 \(results\), which LOAD posts",
            LOADED,
            gemm(**WAIT, post1=semaphore(0)),
        )

    def test_one_moment(self):
        refuse(
            r"must not post semaphore 1 \(results\), which GEMM posts \(operands\)",
            LOADED,
            gemm(**WAIT, post0=semaphore(1), post1=semaphore(1)),
        )

    def test_one_waiter(self):
        refuse(
            "must not wait for semaphore 0, which GEMM waits for",
            load(post1=semaphore(0, 2)),
            gemm(**WAIT),
            (Opcode.VECTOR_WAIT, WAIT),
        )

    def test_numbers(self):
        refuse(
            "post1 must name one of the 4 semaphores, not 7",
            load(post1=semaphore(7)),
            config=TINY.replace(semaphores=4),
        )

    def test_counters_stay_below_256(self):
        refuse(
            "must keep semaphore 0 at 255 at most, it can reach 256",
            load(post1=semaphore(0, 200)),
            load(64, post1=semaphore(0, 56)),
        )

    def test_takes_that_have_happened_count(self):
        """The same units, but the second load waits until the first ones are taken."""
        check(
            program(
                load(post1=semaphore(0, 200)),
                gemm(wait0=semaphore(0, 200), post1=semaphore(1)),
                load(64, wait0=semaphore(1), post1=semaphore(0, 200)),
                gemm(wait0=semaphore(0, 200)),
            )
        )

    def test_nothing_is_left_over(self):
        refuse("semaphore 0 must be empty at the end, 1 units are left", LOADED)


class TestOrder:
    def test_read_after_write(self):
        refuse(
            r"command 1 \(step1, GEMM\) reads scratchpad lines 0 to 3 and must be ordered after "
            r"command 0 \(step0, LOAD\), which uses them from 0 on",
            load(),
            gemm(),
        )

    def test_read_after_write_on_the_same_engine(self):
        refuse(
            r"\(step2, GEMM\) reads scratchpad lines 100 to 103 and must be ordered after command 1",
            LOADED,
            gemm(**WAIT, out16=1),
            gemm(a_addr=100, c_addr=200),
        )

    def test_write_after_read(self):
        refuse(
            r"\(step2, LOAD\) writes scratchpad lines 0 to 63 and must be ordered after command 1",
            LOADED,
            gemm(**WAIT),
            load(),
        )

    def test_write_after_operands_are_read(self):
        check(program(LOADED, gemm(**WAIT, post0=semaphore(1)), load(wait0=semaphore(1))))

    def test_operands_read_says_nothing_about_results(self):
        refuse(
            r"\(step2, STORE\) reads scratchpad lines 100 to 101 and must be ordered after command 1",
            LOADED,
            gemm(**WAIT, post0=semaphore(1)),
            store(100, 2, wait0=semaphore(1)),
        )

    def test_write_after_write(self):
        refuse(r"\(step1, LOAD\) writes scratchpad lines 10 to 73", load(), load(10))

    def test_dram(self):
        waited = gemm(**WAIT, post1=semaphore(1))
        stored = store(100, 2, wait0=semaphore(1))
        refuse(
            r"\(step3, LOAD\) reads DRAM lines 128 to 129 and must be ordered after command 2",
            LOADED,
            waited,
            stored,
            load(300, 2, ROOM),
        )
        check(
            program(
                LOADED,
                waited,
                store(100, 2, wait0=semaphore(1), post1=semaphore(2)),
                load(300, 2, ROOM, wait0=semaphore(2)),
            )
        )

    def test_slots(self):
        refuse(
            r"\(step2, GEMM\) reads factors slots 0 to 0 and must be ordered after command 1",
            load(post0=semaphore(0), post1=semaphore(2)),
            (Opcode.FACTORS, {"src_addr": 0, "wait0": semaphore(2)}),
            gemm(**WAIT, row_factor=1),
        )

    def test_tables(self):
        refuse(
            r"\(step2, GEMM\) reads tables slots 1 to 1 and must be ordered after command 1",
            load(lines=128, post0=semaphore(0), post1=semaphore(2)),
            (Opcode.TABLE, {"src_addr": 0, "table": Table.PIECEWISE, "wait0": semaphore(2)}),
            gemm(**WAIT, piecewise=1),
        )

    def test_tiles_are_ordered_one_by_one(self):
        """Tile 1 of the second GEMM reads what tile 1 of the first wrote."""
        first = gemm(**WAIT, count=2, c_addr=100, c_stride=4, out16=1)[1]
        second = {"a_addr": 100, "a_stride": 4, "c_addr": 200, "c_stride": 4, "count": 2}
        each = {"wait1": semaphore(1), "wait1_each": 1}
        check(
            program(
                LOADED,
                (Opcode.GEMM, {**first, "post1": semaphore(1), "post1_each": 1}),
                gemm(**second, **each),
            )
        )
        refuse(
            r"\(step2, GEMM\) reads scratchpad lines 104 to 107 and must be ordered after command 1",
            LOADED,
            (Opcode.GEMM, {**first, "post1": semaphore(1), "post1_each": 1}),
            gemm(**second, wait0=semaphore(1)),
            (Opcode.GEMM_WAIT, {"wait0": semaphore(1)}),
        )

    def test_a_barrier_orders_everything(self):
        check(program(load(), (Opcode.BARRIER, {}), gemm(), (Opcode.BARRIER, {}), store(100, 2)))

    def test_residue_words_that_the_records_flag_are_writes(self):
        records = column_records(4, residue=[0, 1, 0, 0])
        content = records + bytes(ROOM - len(records))
        commands = [LOADED, gemm(**WAIT, params=1, param_addr=0, residue=1, residue_addr=120), store(120, 1)]
        refuse(r"\(step2, STORE\) reads scratchpad lines 120 to 120", *commands, content=content)
        refuse("written before, not scratchpad 120", *commands)


def test_accumulators_keep_their_range():
    """Weights of -128 and a bias near 2**31; one line less of weights is just right."""
    bound = 8 * 128 * 128
    for bias, fine in ((2**31 - 1 - bound, True), (2**31 - bound, False)):
        content = bytes([0x80]) * 96 + column_records(4, bias=bias)
        content += bytes(ROOM - len(content))
        commands = [LOADED, gemm(**WAIT, b_addr=8, params=1, param_addr=12)]
        if fine:
            check(program(*commands, content=content))
        else:
            message = rf"must keep accumulator and bias below 2\*\*31, they can reach {2**31}"
            refuse(message, *commands, content=content)


@pytest.mark.parametrize("wide", [Wide.A, Wide.B])
@pytest.mark.parametrize("low", [0x80, 0])
def test_accumulators_of_wide_operands_keep_their_range(wide, low):
    """16 times the bound of the high plane and a sixteenth of the low one's, rounded up."""
    products = 8 * 128 * 128
    bound = 16 * products + (products // 16 if low else 0)
    planes = bytes([0x80]) * 32 + bytes([low]) * 32
    for bias, fine in ((2**31 - 1 - bound, True), (2**31 - bound, False)):
        content = planes + bytes([0x80]) * 32 + column_records(4, bias=bias)
        content += bytes(ROOM - len(content))
        places = {"a_addr": 0, "b_addr": 8} if wide == Wide.A else {"a_addr": 8, "b_addr": 0}
        commands = [LOADED, gemm(**WAIT, **places, wide=wide, low_offset=4, params=1, param_addr=12)]
        if fine:
            check(program(*commands, content=content))
        else:
            message = rf"must keep accumulator and bias below 2\*\*31, they can reach {2**31}"
            refuse(message, *commands, content=content)


@pytest.mark.parametrize("known", [True, False])
def test_accumulators_of_unsigned_bytes_and_planes_keep_their_range(known):
    """P·V with a wide V: P and both planes at their largest, in the image or unknown."""
    products = 8 * 255 * 128
    bound = 16 * products + products // 16
    for bias, fine in ((2**31 - 1 - bound, True), (2**31 - bound, False)):
        content = bytes([0x80]) * 64 + bytes([0xFF]) * 32 + column_records(4, bias=bias)
        content += bytes(ROOM - len(content))
        commands = [
            LOADED,
            gemm(
                **WAIT, a_addr=8, b_addr=0, a_unsigned=1, wide=Wide.B, low_offset=4, params=1, param_addr=12
            ),
        ]
        if not known:  # what commands write isn't known
            written = gemm(**WAIT, a_addr=8, b_addr=0, c_addr=200, c_stride=2, count=6, post1=semaphore(1))
            fields = commands[1][1] | {"a_addr": 208, "b_addr": 200, "wait0": semaphore(1)}
            commands[1:] = [written, (Opcode.GEMM, fields)]
        if fine:
            check(program(*commands, content=content))
        else:
            message = rf"must keep accumulator and bias below 2\*\*31, they can reach {2**31}"
            refuse(message, *commands, content=content)


class TestCompiled:
    """A compiled program with one wait moved to the next command of its engine is always refused."""

    @pytest.fixture
    def compiled(self):
        return compile_layer(random_layer(seed=0, heads=2, head_dim=6, ffn=10), TINY, seq=10)

    def moved(self, compiled, number):
        commands = [
            Command(
                opcode=c.opcode,
                fields=dict(c.fields),
                name=c.name,
                residue_words=c.residue_words,
                work=c.work,
            )
            for c in compiled.commands
        ]
        command = commands[number]
        wait = command.fields.pop("wait0", None)
        for other in commands[number + 1 :]:
            if other.engine == command.engine:
                opcode = next(o for o in Opcode if o.engine == command.engine and o.name.endswith("_WAIT"))
                extra = Command(opcode=opcode, fields={"wait0": wait}, name="moved")
                commands.insert(commands.index(other), extra)
                return commands
        return None

    def test_no_wait_is_needless(self, compiled):
        refused = 0
        for number, command in enumerate(compiled.commands):
            if not command.get("wait0") or command.opcode.name.endswith("_WAIT"):
                continue
            commands = self.moved(compiled, number)
            if commands is None:
                continue
            broken = Program(**{**vars(compiled), "commands": commands})
            with pytest.raises(ProgramError, match="must be ordered after|must find"):
                check(broken)
            refused += 1
        assert refused > 50

    def test_a_store_beside_the_results_is_refused(self, compiled):
        """Into the weights, say: nothing else would notice."""
        store = next(command for command in compiled.commands if command.opcode == Opcode.STORE)
        store.fields["dram_addr"] = compiled.pieces[0][0]
        with pytest.raises(ProgramError, match="must store only into results and declared scratch"):
            check(compiled)

    def test_a_changed_address_is_refused(self, compiled):
        rng = np.random.default_rng(1)
        numbers = [n for n, c in enumerate(compiled.commands) if c.opcode == Opcode.LOAD]
        for number in rng.choice(numbers, 10, replace=False):
            fields = compiled.commands[number].fields
            kept = fields["scratchpad_addr"]
            fields["scratchpad_addr"] = kept + 1
            with pytest.raises(ProgramError):
                check(compiled)
            fields["scratchpad_addr"] = kept
        check(compiled)
