"""Formatting and linting, with the very versions that pyproject.toml pins."""

import subprocess
import sys

import pytest

from bertha.folders import CHECKOUT


@pytest.mark.parametrize("check", [["format", "--check", "--diff"], ["check"]], ids=["format", "lint"])
def test_python_sources(check):
    command = [sys.executable, "-m", "ruff", *check, "."]
    result = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
