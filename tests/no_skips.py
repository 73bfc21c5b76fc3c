"""Pytest hooks: with CI in the environment, a skipped test fails the suite."""

import os

_skipped = []


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report):
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session):
    # Where nobody reads the output, a test that doesn't run would never be missed.
    if _skipped and os.environ.get("CI") and session.exitstatus == 0:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    if _skipped and os.environ.get("CI"):
        terminalreporter.write_line(f"no test may be skipped here, but these were: {', '.join(_skipped)}")
