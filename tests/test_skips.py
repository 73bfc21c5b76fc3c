"""A skipped test fails the suite in CI, and only there."""

import os
import subprocess
import sys

import pytest

from bertha.folders import CHECKOUT

TESTS = """\
import pytest


def test_runs():
    pass


@pytest.mark.skip
def test_is_skipped():
    pass
"""


@pytest.mark.parametrize("parallel", [[], ["-n", "1"]], ids=["alone", "parallel"])
@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_exit_code(parallel, ci, code, tmp_path):
    (tmp_path / "conftest.py").write_text((CHECKOUT / "tests" / "no_skips.py").read_text())
    (tmp_path / "test_two.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *parallel, str(tmp_path)]
    # A session of its own, not one of the workers of this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["CI"] = ci
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == code, result.stdout + result.stderr
    assert ("no test may be skipped here, but these were" in result.stdout) == bool(ci)
    assert "1 passed, 1 skipped" in result.stdout
