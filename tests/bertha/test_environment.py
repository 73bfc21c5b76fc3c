"""`.venv` is made once, made anew when it can't be used, and refused when it isn't make's."""

import json
import subprocess
import sys

import pytest

from bertha import environment
from bertha.folders import CHECKOUT

SCRIPT = CHECKOUT / "bertha" / "environment.py"
VERSION = environment.THIS_VERSION


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of the test's own, below a folder with a space in its name."""
    top = tmp_path / "a folder" / "bertha"
    top.mkdir(parents=True)
    (top / "pyproject.toml").write_text("one\n")
    place = top / ".venv"
    for name, path in {
        "CHECKOUT": top,
        "PROJECT": top / "pyproject.toml",
        "ENVIRONMENT": place,
        "PYTHON": place / "bin" / "python",
        "MARK": place / "bertha.json",
        "OLD_MARK": place / "installed",
    }.items():
        monkeypatch.setattr(environment, name, path)
    return top


@pytest.fixture
def steps(checkout, monkeypatch):
    """The commands that were run, in short; a venv gets a Python, pip does nothing."""
    done = []

    def run(command):
        done.append(command[-1] if "pip" in command else "venv")
        if command[-3:] == ["-m", "venv", str(environment.ENVIRONMENT)]:
            environment.PYTHON.parent.mkdir()
            environment.PYTHON.symlink_to(command[0])
        return 0

    monkeypatch.setattr(environment, "run", run)
    return done


ANEW = ["venv", "pip>=25.1", ".[test,fpga]"]


def called(arguments=()):
    """Exit code of the script."""
    sys.argv[1:] = arguments
    return environment.main()


@pytest.fixture(autouse=True)
def arguments(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["environment.py"])


def test_made_once(steps, capsys):
    assert called() == 0
    assert steps == ANEW
    assert "installing into .venv" in capsys.readouterr().out
    assert called() == called(["--exactly"]) == 0
    assert steps == ANEW
    assert capsys.readouterr().out == ""


def test_an_interrupted_installation_is_made_anew(checkout, steps, monkeypatch, capsys):
    whole = environment.run

    def interrupted(command):
        whole(command)
        if "pip" in command:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(environment, "run", interrupted)
    assert called() == 130
    left = checkout / ".venv" / "half"
    left.touch()
    monkeypatch.setattr(environment, "run", whole)
    steps.clear()
    assert called() == 0
    assert steps == ANEW
    assert not left.exists()
    assert "an earlier installation was interrupted" in capsys.readouterr().out


def test_a_failed_step_is_one_sentence(checkout, monkeypatch, capsys):
    monkeypatch.setattr(environment, "run", lambda command: 1)
    assert called() == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error: installing into .venv failed: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("change", ["moved", "gone", "another", "mark"])
def test_what_cannot_be_used_is_made_anew(change, checkout, steps, capsys):
    assert called() == 0
    steps.clear()
    mark = environment.MARK
    if change == "moved":
        mark.write_text(mark.read_text().replace(str(checkout), "/elsewhere"))
        reason = "it was made as /elsewhere/.venv"
    elif change == "gone":
        environment.PYTHON.unlink()
        environment.PYTHON.symlink_to("/nowhere/python")
        reason = f"the Python {VERSION} that made it is gone"
    elif change == "another":
        mark.write_text(json.dumps(json.loads(mark.read_text()) | {"python": "3.99"}))
        reason = "the Python 3.99 that made it is gone"
    else:
        mark.write_text("half a fi")
        reason = "an earlier installation was interrupted"
    left = checkout / ".venv" / "left"
    left.touch()
    assert called() == 0
    assert steps == ANEW
    assert not left.exists()
    assert reason in capsys.readouterr().out


def test_another_python_counts_only_when_asked_for(steps, monkeypatch, capsys):
    assert called() == 0
    steps.clear()
    monkeypatch.setattr(environment, "THIS_VERSION", "3.99")
    assert called() == 0
    assert steps == []
    assert called(["--exactly"]) == 0
    assert steps == ANEW
    assert f"another Python, {VERSION}, made it" in capsys.readouterr().out


def test_a_changed_project_is_installed_over_the_old_one(checkout, steps):
    assert called() == 0
    steps.clear()
    (checkout / "pyproject.toml").write_text("two\n")
    assert called() == 0
    assert steps == ANEW[1:]
    assert called() == 0
    assert steps == ANEW[1:]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_not_makes_is_left_alone(kind, checkout, steps, capsys):
    if kind == "file":
        (checkout / ".venv").write_text("mine")
    else:
        (checkout / ".venv").mkdir()
        (checkout / ".venv" / "mine").touch()
    assert called() == 1
    assert steps == []
    captured = capsys.readouterr()
    assert captured.err == (
        "error: .venv is none that make has made, and is left alone: move it away, and try again\n"
    )


def test_an_old_python_is_refused(checkout, monkeypatch, capsys):
    monkeypatch.setattr(environment, "OLDEST", (9, 0))
    assert called() == 1
    assert capsys.readouterr().err == (
        f"error: Bertha needs Python 9.0 or newer, not {VERSION}: say make PYTHON=<another>\n"
    )
    assert not (checkout / ".venv").exists()


def test_two_at_once_install_once(tmp_path):
    """Two processes: one installs, the other says that it waits, and finds all that it needs."""
    (tmp_path / "bertha").mkdir()
    (tmp_path / "bertha" / "environment.py").write_text(SCRIPT.read_text())
    (tmp_path / "pyproject.toml").write_text("one\n")
    script = (
        "import sys, time; sys.path.insert(0, 'bertha'); import environment as e\n"
        "def run(command):\n"
        "    if 'venv' in command:\n"
        "        time.sleep(0.5); e.PYTHON.parent.mkdir(); e.PYTHON.symlink_to(sys.executable)\n"
        "    return 0\n"
        "e.run = run; sys.exit(e.main())\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sum("installing into .venv" in output for output in outputs) == 1
    # The second either waited or came when all was done.
    other = next(output for output in outputs if "installing" not in output)
    assert other in ("", "waiting for another process, which installs into .venv\n")
