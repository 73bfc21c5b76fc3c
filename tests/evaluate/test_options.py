import pytest

from bertha.errors import UserError
from bertha.evaluate.options import ROWS, EvaluationOptions


@pytest.mark.parametrize(
    "options, message",
    [
        ({"recipes": ("w8a8", "w4a4")}, "recipe must be one of w8a8, w8a8-split, mixed, a16, not 'w4a4'"),
        ({"recipes": ("a16", "a16")}, "recipes must be different ones, not a16 a16"),
        ({"recipes": ()}, "recipes must be different ones, not none"),
        ({"tasks": False, "folders": ("some",)}, "task folders must not be given together with no tasks"),
    ],
)
def test_refused(options, message):
    with pytest.raises(UserError, match=message):
        EvaluationOptions(**options)


def test_rows():
    assert EvaluationOptions().rows("CoLA") == {"train": ROWS[0], "test": ROWS[1]}
    assert EvaluationOptions().rows("reviews-long")["train"] < ROWS[0]
    assert EvaluationOptions(test=7).rows("CoLA") == {"train": ROWS[0], "test": 7}
    assert EvaluationOptions(everything=True).rows("reviews-long") == {"train": None, "test": None}
