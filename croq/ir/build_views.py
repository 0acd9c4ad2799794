"""View expressions to views: resolved extents and scales come from the analysis, offsets are computed here."""

from __future__ import annotations

from croq.ir import build_expressions as expressions
from croq.ir.build_context import KernelBuilder
from croq.ir.core import Value
from croq.ir.objects import Buffer, View
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
            offset = _add(b, offset, _scaled(b, index(b, term.index), term.scale))
    return offset


def index(b: KernelBuilder, expr: ast.Expr) -> Offset:
    """An index: an int when it is known, else a value (as s32 unless it is unsigned or wide)."""
    known = b.model.types[expr].known
    if known is not None:
        return known
    return expressions.value(b, expr)


def _scaled(b: KernelBuilder, at: Offset, scale: Dim) -> Offset:
    factor = scale.known
    if isinstance(at, int) and factor is not None:
        return at * factor
    if factor is not None:
        return as_s32(b, at) if factor == 1 else b.ir.binary("mul", as_s32(b, at), factor)
    if isinstance(at, int):
        return b.dim(scale * at)
    return b.ir.binary("mul", as_s32(b, at), b.dim(scale))


def _add(b: KernelBuilder, left: Offset, right: Offset) -> Offset:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if isinstance(left, int):
        left, right = right, left
    if isinstance(left, int) or right == 0:
        return left
    return b.ir.binary("add", left, right)


def as_s32(b: KernelBuilder, at: Offset) -> Value:
    return b.ir.const("s32", at) if isinstance(at, int) else b.ir.cast(at, "s32")


def element_indices(b: KernelBuilder, expr: ast.At) -> tuple[Value, ...]:
    """The indices of an element access, as s32."""
    return tuple(expressions.value(b, i, "s32") for i in b.model.indices[expr])


def whole(buffer: Buffer, slot: Offset | None = None) -> View:
    rank = len(buffer.shape)
    return View(buffer, slot, (0,) * rank, tuple(Dim.of(d) for d in buffer.shape), tuple(range(rank)))
