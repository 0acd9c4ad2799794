"""Floating-point arithmetic, one rounding each. PTX ISA, "Floating Point", "Half Precision Floating Point"."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from croq.ptx.registers import DTYPES, Array
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.units import float_arithmetic as arithmetic
from croq.ptx.units.approximate import APPROXIMATIONS, approximate
from croq.ptx.units.formats import FORMATS, rectified

if TYPE_CHECKING:
    from croq.ptx.build import Builder

Function = Callable[..., Array]
PACKED = {"f16x2": "f16", "bf16x2": "bf16"}
ROUNDINGS = ("rn", "rz", "rm", "rp")


def element(form: Form) -> str:
    """The type of one value: of a packed type, of each half."""
    return PACKED.get(form.type, form.type)


def apply(builder: Builder, form: Form, function: Function) -> Step:
    """`function` over operands of the instruction's float type. Packed types are two values a thread, side by side."""
    target, *operands = form.operands
    packed = form.type in PACKED
    kind = "b32" if packed else form.type
    sources = [builder.source(o, kind) for o in operands]
    out = builder.target(target, kind)
    dtype: Any = DTYPES[element(form)]

    def plain(lanes: Any) -> None:
        s = lanes.sel
        out[s] = function(*[x[s] for x in sources])

    def pairs(lanes: Any) -> None:
        s = lanes.sel
        values = [np.ascontiguousarray(x[s]).view(dtype) for x in sources]
        out[s] = np.ascontiguousarray(function(*values)).view(np.uint32)

    return pairs if packed else plain


def modifiers(form: Form, *names: str) -> dict[str, Any]:
    return {name: name in form.flags for name in names}


def rounding(form: Form) -> str:
    return form.one_of(*ROUNDINGS, default="rn")


def add(builder: Builder, form: Form) -> Step:
    minus = form.name == "sub"
    function = partial(arithmetic.add, rounding=rounding(form), negate_b=minus, **modifiers(form, "ftz", "sat"))
    return apply(builder, form, function)


def multiply(builder: Builder, form: Form) -> Step:
    return apply(builder, form, partial(arithmetic.mul, rounding=rounding(form), **modifiers(form, "ftz", "sat")))


@instruction("fma", flags="rn rz rm rp ftz sat relu")
def fma(builder: Builder, form: Form) -> Step:
    function = partial(arithmetic.fma, rounding=rounding(form), **modifiers(form, "ftz", "sat", "relu"))
    return apply(builder, form, function)


def divide(builder: Builder, form: Form) -> Step:
    how = form.one_of("approx", "full")
    if how:
        name = f"div.{how}.{element(form)}"
        if name not in APPROXIMATIONS:
            raise form.refuse()
        return apply(builder, form, partial(approximate, name, **modifiers(form, "ftz")))
    return apply(builder, form, partial(arithmetic.div, rounding=rounding(form), **modifiers(form, "ftz")))


def sign(builder: Builder, form: Form) -> Step:
    """abs and neg of floats change the sign bit alone."""
    bits: Any = FORMATS[element(form)].bits_dtype
    dtype: Any = DTYPES[element(form)]
    top = bits(1 << (np.dtype(bits).itemsize * 8 - 1))
    clears = form.name == "abs"

    def function(a: Array) -> Array:
        raw = np.ascontiguousarray(a).view(bits)
        changed: Array = (raw & ~top if clears else raw ^ top).view(dtype)
        return changed

    return apply(builder, form, function)


def extremum(builder: Builder, form: Form) -> Step:
    """min and max, of two or three operands."""
    pick = arithmetic.minimum if form.name == "min" else arithmetic.maximum
    if "abs" in form.flags and "xorsign" not in form.flags:
        raise form.refuse()
    two: Function = partial(
        pick, nan="NaN" in form.flags, xorsign_abs="xorsign" in form.flags, **modifiers(form, "ftz")
    )  # fmt: skip
    relu = "relu" in form.flags

    def function(a: Array, b: Array, *more: Array) -> Array:
        result = two(a, b)
        for c in more:
            result = two(result, c)
        return rectified(result, relu)

    return apply(builder, form, function)
