"""Results of a sweep on disk: a line for each finished point, so that a sweep can be taken up again."""

import csv
import json
from pathlib import Path

from bertha import compiler, rtl
from bertha.fingerprint import source_digest
from bertha.sweep.points import AXES
from bertha.sweep.work import FIELDS

__all__ = ["Store"]


class Store:
    """The results in a folder.

    Parameters
    ----------
    folder : Path
    kind : {"predicted", "rtl"}
    """

    def __init__(self, folder, kind):
        self._path = Path(folder) / f"{kind}.jsonl"
        self._csv = Path(folder) / f"{kind}.csv"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._code = source_digest(compiler, rtl)

    def finished(self) -> dict[str, dict]:
        """Results by the key of their point, but for failed ones, and those of other versions of compiler and hardware."""
        found = {}
        if not self._path.exists():
            return found
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:  # the last one, of a sweep that was interrupted
                continue
            if entry["code"] == self._code and not entry["result"].get("error"):
                found[entry["key"]] = entry["result"]
        return found

    def add(self, point, result) -> None:
        """Keeps a result."""
        entry = {"key": point.key, "code": self._code, "result": result}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def write_csv(self, rows) -> Path:
        """Writes all of `rows`, pairs of a point and its result, as CSV; its path."""
        wanted = [name for name in AXES if any(name in point.as_dict() for point, _ in rows)]
        names = [*wanted, *(name for name in FIELDS if name not in wanted)]
        with self._csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names, restval="", extrasaction="ignore")
            writer.writeheader()
            for point, result in rows:
                writer.writerow({**_flat(point), **result})
        return self._csv


def _flat(point):
    values = {name: getattr(point, name) for name in AXES if hasattr(point, name)}
    values["sentences"] = "+".join(map(str, point.sentences))
    values["bandwidth"] = point.bandwidth if point.bandwidth is not None else ""
    return {**values, **point.changes}
