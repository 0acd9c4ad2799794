"""Expressions that denote data: names, one buffer of an array, views (section 6)."""

from __future__ import annotations

from dataclasses import replace

from croq.sema import names
from croq.sema.expressions import integer_of
from croq.sema.state import State
from croq.sema.symbolic import Dim
from croq.sema.symbols import (
    DataSymbol,
    FutureSymbol,
    PoisonSymbol,
    ScalarSymbol,
    Symbol,
    ViewSymbol,
)
from croq.sema.types import Axis, Interval, Scalar, Term, View
from croq.source import Span
from croq.syntax import ast


# ----------------------------------------------------------------------------------------------------------- views
def view(state: State, expr: ast.Expr) -> View | None:
    """The data that `expr` denotes, recorded in the model; reports and gives None when it denotes none."""
    found = _view(state, expr)
    if found is not None:
        state.model.views[expr] = found
    return found


def denotes_data(state: State, expr: ast.Expr) -> bool:
    """Whether `expr` is a view rather than a scalar, judged by its form and the name it starts at."""
    if isinstance(expr, (ast.ChunkAt, ast.Subspan, ast.Squeeze, ast.DataOf)):
        return True
    base = expr.base if isinstance(expr, ast.Subscript) else expr
    if isinstance(base, ast.Name):
        return isinstance(names.find(state, base.id), (DataSymbol, ViewSymbol, FutureSymbol))
    return False


def _view(state: State, expr: ast.Expr) -> View | None:
    if isinstance(expr, ast.Name):
        return _named(state, expr)
    if isinstance(expr, ast.DataOf):
        return _data_of(state, expr)
    if isinstance(expr, ast.Subscript):
        return _slot(state, expr)
    if isinstance(expr, ast.Subspan):
        return _subspan(state, expr)
    if isinstance(expr, ast.ChunkAt):
        return _chunk_at(state, expr)
    if isinstance(expr, ast.Squeeze):
        return _squeeze(state, expr)
    state.sink.error("E-609", expr.span, "this has no shape: data or a view of data is needed here")
    return None


def _named(state: State, expr: ast.Name) -> View | None:
    symbol = names.use(state, expr)
    if symbol is None or isinstance(symbol, PoisonSymbol):
        return None
    if isinstance(symbol, DataSymbol) and symbol.slots is not None:
        state.sink.error(
            "E-408",
            expr.span,
            f"`{symbol.name}` is an array of buffers: say which one",
            labels=[(symbol.span, "declared here")],
            hint=f"write `{symbol.name}[i]`",
        )
        return None
    return _of_symbol(state, expr.span, symbol)


def _of_symbol(state: State, span: Span, symbol: Symbol) -> View | None:
    if isinstance(symbol, DataSymbol):
        symbol.used = True
        return whole(symbol)
    if isinstance(symbol, ViewSymbol):
        return symbol.view.restarted(symbol)
    if isinstance(symbol, FutureSymbol):
        if symbol.view is None:
            state.sink.error(
                "E-1033",
                span,
                f"`{symbol.name}` is the future of an mma: it has no data",
                labels=[(symbol.span, "started here")],
                hint="read the accumulator after `wait`",
            )
            return None
        return symbol.view.restarted(symbol)
    if not state.first_misuse(symbol):
        return None
    state.sink.error(
        "E-609",
        span,
        f"`{symbol.name}` is {symbol.WORD}: it has no shape that a view could cut",
        labels=[(symbol.span, "declared here")],
    )
    return None


def whole(symbol: DataSymbol) -> View:
    axes = tuple(Axis(extent) for extent in symbol.shape)
    varies = frozenset({symbol.per_unit}) if symbol.per_unit is not None else frozenset[ScalarSymbol]()
    return View(symbol, symbol, None, varies, axes)


def _data_of(state: State, expr: ast.DataOf) -> View | None:
    if isinstance(expr.base, ast.Name):
        symbol = names.use(state, expr.base)
        if symbol is None or isinstance(symbol, PoisonSymbol):
            return None
        if isinstance(symbol, FutureSymbol):
            return _of_symbol(state, expr.span, symbol)
    state.sink.error("E-609", expr.span, "`.data` is the destination of a data future, and this is none")
    return None


def _slot(state: State, expr: ast.Subscript) -> View | None:
    if not isinstance(expr.base, ast.Name):
        state.sink.error("E-408", expr.span, "only an array of buffers or events has a subscript")
        return None
    symbol = names.use(state, expr.base)
    if symbol is None or isinstance(symbol, PoisonSymbol):
        return None
    if not isinstance(symbol, DataSymbol) or symbol.slots is None:
        hint = "read an element with `.at(...)`" if isinstance(symbol, (DataSymbol, ViewSymbol)) else None
        state.sink.error(
            "E-408",
            expr.span,
            f"`{symbol.name}` is not an array of buffers",
            labels=[(symbol.span, "declared here")],
            hint=hint,
        )
        return None
    symbol.used = True
    index = slot_index(state, expr, symbol.slots, symbol)
    if index is None:
        return None
    return replace(whole(symbol), slot=expr.indices[0], slot_varies=index.varies)


def slot_index(state: State, expr: ast.Subscript, slots: int, symbol: Symbol) -> Scalar | None:
    """Check the one subscript of an array of `slots` buffers or events."""
    if len(expr.indices) != 1:
        state.sink.error(
            "E-408",
            expr.span,
            f"`{symbol.name}` has one array dimension, {len(expr.indices)} subscripts are given",
            labels=[(symbol.span, "declared here")],
        )
        return None
    index = integer_of(state, expr.indices[0], "E-408", "a subscript")
    if index.is_error:
        return None
    if outside(index.interval, slots):
        state.sink.error(
            "E-407",
            expr.indices[0].span,
            f"the subscript {range_text(index.interval)} is outside `{symbol.name}`",
            labels=[(symbol.span, f"it has {slots} slot{'s' if slots != 1 else ''}")],
        )
    return index


def outside(interval: Interval, extent: int) -> bool:
    """Surely outside [0, extent)."""
    return (interval.lo is not None and interval.lo >= extent) or (interval.hi is not None and interval.hi < 0)


def range_text(interval: Interval) -> str:
    return str(interval.lo) if interval.single else f"{interval.lo}..{interval.hi}"


def _subspan(state: State, expr: ast.Subspan) -> View | None:
    base = view(state, expr.base)
    if base is None:
        return None
    rank = base.rank
    if not _same_count(state, expr, "extents", expr.extents, rank):
        return None
    if expr.step is not None and not _same_count(state, expr, "steps", expr.step, rank, "E-603"):
        return None
    at = names.expanded(state, expr.at) if expr.at is not None else None
    if at is not None and not _same_count(state, expr, "indices", at, rank):
        return None
    parents = [axis for axis in base.axes if axis.kept]
    axes = [_tile(state, expr, k, parent, at[k] if at is not None else None) for k, parent in enumerate(parents)]
    found = [axis for axis in axes if axis is not None]
    return base.with_kept(found) if len(found) == rank else None


def _same_count(
    state: State, expr: ast.Expr, what: str, given: tuple[ast.Expr, ...], rank: int, code: str = "E-605"
) -> bool:
    if len(given) == rank:
        return True
    span = given[0].span.to(given[-1].span) if given else expr.span
    state.sink.error(code, span, f"{len(given)} {what} are given for data of rank {rank}")
    return False


def _tile(state: State, expr: ast.Subspan, k: int, parent: Axis, at: ast.Expr | None) -> Axis | None:
    """Dimension `k` of a tile of `parent`, at the tile index `at`."""
    extent = _extent(state, expr.extents[k], parent)
    if extent is None:
        return None
    step = extent
    if expr.step is not None and not isinstance(expr.step[k], ast.Wildcard):
        given = _host_dim(state, expr.step[k], "the step of a tile")
        if given is None:
            return None
        step = given
    if at is None or isinstance(at, ast.Wildcard):
        return replace(parent, extent=extent)
    index = integer_of(state, at, "E-605", "a tile index")
    if index.is_error:
        return None
    _check_tile_index(state, at, index, step, parent)
    return _moved(parent, extent, at, index, step)


def _moved(parent: Axis, extent: Dim, index: ast.Expr, found: Scalar, scale: Dim) -> Axis:
    terms = parent.terms if found.known == 0 else (*parent.terms, Term(index, scale))
    return replace(parent, extent=extent, terms=terms, varies=parent.varies | found.varies)


def _extent(state: State, expr: ast.Expr, parent: Axis) -> Dim | None:
    if isinstance(expr, ast.Wildcard):
        return parent.extent
    extent = _host_dim(state, expr, "the extent of a tile")
    if extent is None:
        return None
    known, limit = extent.known, parent.extent.known
    if known is not None and known <= 0:
        state.sink.error("E-606", expr.span, f"a tile of extent {known}", hint="extents are at least 1")
        return None
    if known is not None and limit is not None and known > limit:
        state.sink.error("E-607", expr.span, f"the tile is {known} long, the dimension only {limit}")
        return None
    return extent


def _host_dim(state: State, expr: ast.Expr, what: str) -> Dim | None:
    found = integer_of(state, expr, "E-605", what)
    if found.is_error:
        return None
    if found.value is None:
        state.sink.error(
            "E-830",
            expr.span,
            f"{what} is a value that only the kernel knows",
            notes=["extents must be computable on the host: constants, dimensions, scalar parameters"],
            hint=_bound_hint(expr, found),
        )
    return found.value


def _bound_hint(expr: ast.Expr, found: Scalar) -> str | None:
    if isinstance(expr, ast.Name) and found.bound is not None:
        return f"use `#{expr.id}` for the bound of the variable"
    return None


def _check_tile_index(state: State, expr: ast.Expr, index: Scalar, step: Dim, parent: Axis) -> None:
    limit, size = parent.extent.known, step.known
    if index.interval.hi is not None and index.interval.hi < 0:
        state.sink.error("E-608", expr.span, f"the tile index {range_text(index.interval)} is negative")
    elif limit is not None and size is not None and index.interval.lo is not None and index.interval.lo * size >= limit:
        count = -(-limit // size)
        state.sink.error(
            "E-608",
            expr.span,
            f"the tile index {range_text(index.interval)} is out of range",
            notes=[f"a dimension of {limit} has {count} tile{'s' if count != 1 else ''} of {size}"],
        )


def _chunk_at(state: State, expr: ast.ChunkAt) -> View | None:
    base = view(state, expr.base)
    indices = names.expanded(state, expr.indices)
    if base is None or not _same_count(state, expr, "indices", indices, base.rank):
        return None
    parents = [axis for axis in base.axes if axis.kept]
    axes = [_chunk(state, index, parent) for index, parent in zip(indices, parents, strict=True)]
    found = [axis for axis in axes if axis is not None]
    return base.with_kept(found) if len(found) == base.rank else None


def _chunk(state: State, expr: ast.Expr, parent: Axis) -> Axis | None:
    if isinstance(expr, ast.Wildcard):
        return parent
    index = integer_of(state, expr, "E-601", "the argument of `chunkat`")
    if index.is_error:
        return None
    if index.bound is None:
        state.sink.error(
            "E-601",
            expr.span,
            "`chunkat` divides a dimension by the bound of its argument, and this one has none",
            hint="use `subspan(extent).at(index)`, or a variable of `parallel` or `foreach`",
        )
        return None
    extent = chunk_extent(parent.extent, index.bound)
    if extent.known == 0:
        state.sink.error("E-606", expr.span, f"{index.bound} chunks of a dimension of {parent.extent}: each is empty")
        return None
    return _moved(parent, extent, expr, index, extent)


def chunk_extent(extent: Dim, bound: Dim) -> Dim:
    """`extent / bound`; a bound of `cdiv(extent, T)` gives T."""
    if len(bound.terms) == 1 and bound.terms[0][1] == 1 and len(bound.terms[0][0]) == 1:
        atom = bound.terms[0][0][0]
        if atom.op in ("cdiv", "div") and atom.args[0] == extent and isinstance(atom.args[1], Dim):
            return atom.args[1]
    return extent.div(bound)


def _squeeze(state: State, expr: ast.Squeeze) -> View | None:
    base = view(state, expr.base)
    if not isinstance(expr.base, ast.Subspan):
        state.sink.error("E-602", expr.span, "`.sqz()` must directly follow `subspan`")
        return None
    if base is None:
        return None
    axes = tuple(replace(axis, kept=axis.kept and axis.extent.known != 1) for axis in base.axes)
    return replace(base, axes=axes)
