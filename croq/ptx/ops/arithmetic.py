"""Integer arithmetic. PTX ISA, "Integer Arithmetic Instructions". Results wrap at the width of their type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.faults import PtxFault
from croq.ptx.ops import floats
from croq.ptx.registers import Array, is_float, signed
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.syntax import WIDTHS

Function = Callable[..., Array]


def stepped(target: Array, function: Function, *sources: Array) -> Step:
    """`target = function(sources)` for the threads of a step."""
    if len(sources) == 1:
        (a,) = sources

        def one(lanes: Any) -> None:
            s = lanes.sel
            target[s] = function(a[s])

        return one
    if len(sources) == 2:
        a, b = sources

        def two(lanes: Any) -> None:
            s = lanes.sel
            target[s] = function(a[s], b[s])

        return two

    def many(lanes: Any) -> None:
        s = lanes.sel
        target[s] = function(*[x[s] for x in sources])

    return many


def pick(choice: Array, yes: Array, no: Array) -> Array:
    found: Array = np.where(choice, yes, no)
    return found


def simple(builder: Builder, form: Form, function: Function, count: int) -> Step:
    """All operands of the instruction's one type."""
    target, *sources = form.operands
    if len(sources) != count:
        raise form.refuse(f"{len(sources)} sources where {count} belong")
    return stepped(builder.target(target, form.type), function, *(builder.source(s, form.type) for s in sources))


# ----------------------------------------------------------------------------------------------------------- sums
_SUMS: dict[str, Function] = {"add": np.add, "sub": np.subtract}
_LIMITS = {"s32": (-(2**31), 2**31 - 1)}


@instruction("add sub", flags="rn rz rm rp ftz sat cc")
def add(builder: Builder, form: Form) -> Step:
    if is_float(form.type):
        return floats.add(builder, form)
    if "cc" in form.flags:
        return carrying(builder, form)
    if "sat" in form.flags:
        low, high = _LIMITS[form.type]
        wide = _SUMS[form.name]
        return simple(builder, form, lambda a, b: np.clip(wide(a.astype(np.int64), b), low, high).astype(np.int32), 2)
    return simple(builder, form, _SUMS[form.name], 2)


@instruction("addc subc", flags="cc")
def carrying(builder: Builder, form: Form) -> Step:
    """add.cc, addc and the like: the carry is one bit a thread. PTX ISA, "Extended-Precision Integer Arithmetic"."""
    target, first, second = form.operands
    bits = WIDTHS[form.type]
    kind = f"u{bits}"
    out, a, b = builder.target(target, kind), builder.source(first, kind), builder.source(second, kind)
    carry, into = builder.carry, form.name in ("addc", "subc")
    minus = form.name in ("sub", "subc")
    sets = "cc" in form.flags

    def step(lanes: Any) -> None:
        s = lanes.sel
        x, y = a[s], b[s]
        before = carry[s].astype(x.dtype) if into else np.zeros_like(x)
        half = x - y if minus else x + y
        result = half - before if minus else half + before
        out[s] = result
        if sets:
            carry[s] = ((x < y) | (half < before)) if minus else ((half < x) | (result < half))

    return step


# -------------------------------------------------------------------------------------------------------- products
def high_half(a: Array, b: Array) -> Any:
    """The upper half of products of equal types."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    x, y = a.view(np.uint64) if a.flags.c_contiguous else a.astype(np.uint64), b.astype(np.uint64)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    rest = x0 * y1 + (middle & low)
    result = x1 * y1 + (middle >> half) + (rest >> half)
    if a.dtype.kind == "i":
        result = result - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return result.astype(a.dtype)


def low_half(a: Array, b: Array) -> Array:
    return a * b


_WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}


def product_types(form: Form) -> tuple[str, Function]:
    """The type of the result, and the product."""
    half = form.one_of("lo", "hi", "wide")
    if half == "wide":
        result = _WIDER.get(form.type)
        if result is None:
            raise form.refuse()
        dtype = f"{'i' if signed(form.type) else 'u'}{WIDTHS[result] // 8}"
        return result, lambda a, b: a.astype(dtype) * b.astype(dtype)
    if not half:
        raise form.refuse("neither .lo, .hi nor .wide")
    return form.type, high_half if half == "hi" else low_half


@instruction("mul", flags="lo hi wide rn rz rm rp ftz sat")
def mul(builder: Builder, form: Form) -> Step:
    if is_float(form.type):
        return floats.multiply(builder, form)
    result, product = product_types(form)
    target, a, b = form.operands
    sources = (builder.source(a, form.type), builder.source(b, form.type))
    return stepped(builder.target(target, result), product, *sources)


@instruction("mad madc", flags="lo hi wide cc rn rz rm rp ftz sat")
def mad(builder: Builder, form: Form) -> Step:
    if is_float(form.type):
        return floats.fma(builder, form)
    if "cc" in form.flags or form.name == "madc":
        return mad_carrying(builder, form)
    if "sat" in form.flags:
        raise form.refuse()
    result, product = product_types(form)
    target, a, b, c = form.operands
    sources = (builder.source(a, form.type), builder.source(b, form.type), builder.source(c, result))
    return stepped(builder.target(target, result), lambda x, y, z: product(x, y) + z, *sources)


def mad_carrying(builder: Builder, form: Form) -> Step:
    kind, product = product_types(form)
    target, first, second, third = form.operands
    a, b, c = (builder.source(x, kind) for x in (first, second, third))
    out, carry = builder.target(target, kind), builder.carry
    into, sets = form.name == "madc", "cc" in form.flags

    def step(lanes: Any) -> None:
        s = lanes.sel
        part, z = product(a[s], b[s]), c[s]
        half = part + z
        before = carry[s].astype(half.dtype) if into else np.zeros_like(half)
        result = half + before
        out[s] = result
        if sets:
            plain = f"u{half.dtype.itemsize}"
            carry[s] = (half.view(plain) < part.view(plain)) | (result.view(plain) < half.view(plain))

    return step


@instruction("mul24 mad24", flags="lo hi")
def mul24(builder: Builder, form: Form) -> Step:
    """24-bit operands, sign or zero extended; the low or the high 32 of 48 bits."""
    target, *sources = form.operands
    shift = 16 if "hi" in form.flags else 0
    wide = np.int64 if signed(form.type) else np.uint64

    def low24(x: Array) -> Any:
        return (x << np.array(8, x.dtype)) >> np.array(8, x.dtype)

    def function(a: Array, b: Array, c: Array | None = None) -> Any:
        found = ((low24(a).astype(wide) * low24(b).astype(wide)) >> wide(shift)).astype(a.dtype)
        return found if c is None else found + c

    return stepped(builder.target(target, form.type), function, *(builder.source(s, form.type) for s in sources))


# --------------------------------------------------------------------------------------------------------- division
def _quotient(a: Array, b: Array) -> Array:
    """Truncated toward zero."""
    if a.dtype.kind == "u":
        return a // b
    floor, rest = np.floor_divide(a, b), np.remainder(a, b)
    return np.where((rest != 0) & ((a < 0) != (b < 0)), floor + 1, floor).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Any:
    return a - _quotient(a, b) * b


@instruction("div rem", flags="rn rz rm rp ftz approx full")
def divide(builder: Builder, form: Form) -> Step:
    if is_float(form.type):
        return floats.divide(builder, form)
    function = _quotient if form.name == "div" else _remainder

    def checked(a: Array, b: Array) -> Array:
        if not b.all():
            raise PtxFault("E-7018", "an integer division by zero")
        return function(a, b)

    return simple(builder, form, checked, 2)


# --------------------------------------------------------------------------------------------------------- one operand
@instruction("abs neg", flags="ftz")
def sign(builder: Builder, form: Form) -> Step:
    if is_float(form.type):
        return floats.sign(builder, form)
    return simple(builder, form, np.abs if form.name == "abs" else np.negative, 1)


@instruction("min max", flags="ftz NaN xorsign abs relu")
def extremum(builder: Builder, form: Form) -> Step:
    if is_float(form.type):
        return floats.extremum(builder, form)
    function: Function = np.minimum if form.name == "min" else np.maximum
    if "relu" in form.flags:
        return simple(builder, form, lambda a, b: np.maximum(function(a, b), 0), 2)
    return simple(builder, form, function, 2)


@instruction("sad")
def sad(builder: Builder, form: Form) -> Step:
    return simple(builder, form, lambda a, b, c: c + np.where(a < b, b - a, a - b), 3)


@instruction("dp4a", types="u32 s32")
def dp4a(builder: Builder, form: Form) -> Step:
    """Four products of bytes and a sum."""
    target, *sources = form.operands
    kinds = [np.int8 if signed(t) else np.uint8 for t in form.types]
    result = "s32" if "s32" in form.types else "u32"

    def function(a: Array, b: Array, c: Array) -> Any:
        x, y = (
            np.ascontiguousarray(v).view(k).reshape(-1, 4).astype(np.int64) for v, k in zip((a, b), kinds, strict=True)
        )
        return (c.astype(np.int64) + (x * y).sum(1)).astype(c.dtype)

    rows = (builder.source(sources[0], "b32"), builder.source(sources[1], "b32"), builder.source(sources[2], result))
    return stepped(builder.target(target, result), function, *rows)
