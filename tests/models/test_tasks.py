"""Tasks from files in the forms that people have them, and one sentence for each that can't be used."""

import pytest

from bertha.errors import UserError
from bertha.models import text
from bertha.models.tasks import Part, Task, film_review_tasks, read_task, read_tasks


def folder(tmp_path, **files):
    """A task folder; `train_tsv` is the content of train.tsv."""
    place = tmp_path / "task"
    place.mkdir(parents=True)
    for name, content in files.items():
        content = content if isinstance(content, bytes) else content.encode()
        (place / ".".join(name.rsplit("_", 1))).write_bytes(content)
    return place


def test_film_reviews_are_no_calibration_text():
    short, long = film_review_tasks()
    calibration = {review.text for review in text.reviews("calibration")}
    for task in (short, long):
        assert task.classes == ("negative", "positive") and not task.similarity
        trained, tested = set(task.train.texts), set(task.test.texts)
        assert len(tested) > 1000 and len(trained) > 2000 and not trained & tested
        assert not {one for (one,) in trained | tested} & calibration
    assert max(len(one) for (one,) in short.train.texts) < 400


def test_header_of_one_sentence(tmp_path):
    place = folder(
        tmp_path,
        train_tsv='sentence\tlabel\nA "fine film.\t1\n\nBad, bad.\t0\r\n',
        dev_tsv="sentence\tlabel\nSo so.\t1\n",
        test_tsv="index\tsentence\n0\tNobody says.\n",
    )
    task = read_task(place)
    assert task == Task(
        name="task",
        train=Part((('A "fine film.',), ("Bad, bad.",)), ("1", "0")),
        test=Part((("So so.",),), ("1",)),
    )
    assert task.classes == ("0", "1")


def test_header_of_two_sentences_serves_a_file_without(tmp_path):
    place = folder(
        tmp_path,
        train_tsv="index\tsentence1\tsentence2\tlabel\n0\ta\tb\tyes\n1\tc\td\tno\n",
        val_tsv="7\te\tf\tno\n",
    )
    task = read_task(place)
    assert task.train.texts == (("a", "b"), ("c", "d")) and task.test == Part((("e", "f"),), ("no",))


@pytest.mark.parametrize(
    "header, texts",
    [
        ("index\tquestion\tsentence\tlabel", ("one", "two")),  # QNLI
        ("id\tquestion1\tquestion2\tis_duplicate", ("one", "two")),  # QQP
        ("id\tpremise\thypothesis\tgold_label", ("one", "two")),
    ],
)
def test_names_of_pairs(tmp_path, header, texts):
    place = folder(tmp_path, train_tsv=f"{header}\n0\tone\ttwo\ta\n1\tx\ty\tb\n", dev_tsv="0\to\tt\ta\n")
    assert read_task(place).train.texts[0] == texts


def test_mrpc_has_its_label_first(tmp_path):
    rows = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t5\t6\tone\ttwo\n0\t7\t8\tx\ty\n"
    task = read_task(folder(tmp_path, train_tsv=rows, test_tsv=rows))
    assert task.train == Part((("one", "two"), ("x", "y")), ("1", "0"))


def test_files_without_any_header(tmp_path):
    plain = read_task(folder(tmp_path / "plain", train_tsv="a\tone\nb\ttwo\n", test_tsv="a\tthree\n"))
    assert plain.train == Part((("one",), ("two",)), ("a", "b"))
    cola = read_task(
        folder(tmp_path / "cola", train_tsv="s\t1\t\tone\ns\t0\t*\ttwo\n", dev_tsv="s\t1\t\tx\n")
    )
    assert cola.train == Part((("one",), ("two",)), ("1", "0"))


def test_similarity(tmp_path):
    rows = '"one, two",three,2.5\nfour,five,1\n'
    task = read_task(folder(tmp_path / "csv", **{"stsb-en-train_csv": rows, "stsb-en-test_csv": rows}))
    assert task.similarity and task.test == Part((("one, two", "three"), ("four", "five")), (2.5, 1.0))
    alone = read_task(folder(tmp_path / "alone", some_csv=rows))
    assert alone.test == task.test and not alone.train.texts
    glue = "index\tsentence1\tsentence2\tscore\n0\ta\tb\t2.500\n1\tc\td\t5.000\n"
    task = read_task(folder(tmp_path / "tsv", train_tsv=glue, dev_tsv=glue))
    assert task.similarity and task.classes == () and task.test.labels == (2.5, 5.0)


def test_one_file_is_divided(tmp_path):
    rows = "".join(f"{'ab'[number % 2]}\ttext {number}\n" for number in range(30))
    task = read_task(folder(tmp_path, all_tsv=rows))
    assert len(task.train.texts) == 20 and len(task.test.texts) == 10
    assert len({*task.train.texts, *task.test.texts}) == 30


def test_folder_of_folders(tmp_path):
    first = folder(tmp_path / "x", train_tsv="a\tone\nb\ttwo\n", test_tsv="a\tthree\n")
    (tmp_path / "x" / "notes.md").write_text("no task")
    assert [task.name for task in read_tasks([tmp_path / "x"])] == ["task"]
    with pytest.raises(UserError, match="two folders are called 'task'"):
        read_tasks([first, tmp_path / "x"])


def test_limited():
    rows = Part(tuple((str(number),) for number in range(50)), tuple("ab" * 25))
    task = Task(name="t", train=rows, test=rows)
    some = task.limited(train=20, test=10, seed=3)
    assert len(some.train.texts) == len(some.train.labels) == 20 and len(some.test.texts) == 10
    assert all(label == "ab"[int(one) % 2] for (one,), label in zip(some.train.texts, some.train.labels))
    assert some == task.limited(train=20, test=10, seed=3) != task.limited(train=20, test=10, seed=4)
    assert task.limited(train=50, test=99) == task.limited(train=None, test=None) == task
    with pytest.raises(UserError, match="task t must have two classes at least among the 1 rows"):
        task.limited(train=1, test=10)


@pytest.mark.parametrize(
    "files, message",
    [
        ({}, "must hold TSV files, but has none"),
        ({"notes_txt": "a\tb"}, "must hold TSV files, but has none"),
        ({"train_tsv": "\n \n"}, "train.tsv' must hold labelled texts, but is empty"),
        ({"train_tsv": "sentence\tlabel\n"}, "train.tsv' must hold labelled texts, but is empty"),
        ({"train_tsv": b"\xff\xfe\t1"}, "train.tsv' can't be read: it isn't UTF-8"),
        ({"train_tsv": "index\tsentence\n0\tone\n"}, "must hold a file with labels, but has none"),
        ({"train_tsv": "one\ntwo\n"}, "not 1 columns without names"),
        ({"train_tsv": "a\tb\tc\td\te\n"}, "not 5 columns without names"),
        ({"train_tsv": "a\tone\na\ttwo\n"}, "must have two classes at least, but all labels are 'a'"),
        ({"train_tsv": "a\tone\n"}, "must have two classes at least, but all labels are 'a'"),
        ({"train_csv": "a,b,1.5\na,b,1.5\n"}, "must have two scores at least, but all labels are 1.5"),
        ({"train_tsv": "a\tone\nb\ttwo\t3\n"}, "2 columns in each row, but row 2 has 3"),
        ({"train_tsv": "a\tone\n\ttwo\n"}, "a label and a text in each row, but row 2 lacks one"),
        (
            {"train_tsv": "a\tone\nb\ttwo\n", "dev_tsv": "sentence1\tsentence2\tlabel\nx\ty\ta\n"},
            "must have one text in each row or two, not both",
        ),
    ],
)
def test_refused(tmp_path, files, message):
    with pytest.raises(UserError) as error:
        read_tasks([folder(tmp_path, **files)])
    assert message in str(error.value) and "\n" not in str(error.value)


def test_no_such_folder(tmp_path):
    (tmp_path / "file.tsv").write_text("a\tb\n")
    for path in (tmp_path / "absent", tmp_path / "file.tsv"):
        with pytest.raises(UserError, match="task folder must be a folder with TSV files, not '/"):
            read_tasks([path])
