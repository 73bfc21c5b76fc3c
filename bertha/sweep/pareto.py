"""Which results no other beats."""

__all__ = ["pareto_front"]


def pareto_front(rows, costs) -> list:
    """Rows for which no other is at least as good in all costs and better in one, in their order.

    Parameters
    ----------
    rows : list
    costs : function of a row
        Its costs, a tuple of numbers; less is better.
    """
    priced = [(costs(row), row) for row in rows]
    return [row for mine, row in priced if not any(_beats(other, mine) for other, _ in priced)]


def _beats(one, other):
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
