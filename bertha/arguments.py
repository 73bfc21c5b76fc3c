"""Types of command line arguments (`type=` of `add_argument`): one sentence says what a number must be."""

from argparse import ArgumentTypeError
from collections.abc import Callable

__all__ = ["add_hard_attention", "integer", "integers", "number", "within"]


def integer(text) -> int:
    """An integer; its range is for whoever uses it to check."""
    return _parsed(int, text, "an integer")


def number(text) -> float:
    """A number; its range is for whoever uses it to check."""
    return _parsed(float, text, "a number")


def integers(text) -> tuple[int, ...]:
    """Integers separated by commas, as a tuple."""
    return _parsed(
        lambda whole: tuple(int(part) for part in whole.split(",")), text, "integers such as 0,0,4,4"
    )


def add_hard_attention(parser, *, values=True) -> None:
    """The option `hard_attention`, see `bertha.models.hard_attention.parse_hard_attention`; where values count, `renormalised` too."""
    parser.add_argument(
        "--hard-attention",
        metavar="K",
        help="each token attends to the K keys with the highest scores only: a number, or layers and numbers such as "
        "0-2:30,5:7 (default: to all)",
    )
    if not values:
        return
    parser.add_argument(
        "--no-renormalise",
        dest="renormalised",
        action="store_false",
        help="with --hard-attention, leave the kept probabilities what they are among all keys",
    )


def within(low, high) -> Callable[[str], int]:
    """The type of an integer from `low` to `high`."""
    rule = f"an integer from {low} to {high}"

    def parse(text):
        value = _parsed(int, text, rule)
        if not low <= value <= high:
            raise ArgumentTypeError(f"must be {rule}, not {text}")
        return value

    return parse


def _parsed(kind, text, rule):
    try:
        return kind(text)
    except ValueError:
        raise ArgumentTypeError(f"must be {rule}, not {text!r}") from None
