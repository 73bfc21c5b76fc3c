"""However a command ends, it is told in one sentence, and nothing is left running."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertha.cli import main
from bertha.folders import BUILD
from bertha.rtl.config import preset
from bertha.sim import prepare
from bertha.sim.build import build

BERTHA = [sys.executable, "-m", "bertha"]
LAYER = ["--model", "reduced", "--preset", "tiny4", "--seq", "60"]


def start(*arguments, stdout=subprocess.PIPE):
    return subprocess.Popen(
        [*BERTHA, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        # The tests themselves may run where a shell's background jobs ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def running_in(folder):
    """Processes whose working directory is `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder:
                found.append(int(process.name))
        except OSError:
            pass  # it has ended meanwhile, or isn't ours
    return found


def wait_until(holds):
    for _ in range(1200):
        if holds():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("number", "code", "sentence"),
    [(signal.SIGINT, 130, "error: interrupted\n"), (signal.SIGTERM, 143, "error: told to end\n")],
)
def test_a_signal_ends_the_simulation_too(number, code, sentence):
    """It reaches the command only, not its group; a run of millions of cycles ends at once."""
    latency = 100_000 - number - 100 * (os.getpid() % 500)  # a run, and so a folder, of its own
    folder = BUILD / "sim" / f"reduced-layer0-s60-tiny4-latency{latency}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "report.json").write_text("an old report")
    build(preset("tiny4"))
    process = start("sim", *LAYER, "--layer", "0", "--latency", str(latency))
    try:
        assert wait_until(lambda: (folder / "progress").exists() or process.poll() is not None)
        assert running_in(folder)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, errors) == (code, sentence)
    assert not running_in(folder)
    assert not (folder / "report.json").exists()


def test_a_closed_pipe_is_no_error():
    process = start("compile", *LAYER, "--layer", "0", "--disassemble")
    assert process.stdout.readline().startswith("; layer0: ")
    process.stdout.close()
    assert process.wait(timeout=120) == 128 + signal.SIGPIPE
    assert process.stderr.read() == ""


def test_a_full_disk_is_one_sentence():
    with open("/dev/full", "w", encoding="utf-8") as full:
        process = start("compile", *LAYER, "--layer", "0", "--disassemble", stdout=full)
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (2, "error: the output can't be used: No space left on device\n")


def test_a_build_folder_that_cannot_be_used(tmp_path, monkeypatch, capsys):
    file = tmp_path / "build"
    file.write_text("a file, not a folder")
    monkeypatch.setattr(prepare, "BUILD", file)
    assert main(["sim", *LAYER]) == 2
    assert capsys.readouterr().err == f"error: {file / 'sim'} can't be used: Not a directory\n"


def test_an_output_folder_that_cannot_be_used(tmp_path, capsys):
    file = tmp_path / "out"
    file.write_text("a file, not a folder")
    assert main(["verilog", "--preset", "tiny4", "--out", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {file}") and error.count("\n") == 1


def test_signals_are_as_before_after_a_command(capsys):
    before = signal.getsignal(signal.SIGTERM)
    assert main(["sim", "--preset", "huge"]) == 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_is_ignored_stays_ignored():
    """Under nohup, the end of the terminal ends nothing."""
    script = (
        "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from bertha import cli\n"
        "with cli._ended_by(signal.SIGTERM, signal.SIGHUP):\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "print('still here')\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "still here\n"
