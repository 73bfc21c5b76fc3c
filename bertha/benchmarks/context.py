"""What benchmarks share: whether to simulate or to predict, and what has been measured already."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from bertha import compiler, rtl, runtime, sim
from bertha.fingerprint import commit, source_digest

__all__ = ["Context", "Kept", "KeptFigures"]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A value as it was kept: any JSON, the commit, and the seconds that it took."""

    value: object
    commit: str | None
    seconds: float


class KeptFigures:
    """Values on disk by key, a line of JSON each: those that were measured with the sources as they are.

    Parameters
    ----------
    path : Path
    code : str, optional
        Digest of the sources; by default of hardware, compiler and simulation.
    """

    def __init__(self, path, *, code=None):
        self._path = Path(path)
        self._code = code or source_digest(compiler, rtl, runtime, sim)
        self._found = self._read()

    def _read(self):
        found = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:  # the last one, if it was interrupted
                    continue
                key, code = entry.pop("key"), entry.pop("code")
                if code == self._code:
                    found[key] = Kept(**entry)
        return found

    def get(self, key) -> Kept | None:
        """What is kept under a key."""
        return self._found.get(key)

    def add(self, key, value, *, seconds) -> Kept:
        """Keeps a value."""
        kept = self._found[key] = Kept(value=value, commit=commit(), seconds=round(seconds, 2))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "code": self._code, **vars(kept)}) + "\n")
        return kept


class Context:
    """What a benchmark measures with.

    Attributes
    ----------
    predicted : bool
        Whether programs are predicted instead of simulated.
    rounds : int
        Of timed measurements, of which the fastest counts.
    notify : function of str
        Called with what is being done.

    Parameters
    ----------
    kept : KeptFigures
    again : bool
        Whether what was measured before this context is measured again.
    """

    def __init__(self, kept, *, predicted=False, again=False, rounds=3, notify=lambda what: None):
        self.predicted, self.rounds, self.notify = predicted, rounds, notify
        self._kept, self._again, self._fresh = kept, again, set()

    def keep(self, key, make) -> Kept:
        """What is kept under a key, or else what `make` returns now, which is then kept."""
        found = self._kept.get(key)
        if found is not None and (not self._again or key in self._fresh):
            return found
        self._fresh.add(key)
        start = time.monotonic()
        return self._kept.add(key, make(), seconds=time.monotonic() - start)
