"""The matrix products of a layer: their shapes, and how much they compute for each byte of their matrices."""

from dataclasses import dataclass

from bertha.compiler.operations import purpose_of
from bertha.compiler.placeholder import operand_plan

__all__ = ["Product", "products"]


@dataclass(frozen=True, kw_only=True)
class Product:
    """One kind of product in a layer, as the study counts it: every matrix is moved once.

    Attributes
    ----------
    name : str
        The kind of operation (`bertha.compiler.operations.KINDS`).
    count : int
        Products of the shape m x k by k x n.
    m, k, n : int
    operand_bytes, weight_bytes, result_bytes : int
        Of a value.
    """

    name: str
    count: int
    m: int
    k: int
    n: int
    operand_bytes: int = 1
    weight_bytes: int = 1
    result_bytes: int = 1

    @property
    def macs(self) -> int:
        return self.count * self.m * self.k * self.n

    @property
    def bytes(self) -> int:
        """Of both operands and the result."""
        one = (
            self.m * self.k * self.operand_bytes
            + self.k * self.n * self.weight_bytes
            + self.m * self.n * self.result_bytes
        )
        return self.count * one

    @property
    def intensity(self) -> float:
        """Multiply-accumulates a byte."""
        return self.macs / self.bytes


def products(shape, tokens, recipe) -> list[Product]:
    """The products of one layer (the first) of a model.

    Parameters
    ----------
    shape : ModelShape
    tokens : int
    recipe : str
        Wide operands have two bytes a value; duplicated channels aren't counted.
    """
    plan = operand_plan(shape, recipe)
    heads, dim, hidden = shape.heads[0], shape.head_dim, shape.hidden
    width = heads * dim
    operand = {name: 2 if value == "wide" else 1 for name, value in plan.items()}

    def product(operation, **sizes):
        return Product(name=purpose_of(operation), m=tokens, **sizes)

    def linear(operation, use, k, n, *, count=1, result=1):
        return product(operation, count=count, k=k, n=n, operand_bytes=operand[use], result_bytes=result)

    return [
        linear("query", "projections", hidden, width, count=3),
        product("scores", count=heads, k=dim, n=tokens, result_bytes=2),
        product(
            "context",
            count=heads,
            k=tokens,
            n=dim,
            weight_bytes=operand["value"],
            result_bytes=operand["output"],
        ),
        linear("output", "output", width, hidden, result=2),
        linear("intermediate", "intermediate", hidden, shape.ffn, result=operand["down"]),
        linear("down", "down", shape.ffn, hidden, result=2),
    ]
