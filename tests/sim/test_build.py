"""Builds are kept, shared between processes, and rebuilt when what they are made of changes."""

import json
import os
import subprocess
import sys
import time

import pytest

from bertha.errors import ToolError
from bertha.folders import CHECKOUT
from bertha.rtl.config import preset
from bertha.sim import build as build_module
from bertha.sim.build import Design, build, generate_verilog

CONFIG = preset("tiny4")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Builds go to a folder of the test's own."""
    monkeypatch.setattr(build_module, "BUILD", tmp_path)
    return tmp_path


def counting_design(source, *, verilog="module bertha; endmodule\n"):
    """A design that counts how often it was generated, in a list."""
    generated = []

    def generate(config, folder):
        generated.append(config)
        (folder / "bertha.v").write_text(verilog)
        (folder / "manifest.json").write_text(json.dumps({"ports": [{"name": "m_axi_arid", "width": 2}]}))

    return Design("counting", generate, (source,)), generated


def test_verilog_is_generated_once(folder):
    source = folder / "part.py"
    source.write_text("one")
    design, generated = counting_design(source)
    first = generate_verilog(CONFIG, design=design)
    assert generate_verilog(CONFIG, design=design) == first
    assert len(generated) == 1
    source.write_text("two")
    assert generate_verilog(CONFIG, design=design) != first
    assert generate_verilog(preset("edge8"), design=design) != first
    assert generated == [CONFIG, CONFIG, preset("edge8")]


def test_what_failed_is_made_anew(folder):
    source = folder / "part.py"
    source.write_text("one")

    def broken(config, folder):
        (folder / "bertha.v").write_text("half a fi")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        generate_verilog(CONFIG, design=Design("counting", broken, (source,)))
    design, generated = counting_design(source)
    result = generate_verilog(CONFIG, design=design)
    assert len(generated) == 1
    assert (result / "bertha.v").read_text().startswith("module")


def test_unused_folders_are_removed(folder):
    source = folder / "part.py"
    source.write_text("one")
    design, _ = counting_design(source)
    old = generate_verilog(CONFIG, design=design)
    days_ago = time.time() - 2 * 24 * 3600
    os.utime(old / "done", (days_ago, days_ago))
    source.write_text("two")
    new = generate_verilog(CONFIG, design=design)
    assert not old.exists()
    assert new.exists()


def test_bad_verilog_is_one_sentence(folder):
    source = folder / "part.py"
    source.write_text("one")
    design, _ = counting_design(source, verilog="module bertha; this is no Verilog\n")
    with pytest.raises(
        ToolError,
        match=r"Verilator failed \(exit \d+\): .*bertha\.v:1:16: syntax error.*; see .*verilator\.log",
    ) as error:
        build(CONFIG, design=design)
    assert "\n" not in str(error.value)


def test_second_build_is_immediate():
    first = build(CONFIG, toplevel="axi_memory")
    start = time.monotonic()
    assert build(CONFIG, toplevel="axi_memory") == first
    assert time.monotonic() - start < 1


def test_processes_wait_for_each_other(folder):
    """Four processes that want the same thing at once: one makes it."""
    script = (
        "import sys, time; from pathlib import Path\n"
        "from bertha.sim import build; from bertha.rtl.config import preset\n"
        "folder = Path(sys.argv[1]); build.BUILD = folder\n"
        "def generate(config, into):\n"
        "    print('made'); time.sleep(0.5); (into / 'bertha.v').write_text('whole')\n"
        "into = build.generate_verilog(preset('tiny4'), design=build.Design('slow', generate, ()))\n"
        "assert (into / 'bertha.v').read_text() == 'whole'\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
        )
        for _ in range(4)
    ]
    outputs, errors = zip(*(process.communicate(timeout=120) for process in processes), strict=True)
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(outputs) == ["", "", "", "made\n"]
    # Whoever waited said so, in a line.
    waited = [error for error in errors if error]
    assert all(
        error.startswith("waiting for another process that generates the same Verilog") for error in waited
    )
    assert all(error.count("\n") == 1 for error in waited)


def test_removed_by_another_process_meanwhile(folder, monkeypatch):
    """Two processes that tidy up at once don't trip over each other."""
    source = folder / "part.py"
    source.write_text("one")
    design, _ = counting_design(source)
    old = generate_verilog(CONFIG, design=design)
    done = old / "done"
    monkeypatch.setattr(type(folder), "glob", lambda self, pattern: iter([old / "gone" / "done", done]))
    monkeypatch.setattr(build_module, "_UNUSED_SECONDS", -1)
    build_module._remove_unused(folder)
    assert not old.exists()
