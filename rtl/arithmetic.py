"""Rounding and saturation: each rule once, as Amaranth expressions.

Rounding is always half up: towards plus infinity at exactly one half.
"""

from amaranth.hdl import Cat, Const, Mux, Shape, Value

__all__ = ["residue", "round_half_up", "saturate", "split_wide"]


def round_half_up(value, shift) -> Value:
    """`value / 2**shift` rounded half up, for a constant `shift`.

    The result is exact: as wide as the value needs, with its signedness.
    """
    value = Value.cast(value)
    if shift == 0:
        return value
    return (value + (1 << (shift - 1))) >> shift


def saturate(value, shape) -> Value:
    """`value` limited to the range of `shape` (an Amaranth shape), as a value of that shape."""
    value = Value.cast(value)
    shape = Shape.cast(shape)
    low = -(1 << (shape.width - 1)) if shape.signed else 0
    high = (1 << (shape.width - 1)) - 1 if shape.signed else (1 << shape.width) - 1
    width = len(value)
    if shape.signed:
        if width <= shape.width and value.shape().signed:
            return value
        top = value[shape.width - 1 :]
        sign = value[-1] if value.shape().signed else Const(0, 1)
        fits = Mux(sign, top.all(), ~top.any())
        limited = Mux(fits, value[: shape.width], Mux(sign, low & ((1 << shape.width) - 1), high))
        return limited.as_signed()
    if not value.shape().signed:
        if width <= shape.width:
            return value
        return Mux(value[shape.width :].any(), high, value[: shape.width])
    negative = value[-1]
    over = value[shape.width : -1].any() if width > shape.width + 1 else Const(0, 1)
    return Mux(negative, 0, Mux(over, high, value[: min(shape.width, width)]))


def residue(value) -> Value:
    """`sat8(value - sat8(value))` of a signed value; the subtraction doesn't wait for the saturation."""
    value = Value.cast(value)
    fits = value[7:].all() | ~value[7:].any()
    rest = value - Mux(value[-1], -128, 127)
    return Mux(fits, 0, saturate(rest, Shape(8, signed=True)))


def split_wide(value) -> tuple[Value, Value]:
    """High and low byte, both signed, of a signed 16-bit value that is limited to 32639: 256 * high + low."""
    value = Value.cast(value)
    negative, ones = value[15], value[7:15].all()
    over = ~negative & ones
    high = Cat((value[8:15] + value[7])[:7] | over.replicate(7), negative & ~ones)
    return high.as_signed(), Mux(over, 127, value[:8]).as_signed()
