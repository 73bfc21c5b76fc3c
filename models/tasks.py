"""Labelled texts to judge embeddings by: film reviews that are installed, and folders of TSV files."""

import csv
import io
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertha.errors import UserError
from bertha.models import text

__all__ = ["Part", "Task", "film_review_tasks", "read_task", "read_tasks"]

TRAIN = ("train",)
TEST = ("test", "dev", "validation", "val", "dev_matched")
"""Names of files, without their suffix; the first of them that has labels is taken."""

VALIDATION = ("validation", "val", "dev", "dev_matched")
"""The same, of what isn't tested with."""

SUFFIXES = (".tsv", ".csv")
FIRST = ("sentence1", "question1", "premise", "question", "#1 string", "sentence", "text")
SECOND = ("sentence2", "question2", "hypothesis", "sentence", "#2 string")
LABEL = ("label", "gold_label", "is_duplicate", "quality", "class", "category", "sentiment", "intent")
SCORE = ("score", "similarity")

TEST_SHARE = 1 / 3
"""Of the rows of a folder that has no files of its own to train or to test with."""


@dataclass(frozen=True)
class Part:
    """Rows of a task.

    Attributes
    ----------
    texts : tuple of tuple of str
        One text a row, or a pair.
    labels : tuple of str or of float
        A class a row, or a score.
    """

    texts: tuple
    labels: tuple

    def limited(self, count, seed) -> "Part":
        """At most `count` of the rows (None: all), chosen at random."""
        if count is None or count >= len(self.texts):
            return self
        rows = sorted(random.Random(f"rows {seed}").sample(range(len(self.texts)), count))
        return Part(tuple(self.texts[row] for row in rows), tuple(self.labels[row] for row in rows))


@dataclass(frozen=True, kw_only=True)
class Task:
    """Labelled texts: a class or a similarity to be told from the embeddings of one text or two.

    `validation`, where there is a file of that, is neither for training nor for the last test.
    """

    name: str
    similarity: bool = False
    train: Part
    test: Part
    validation: Part | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels that there are, sorted; none if it's about similarity."""
        return () if self.similarity else tuple(sorted({*self.train.labels, *self.test.labels}))

    def limited(self, *, train, test, seed=0) -> "Task":
        """The task with so many rows to train and to test with, at most.

        Raises
        ------
        UserError
            If rows of a single class are left to train with.
        """
        task = replace(self, train=self.train.limited(train, seed), test=self.test.limited(test, seed))
        if not task.similarity and len(set(task.train.labels)) < 2:
            raise UserError(
                f"task {self.name} must have two classes at least among the {len(task.train.labels)} rows that "
                f"it trains with, but all are {task.train.labels[0]!r}"
            )
        return task


def film_review_tasks() -> list[Task]:
    """Is a film review positive? One task of single sentences and one of whole reviews.

    Both are made of reviews that no calibration saw, a third of them to test with.

    Raises
    ------
    TextError
        If the reviews aren't installed.
    """
    tasks = []
    for name, short in (("reviews-short", True), ("reviews-long", False)):
        labels = {  # some reviews are there twice
            review.text: "positive" if review.positive else "negative"
            for review in text.reviews("evaluation")
            if review.short == short
        }
        rows = [((one,), label) for one, label in labels.items()]
        tasks.append(Task(name=name, **_divided(rows)))
    return tasks


def read_tasks(folders) -> list[Task]:
    """The tasks in some folders: each is a task, or holds folders that are.

    Raises
    ------
    UserError
        As `read_task`, or if two tasks have the same name.
    """
    tasks = {}
    for folder in map(Path, folders):
        for place in _task_folders(folder):
            task = read_task(place)
            if task.name in tasks:
                raise UserError(f"tasks must have different names, but two folders are called {task.name!r}")
            tasks[task.name] = task
    return list(tasks.values())


def read_task(folder) -> Task:
    """The task in a folder of TSV or CSV files, named after it.

    A file's columns are told by its header (GLUE's names), by that of another file in the folder, or else by
    their number: two are a label and a text, three are two texts and a score, four are CoLA's. `train` is the
    file to train with; `test`, `dev` or `validation` (the first that has labels) the one to test with. Where one
    of them isn't there, a third of all rows is drawn to test with; all, if it's about similarity.

    Raises
    ------
    UserError
        If there is no such folder, no TSV or CSV file in it, a file can't be read, its columns can't be told,
        there are no labels, or there is one class only.
    """
    folder = Path(folder)
    files = _table_files(folder)
    if not files:
        raise UserError(f"task folder {str(folder)!r} must hold TSV files, but has none")
    tables = {path: _rows(path) for path in files}
    headers = [rows[0] for rows in tables.values() if _is_header(rows[0])]
    parts = {_part_name(path, folder): _part(path, rows, headers) for path, rows in tables.items()}
    labelled = {name: part for name, part in parts.items() if part is not None}
    if not labelled:
        raise UserError(f"task folder {str(folder)!r} must hold a file with labels, but has none")
    return _task(folder, labelled)


def _task(folder, parts):
    similarity = _is_similarity(parts.values())
    if similarity:
        parts = {name: [(texts, float(label)) for texts, label in rows] for name, rows in parts.items()}
    train = next((parts[name] for name in TRAIN if name in parts), None)
    tested = next((name for name in TEST if name in parts), None)
    test = parts.get(tested)
    if similarity:  # nothing is trained
        rows = test or [row for rows in parts.values() for row in rows]
        divided = {"train": _as_part(train or []), "test": _as_part(rows)}
    elif train is None or test is None:
        divided = _divided([row for rows in parts.values() for row in rows])
    else:
        divided = {"train": _as_part(train), "test": _as_part(test)}
        between = next((parts[name] for name in VALIDATION if name in parts and name != tested), None)
        divided |= {"validation": _as_part(between)} if between else {}
    if len({len(texts) for part in divided.values() for texts in part.texts}) > 1:
        raise UserError(f"task folder {str(folder)!r} must have one text in each row or two, not both")
    task = Task(name=folder.name or str(folder), similarity=similarity, **divided)
    labels = set(task.test.labels) if similarity else set(task.classes)
    if len(labels) < 2:
        raise UserError(
            f"task folder {str(folder)!r} must have two {'scores' if similarity else 'classes'} at least, but "
            f"all labels are {next(iter(labels), None)!r}"
        )
    return task


def _task_folders(folder):
    if not folder.is_dir():
        raise UserError(f"task folder must be a folder with TSV files, not {str(folder)!r}")
    if _table_files(folder):
        return [folder]
    inside = sorted(place for place in folder.iterdir() if place.is_dir() and _table_files(place))
    return inside or [folder]


def _table_files(folder):
    if not folder.is_dir():
        raise UserError(f"task folder must be a folder with TSV files, not {str(folder)!r}")
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())


def _part_name(path, folder):
    """`train` of `train.tsv`, and of `name-train.csv`."""
    stem = path.stem.lower()
    known = (*TRAIN, *TEST)
    return next((name for name in known if stem == name or stem.endswith((f"-{name}", f"_{name}"))), stem)


def _rows(path) -> list[list[str]]:
    """The rows of a table, blank ones left out. Quotes mean nothing in a TSV file."""
    try:
        content = path.read_bytes().decode("utf-8-sig")
        if path.suffix == ".tsv":
            rows = [line.removesuffix("\r").split("\t") for line in content.split("\n")]
        else:
            rows = list(csv.reader(io.StringIO(content, newline="")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = "it isn't UTF-8" if isinstance(error, UnicodeDecodeError) else error
        reason = error.strerror if isinstance(error, OSError) else reason
        raise UserError(f"task file {str(path)!r} can't be read: {reason}") from None
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        raise UserError(f"task file {str(path)!r} must hold labelled texts, but is empty")
    return rows


def _is_header(row):
    return any(name in FIRST for name in _names(row))


def _names(row):
    return [cell.strip().lower() for cell in row]


def _part(path, rows, headers):
    """The rows as (texts, label); None if the file has no labels."""
    own = _is_header(rows[0])
    header = rows[0] if own else next((one for one in headers if len(one) == len(rows[0])), None)
    columns = _named_columns(header) if header else _counted_columns(path, rows)
    if columns is None:
        return None
    texts, label = columns
    width = len(header or rows[0])
    found = []
    for number, row in enumerate(rows[1:] if own else rows, start=2 if own else 1):
        if len(row) != width:
            raise UserError(
                f"task file {str(path)!r} must have {width} columns in each row, but row {number} has {len(row)}"
            )
        if not row[label].strip() or not all(row[column].strip() for column in texts):
            raise UserError(
                f"task file {str(path)!r} must have a label and a text in each row, but row {number} lacks one"
            )
        found.append((tuple(row[column].strip() for column in texts), row[label].strip()))
    if not found:
        raise UserError(f"task file {str(path)!r} must hold labelled texts, but is empty")
    return found


def _named_columns(header):
    names = _names(header)
    label = next((names.index(name) for name in (*SCORE, *LABEL) if name in names), None)
    if label is None:
        return None
    first = next(name for name in FIRST if name in names)
    second = next((name for name in SECOND if name in names and name != first), None)
    return tuple(names.index(name) for name in (first, second) if name), label


def _counted_columns(path, rows):
    """Columns of a file that nobody named."""
    width = len(rows[0])
    if width == 2:
        return (1,), 0
    if width == 3 and _is_number(rows[0][2]):
        return (0, 1), 2
    if width == 4 and {row[1] for row in rows if len(row) == 4} <= {"0", "1"}:  # CoLA
        return (3,), 1
    raise UserError(
        f"task file {str(path)!r} must have a header with GLUE's names, or a label and a text in each row, "
        f"not {width} columns without names"
    )


def _is_similarity(parts: Iterable) -> bool:
    """Whether the labels of pairs are numbers and some of them no integers."""
    rows = [row for part in parts for row in part]
    if not all(len(texts) == 2 and _is_number(label) for texts, label in rows):
        return False
    return any(not float(label).is_integer() for _, label in rows)


def _is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _divided(rows: Sequence) -> dict[str, Part]:
    """Two parts of the rows, drawn at random."""
    order = list(range(len(rows)))
    random.Random("parts").shuffle(order)
    count = min(max(1, round(TEST_SHARE * len(rows))), len(rows) - 1)
    return {
        "train": _as_part([rows[row] for row in sorted(order[count:])]),
        "test": _as_part([rows[row] for row in sorted(order[:count])]),
    }


def _as_part(rows):
    return Part(tuple(texts for texts, _ in rows), tuple(label for _, label in rows))
