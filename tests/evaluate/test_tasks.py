"""What tasks make of embeddings whose quality is known."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from bertha.evaluate.downstream import neighbours, run_task, task_texts
from bertha.evaluate.neighbours import nearest
from bertha.evaluate.probe import compare_probes, pair_features
from bertha.evaluate.similarity import compare_similarities, spearman
from bertha.models.tasks import Part, Task


def normalised(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def labelled(rows, classes=2, seed=0):
    """Vectors around a centre of their class, and the classes' names."""
    generator = np.random.default_rng(seed)
    classes_of = generator.integers(classes, size=rows)
    centres = generator.normal(0, 1, (classes, 8))
    return normalised(centres[classes_of] + generator.normal(0, 0.7, (rows, 8))), [
        f"class {number}" for number in classes_of
    ]


@pytest.mark.parametrize("classes", [2, 5])
def test_probes(classes):
    vectors, labels = labelled(400, classes)
    noise = np.random.default_rng(9).normal(0, 1, vectors.shape)
    calls = []
    found = compare_probes(
        vectors,
        {"same": vectors, "worse": normalised(vectors + noise)},
        labels,
        250,
        5,
        lambda: calls.append(1),
    )
    same, worse = found["same"], found["worse"]
    assert same.result == same.reference > 0.8 and same.interval == (0, 0)
    assert same.differences == [0] * 5 and len(calls) == 15
    assert worse.difference < -0.05 and worse.interval[0] < worse.difference < worse.interval[1] < 0
    assert worse.difference == pytest.approx(worse.result - worse.reference)
    assert len(set(worse.differences)) > 1  # every seed trains with other rows


def test_pairs_of_texts():
    vectors = np.array([[1.0, 2], [3, -4]])
    assert np.array_equal(pair_features(vectors, [[1], [0]]), vectors[::-1])
    assert pair_features(vectors, [[0, 1]]).tolist() == [[1, 2, 3, -4, 2, 6, 3, -8]]


def test_spearman():
    generator = np.random.default_rng(4)
    left, right = generator.integers(6, size=50), generator.integers(6, size=50)  # with ties
    assert spearman(left, right) == pytest.approx(spearmanr(left, right).statistic)
    assert spearman(left, np.exp(left)) == pytest.approx(1)
    assert spearman(left, np.zeros(50)) == 0


def test_similarity():
    generator = np.random.default_rng(5)
    vectors = normalised(generator.normal(0, 1, (200, 8)))
    indices = np.arange(200).reshape(-1, 2)
    scores = (vectors[indices[:, 0]] * vectors[indices[:, 1]]).sum(axis=1)
    noisy = normalised(vectors + 0.3 * generator.normal(0, 1, vectors.shape))
    found = compare_similarities(vectors, {"same": vectors, "noisy": noisy}, indices, scores)
    assert found["same"].result == pytest.approx(1) and found["same"].interval == (0, 0)
    noisy = found["noisy"]
    assert noisy.interval[0] < noisy.difference < noisy.interval[1] < 0


def test_neighbours():
    vectors = normalised(np.random.default_rng(6).normal(0, 1, (700, 5)))
    cosines = vectors @ vectors.T - 3 * np.eye(700)
    assert np.array_equal(nearest(vectors), cosines.argmax(axis=1))
    moved = vectors.copy()
    moved[:70] = moved[70:140]  # a tenth are twins of others now
    result = neighbours({"fp32": vectors, "same": vectors, "moved": moved})
    assert result.comparisons["same"].result == 1 and result.rows == {"test": 700}
    low, high = result.comparisons["moved"].interval
    assert result.comparisons["moved"].result < 0.9 and low < high < 0


def test_a_task_finds_its_texts():
    """Texts that are given twice need one embedding; each row gets its own."""
    vectors, labels = labelled(60)
    names = [f"text {number}" for number in range(60)]
    train = Part(tuple((name,) for name in names[:40]) + ((names[0],),), (*labels[:40], labels[0]))
    task = Task(
        name="some", train=train, test=Part(tuple((name,) for name in names[40:]), tuple(labels[40:]))
    )
    assert task_texts(task) == names
    result = run_task(task, {"fp32": vectors, "a16": vectors}, seeds=2)
    assert result.measure == "accuracy"
    assert result.rows == {"train": 41, "test": 20, "classes": 2, "seeds": 2}
    assert result.comparisons["a16"].result == result.comparisons["a16"].reference > 0.8


def test_a_similarity_task_only_needs_what_is_tested():
    test = Part((("a", "b"), ("b", "c"), ("a", "c")), (1.0, 2.5, 3.0))
    task = Task(name="pairs", similarity=True, train=Part((("x", "y"),), (1.5,)), test=test)
    assert task_texts(task) == ["a", "b", "c"]
    angles = np.array([0.0, 2, 0.5])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    result = run_task(task, {"fp32": vectors, "a16": vectors}, seeds=5)
    # Cosines of the pairs: of 2, 1.5 and 0.5.
    assert result.measure == "spearman" and result.comparisons["a16"].result == pytest.approx(1)
