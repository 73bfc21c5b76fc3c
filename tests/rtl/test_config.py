"""Config refuses what can't be built, in one sentence; the presets are as promised."""

import pytest

from bertha.rtl.config import PRESETS, Config, preset


def test_presets():
    assert [(c.array_n, c.scratchpad_bytes, c.axi_data_bits) for c in PRESETS.values()] == [
        (4, 1 << 16, 64),
        (8, 1 << 18, 64),
        (16, 1 << 20, 64),
        (32, 2 << 20, 128),
    ]
    assert preset("edge16") == Config()


def test_writes_are_not_bufferable():
    """Their response comes from where the data end up: normal, non-cacheable, non-bufferable memory."""
    assert {c.axi_write_cache for c in PRESETS.values()} == {0b0010}


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("array_n", 12, "array_n must be a power of two, not 12"),
        ("array_n", 2, "array_n must be from 4 to 32, not 2"),
        ("scratchpad_bytes", 3 << 18, "scratchpad_bytes must be a power of two"),
        ("scratchpad_bytes", 1 << 29, "scratchpad_bytes must be from 4096 to 268435456, not 536870912"),
        ("scratchpad_banks", 1, "scratchpad_banks must be from 2 to 32, not 1"),
        ("axi_data_bits", 512, "axi_data_bits must be at most one scratchpad line"),
        ("axi_addr_bits", 65, "axi_addr_bits must be from 16 to 64, not 65"),
        ("axi_write_cache", 16, "axi_write_cache must be from 0 to 15, not 16"),
        ("axi_read_cache", 0b0101, "axi_read_cache must have bit 1 .modifiable. set where .*, not 0b0101"),
        ("axi_prot", 8, "axi_prot must be from 0 to 7, not 8"),
        ("burst_beats", 512, "burst_beats must be from 4 to 256, not 512"),
        ("outstanding_bursts", 0, "outstanding_bursts must be from 1 to 64, not 0"),
        ("queue_depth", 1, "queue_depth must be from 2 to 64, not 1"),
        ("row_slots", 3, "row_slots must be a power of two, not 3"),
        ("semaphores", 33, "semaphores must be from 2 to 32, not 33"),
    ],
)
def test_wrong_values_are_named(name, value, words):
    with pytest.raises(ValueError, match=words):
        Config(**{name: value})


def test_wrong_type():
    with pytest.raises(TypeError, match="array_n must be an integer, not '16'"):
        Config(array_n="16")


def test_unknown_preset():
    with pytest.raises(ValueError, match="preset must be one of tiny4, .*, not 'huge'"):
        preset("huge")


def test_sizes():
    config = Config()
    assert (config.line_bytes, config.lines, config.bank_lines) == (32, 32768, 4096)
    assert config.beats_per_line == 4
