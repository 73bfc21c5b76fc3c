"""Every cycle of every engine: the hardware's counters and an independent account agree on all of them."""

import json

from bertha.rtl.config import preset
from bertha.sim.build import build
from bertha.sim.launch import launch
from tests.sim.watched import design, fields

TESTS = 6 + 8 + 2 + 1


def test_counters_agree_with_the_ports(tmp_path):
    config = preset("tiny4")
    launch(
        build(config, design=design()),
        "tests.sim.cycles_bench",
        tmp_path,
        expect=TESTS,
        timeout=900,
        environment={"PRESET": "tiny4", "FIELDS": json.dumps(fields(config))},
        arguments=["+verilator+rand+reset+2", "+verilator+seed+7"],
    )
