"""Coverage doesn't watch Amaranth's simulations: they run no source of ours, and would take twice as long."""

import contextlib

from amaranth.sim import Simulator
from coverage import Coverage

__all__ = ["pause_in_simulations"]


def pause_in_simulations() -> None:
    """Lets every `Simulator` run without the coverage that may be measured."""
    for name in ("run", "run_until"):
        setattr(Simulator, name, _paused(getattr(Simulator, name)))


def _paused(method):
    def run(*arguments, **options):
        with _without_coverage():
            return method(*arguments, **options)

    return run


@contextlib.contextmanager
def _without_coverage():
    measured = Coverage.current()
    if measured is None:
        yield
        return
    measured.stop()
    try:
        yield
    finally:
        measured.start()
