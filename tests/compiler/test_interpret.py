"""The interpreter's arithmetic, command by command, against golden's units."""

import numpy as np
import pytest

from bertha.compiler.interpret import Interpreter
from bertha.compiler.layout.panels import pack, unpack
from bertha.compiler.layout.records import exp2_table, factor_records, norm_records, range_records
from bertha.golden import units
from bertha.golden.layer import QuantizedNorm
from bertha.rtl.config import preset
from bertha.rtl.isa import Opcode, Statistics, Table, Wide, encode

CONFIG = preset("tiny4")
N, LINE = CONFIG.array_n, CONFIG.line_bytes
SOURCE, PARAMETERS, RESULT, RESIDUE = 0, 100, 200, 300  # lines


def run(contents, *commands, read):
    """Loads `contents` (bytes by line), runs commands, and returns the bytes of `read` (line, lines)."""
    machine = Interpreter(CONFIG, window=(0, 1 << 17))
    code = b""
    address = 1 << 15
    for line, content in contents.items():
        content = content + bytes(-len(content) % LINE)
        machine.write(address, content)
        code += encode(
            Opcode.LOAD, dram_addr=address, scratchpad_addr=line, lines=len(content) // LINE, rows=1
        )
        address += len(content)
    for opcode, fields in commands:
        code += encode(opcode, **fields)
    for number, (line, lines) in enumerate(read):
        code += encode(
            Opcode.STORE, dram_addr=0x10000 + 0x4000 * number, scratchpad_addr=line, lines=lines, rows=1
        )
    machine.write(0, code)
    machine.run(0, len(code) // 64)
    return [machine.read(0x10000 + 0x4000 * number, lines * LINE) for number, (_, lines) in enumerate(read)]


def matrix(data, words, dtype="int8"):
    return unpack(np.frombuffer(data, np.uint8), N, rows=N, words=words, dtype=dtype)


def random_norm(rng, words):
    return QuantizedNorm(
        gamma=rng.integers(-32768, 32768, words).astype(np.int16),
        beta=rng.integers(-32768, 32768, words).astype(np.int16),
        mult=rng.integers(0, 65536, words).astype(np.uint16),
        gamma_shift=12,
        mult_shift=22,
        epsilon=1000,
        residue=rng.random(words) < 0.4,
    )


@pytest.mark.parametrize("seed", range(4))
def test_quantize(seed):
    rng = np.random.default_rng(seed)
    words = 10
    values, norm = rng.integers(-32768, 32768, (N, words)), random_norm(rng, words)
    wide = units.quantise(values, norm.mult, norm.mult_shift)
    residues = units.residue(wide[:, norm.residue])
    narrow, cut = run(
        {SOURCE: pack(values, N, dtype="int16").tobytes(), PARAMETERS: norm_records(norm)},
        (
            Opcode.QUANTIZE,
            {
                "src_addr": SOURCE,
                "dst8_addr": RESULT,
                "residue": 1,
                "residue_addr": RESIDUE,
                "words": words,
                "mult_shift": norm.mult_shift,
                "param_addr": PARAMETERS,
            },
        ),
        read=[(RESULT, words // 2), (RESIDUE, -(-residues.shape[1] // 2))],
    )
    assert np.array_equal(matrix(narrow, words), units.saturate(wide, 8))
    assert np.array_equal(matrix(cut, residues.shape[1]), residues)


def test_quantize_to_planes():
    rng = np.random.default_rng(7)
    words = 10
    values, norm = rng.integers(-32768, 32768, (N, words)), random_norm(rng, words)
    expected = units.split_wide(units.quantise(values, norm.mult, 16))
    planes = run(
        {SOURCE: pack(values, N, dtype="int16").tobytes(), PARAMETERS: norm_records(norm)},
        (
            Opcode.QUANTIZE,
            {
                "src_addr": SOURCE,
                "dst8_addr": RESULT,
                "residue": 1,
                "wide": 1,
                "residue_addr": RESIDUE,
                "words": words,
                "mult_shift": 16,
                "param_addr": PARAMETERS,
            },
        ),
        read=[(RESULT, words // 2), (RESIDUE, words // 2)],
    )
    for plane, exact in zip(planes, expected, strict=True):
        assert np.array_equal(matrix(plane, words), exact)


@pytest.mark.parametrize("wide", [Wide.A, Wide.B])
def test_linear_with_planes_in_and_out(wide):
    rng = np.random.default_rng(int(wide))
    k, low_offset = 20, 30
    values, rows = rng.integers(-32768, 32640, (N, k)), rng.integers(-128, 128, (N, k))
    high, low = units.split_wide(values)
    exact = (values @ rows.T + 8) >> 4
    expected = units.split_wide(units.requantise(exact if wide == Wide.A else exact.T, 50000, 22))
    places = ("a_addr", "b_addr") if wide == Wide.A else ("b_addr", "a_addr")
    planes = run(
        {
            SOURCE: pack(high, N, dtype="int8").tobytes(),
            SOURCE + low_offset: pack(low, N, dtype="int8").tobytes(),
            PARAMETERS: pack(rows, N, dtype="int8").tobytes(),
        },
        (
            Opcode.GEMM,
            {
                places[0]: SOURCE,
                places[1]: PARAMETERS,
                "wide": wide,
                "low_offset": low_offset,
                "k": k,
                "count": 1,
                "columns": N,
                "mult": 50000,
                "shift": 22,
                "out_wide": 1,
                "c_addr": RESULT,
                "residue_addr": RESIDUE,
            },
        ),
        read=[(RESULT, N // 2), (RESIDUE, N // 2)],
    )
    for plane, exact in zip(planes, expected, strict=True):
        assert np.array_equal(matrix(plane, N), exact)


@pytest.mark.parametrize("wide_out", [False, True])
def test_products_of_unsigned_bytes_with_planes(wide_out):
    """P·V: one row factor a lane with a gain, in columns of an odd number; Vᵀ's planes were written the same way."""
    rng = np.random.default_rng(int(wide_out))
    k, low_offset, columns, gain = 12, 50, 3, 5
    left, values = rng.integers(0, 256, (N, k)), rng.integers(-32768, 32640, (N, k))
    values[0] = 0
    values[0, 4] = 128  # nothing but its sign is in the low plane
    mult, shift = rng.integers(30000, 65536, N), np.array([3, 28, 31, 30])
    high, low = units.split_wide(values)
    planes = {"out_wide": 1} if wide_out else {}
    found = run(
        {
            SOURCE: pack(left, N, dtype="uint8").tobytes(),
            PARAMETERS: pack(high, N, dtype="int8").tobytes(),
            PARAMETERS + low_offset: pack(low, N, dtype="int8").tobytes(),
            80: factor_records(N, mult=mult, shift=shift),
        },
        (Opcode.FACTORS, {"src_addr": 80, "slot": 6}),
        (
            Opcode.GEMM,
            {
                "a_addr": SOURCE,
                "a_unsigned": 1,
                "b_addr": PARAMETERS,
                "wide": Wide.B,
                "low_offset": low_offset,
                "k": k,
                "count": 1,
                "columns": columns,
                "row_factor": 1,
                "slot": 6,
                "gain": gain,
                "c_addr": RESULT,
                "residue_addr": RESIDUE,
                **planes,
            },
        ),
        read=[(RESULT, 2), (RESIDUE, 2)],
    )
    exact = np.zeros((N, columns), dtype=np.int64)
    for row, column in np.ndindex(exact.shape):
        total = sum(p * v for p, v in zip(left[row].tolist(), values[column].tolist(), strict=True))
        scaled, less = (total + 8 >> 4) * int(mult[row]), max(int(shift[row]) - gain, 0)
        exact[row, column] = max(-32768, min(32767, scaled + (1 << less >> 1) >> less))
    assert (np.abs(exact) == 32768).any() and (np.abs(exact[1:]) < 32767).any()
    got = [matrix(part, 4)[:, :columns].astype(int) for part in found]
    if wide_out:
        assert np.array_equal(256 * got[0] + got[1], np.minimum(exact, 32639))
    else:
        assert np.array_equal(got[0], np.clip(exact, -128, 127)) and not got[1].any()


def test_rows_see_the_keys_of_their_ranges():
    """Two tiles of scores from key 6 on: the others are masked, and no maximum."""
    values = np.arange(1, 2 * N * N + 1).reshape(N, 2 * N)
    ranges = np.array([[0, 65535], [8, 11], [9, 9], [13, 7]])
    contents, _ = statistics_of(values, Statistics.MAX)
    contents[PARAMETERS] = range_records(ranges, N, N)
    slot = {"slot": 5, "src_addr": PARAMETERS}
    fields = {
        "a_addr": ZEROS,
        "b_addr": ZEROS,
        "k": 2,
        "residual": 1,
        "residual_addr": VALUES,
        "residual_stride": N,
        "c_addr": RESULT,
        "c_stride": N,
        "count": 2,
        "columns": N,
        "out16": 1,
        "ranges": 1,
        "slot": 5,
        "first_key": 6,
        "key_step": N,
    }
    (result,) = run(contents, (Opcode.RANGES, slot), (Opcode.GEMM, fields), read=[(RESULT, 2 * N)])
    keys = 6 + np.arange(2 * N)
    seen = (keys >= ranges[:, :1]) & (keys < ranges[:, 1:])
    assert seen.sum(axis=1).tolist() == [8, 3, 0, 0]
    assert np.array_equal(matrix(result, 2 * N, "int16"), np.where(seen, values, units.MASKED_SCORE))


VALUES, ZEROS = 400, 3900  # lines


def statistics_of(values, kind):
    """int16 values at VALUES, and their row statistics in slot 0: a GEMM of zeros adds them as its residual."""
    words = values.shape[1]
    contents = {VALUES: pack(values, N, dtype="int16").tobytes(), ZEROS: bytes(LINE)}
    commands = [
        (
            Opcode.GEMM,
            {
                "a_addr": ZEROS,
                "b_addr": ZEROS,
                "k": 2,
                "residual": 1,
                "residual_addr": VALUES + first,
                "residual_stride": N,
                "c_addr": VALUES + first,
                "c_stride": N,
                "count": count,
                "columns": N,
                "out16": 1,
                "statistics": kind,
                "statistics_init": first == 0,
            },
        )
        for first, count in ((0, 1), (N, words // N - 1))
    ]
    return contents, commands


def test_softmax():
    values = np.random.default_rng(0).integers(-500, 500, (N, 12))
    contents, commands = statistics_of(values, Statistics.MAX)
    contents[PARAMETERS] = exp2_table()
    (result,) = run(
        contents,
        *commands,
        (Opcode.TABLE, {"table": Table.EXP2, "src_addr": PARAMETERS}),
        (Opcode.SOFTMAX, {"src_addr": VALUES, "dst8_addr": RESULT, "words": 12}),
        read=[(RESULT, 6)],
    )
    assert np.array_equal(matrix(result, 12, "uint8"), units.softmax(values)[0])


@pytest.mark.parametrize("words", [12, 300, 1200])
def test_layernorm(words):
    """Of noise, and of one outlier in zeros, whose normalised value saturates beyond 1024 words."""
    rng = np.random.default_rng(words)
    values, norm = rng.integers(-30000, 30000, (N, words)), random_norm(rng, words)
    values[1] = 0
    values[1, 5], norm.gamma[5] = 20000, 500  # small enough to leave the result unsaturated
    contents, commands = statistics_of(values, Statistics.MOMENTS)
    contents[2000] = norm_records(norm)
    (result,) = run(
        contents,
        *commands,
        (
            Opcode.LAYERNORM,
            {
                "src_addr": VALUES,
                "dst16_addr": 4000,
                "write16": 1,
                "words": words,
                "gamma_shift": norm.gamma_shift,
                "epsilon": norm.epsilon,
                "param_addr": 2000,
            },
        ),
        read=[(4000, words)],
    )
    expected = units.layernorm(values, norm.gamma, norm.beta, norm.gamma_shift, norm.epsilon)
    assert np.array_equal(matrix(result, words, "int16"), expected)


def test_strided_transfers():
    content = bytes(range(64))
    (result,) = run(
        {SOURCE: content},
        (
            Opcode.STORE,
            {
                "dram_addr": 0x8000,
                "scratchpad_addr": SOURCE,
                "lines": 1,
                "rows": 2,
                "dram_stride": 64,
                "scratchpad_stride": 3,
            },
        ),
        (
            Opcode.LOAD,
            {
                "dram_addr": 0x8000,
                "scratchpad_addr": RESULT,
                "lines": 1,
                "rows": 2,
                "dram_stride": 64,
                "scratchpad_stride": 2,
            },
        ),
        read=[(RESULT, 3)],
    )
    assert result == content[:8] + bytes(8) + content[24:32]
