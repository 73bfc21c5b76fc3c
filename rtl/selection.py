"""Choices that need no order."""

from functools import reduce
from operator import or_

from amaranth.hdl import Mux, Value

__all__ = ["one_hot_select"]


def one_hot_select(selects, values) -> Value:
    """The value whose bit of `selects` is set, 0 if none is; at most one may be.

    An OR of masked values: no chain of choices, in which the last value would wait for all bits.
    """
    return reduce(or_, (Mux(select, value, 0) for select, value in zip(selects, values, strict=True)))
