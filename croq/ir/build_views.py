"""View expressions to views: resolved extents and scales come from the analysis, offsets are computed here."""

from __future__ import annotations

from typing import Literal

import croq.numbers as numbers
from croq.ir import build_expressions as expressions
from croq.ir.build_context import KernelBuilder
from croq.ir.core import Value
from croq.ir.objects import Buffer, View
from croq.ir.rewrite import known_interval
from croq.sema import types
from croq.sema.symbolic import Dim
from croq.sema.symbols import DataSymbol
from croq.syntax import ast

Offset = Value | int


def view(b: KernelBuilder, expr: ast.Expr) -> View:
    """The data that `expr` denotes; emits what its offsets need."""
    found = b.model.views[expr]
    with b.spanned(expr.span):
        return resolved(b, found)


def resolved(b: KernelBuilder, found: types.View) -> View:
    start = _start(b, found)
    slot = start.slot if found.slot is None else index(b, found.slot)
    offsets = tuple(_moved(b, base, axis.terms) for base, axis in zip(start.offsets, found.axes, strict=True))
    extents = tuple(axis.extent for axis in found.axes)
    kept = tuple(d for d, axis in enumerate(found.axes) if axis.kept)
    return View(start.root, slot, offsets, extents, kept)


def _start(b: KernelBuilder, found: types.View) -> View:
    if found.base in b.places:
        return b.places[found.base]
    assert isinstance(found.base, DataSymbol)
    root = b.data[found.base]
    rank = len(found.axes)
    return View(root, None, (0,) * rank, found.base.shape, tuple(range(rank)))


def _moved(b: KernelBuilder, offset: Offset, terms: tuple[types.Term, ...]) -> Offset:
    for term in terms:
        with b.spanned(term.index.span):
            offset = _within(b, _add(b, offset, _scaled(b, index(b, term.index), term.scale)))
    return offset


def _within(b: KernelBuilder, offset: Offset) -> Offset:
    """An offset as an s32: one that does not fit lies outside of all data, and stays there."""
    if isinstance(offset, int) or offset.type == "s32":
        return offset
    offset = b.ir.binary("max", b.ir.binary("min", offset, numbers.MAX_EXTENT), -numbers.MAX_EXTENT)
    return b.ir.cast(offset, "s32")


def index(b: KernelBuilder, expr: ast.Expr) -> Offset:
    """An index: an int when it is known, else a value of its own type."""
    known = b.model.types[expr].known
    if known is not None:
        return known
    return expressions.value(b, expr)


def _scaled(b: KernelBuilder, at: Offset, scale: Dim) -> Offset:
    factor = scale.known
    if isinstance(at, int):
        return at * factor if factor is not None else b.dim(scale * at)
    if factor == 1:
        return place(b, at)
    return _arithmetic(b, "mul", place(b, at), factor if factor is not None else b.dim(scale))


def _add(b: KernelBuilder, left: Offset, right: Offset) -> Offset:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if isinstance(left, int):
        left, right = right, left
    if isinstance(left, int) or right == 0:
        return left
    return _arithmetic(b, "add", left, right)


def _arithmetic(b: KernelBuilder, op: Literal["add", "mul"], left: Value, right: Offset) -> Value:
    """An s32 where 32 bits hold the result, else an s64."""
    other = _interval(right)
    if left.type == "s32" and other is not None:
        found = numbers.exact_interval(op, _interval(left), other, "s32")
        if not numbers.fits(found, "s32"):
            left = b.ir.cast(left, "s64")
    if isinstance(right, Value) and "s64" in (left.type, right.type):
        left, right = b.ir.cast(left, "s64"), b.ir.cast(right, "s64")
    return b.ir.binary(op, left, right)


def _interval(at: Offset) -> numbers.Interval:
    if isinstance(at, int):
        return at, at
    return known_interval(at) or numbers.limits(at.type)


def place(b: KernelBuilder, at: Value) -> Value:
    """An index as a signed number that holds it: s32, or s64 for types with values that do not fit."""
    interval = _interval(at)
    if at.type == "u64" and not numbers.fits(interval, "s64"):
        at = b.ir.binary("min", at, 2**63 - 1)
    return b.ir.cast(at, "s32" if numbers.fits(interval, "s32") else "s64")


def element_indices(b: KernelBuilder, expr: ast.At) -> tuple[Value, ...]:
    """The indices of an element access."""
    return tuple(place(b, expressions.value(b, i)) for i in b.model.indices[expr])


def whole(buffer: Buffer, slot: Offset | None = None) -> View:
    rank = len(buffer.shape)
    return View(buffer, slot, (0,) * rank, tuple(Dim.of(d) for d in buffer.shape), tuple(range(rank)))
