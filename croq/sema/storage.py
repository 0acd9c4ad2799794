"""Buffers and the shapes of declarations (1.1, 3.3)."""

from __future__ import annotations

from croq.sema import names
from croq.sema.conversions import convertible
from croq.sema.expressions import constant_of, integer_of, scalar
from croq.sema.fragments import declare_fragment
from croq.sema.state import State
from croq.sema.symbolic import Dim
from croq.sema.symbols import DataSymbol, ScalarSymbol
from croq.sema.types import BYTES
from croq.syntax import ast

LOCAL_BYTES = 2048  # a thread


def declare_buffer(state: State, stmt: ast.BufferDecl) -> None:
    storage = stmt.storage or "global"
    if storage == "global":
        _global_buffer(state, stmt)
        return
    if not state.on_device:
        state.sink.error(
            "E-321", stmt.span, f"`{storage}` data is declared outside `parallel`", hint="declare it inside"
        )
    if stmt.element not in BYTES:
        state.sink.error("E-410", stmt.span, f"`{stmt.element}` is not an element type of the target")
    shape = static_shape(state, stmt.shape, f"{storage} data")
    slots = array_slots(state, stmt.array)
    if stmt.init is not None:
        convertible(state, stmt.init.span, scalar(state, stmt.init), stmt.element, "E-313", "the buffer's element")
    if shape is None:
        names.poison(state, stmt.name, stmt.name_span, stmt)
        return
    symbol = DataSymbol(stmt.name, stmt.name_span, stmt.element, shape, storage, slots=slots)
    if storage == "local":
        _check_local_size(state, stmt, symbol)
    names.declare(state, symbol, stmt)


def _global_buffer(state: State, stmt: ast.BufferDecl) -> None:
    if state.on_device:
        state.sink.error(
            "E-320",
            stmt.span,
            "global data is declared inside `parallel`",
            hint="write `shared`, or make it a parameter",
        )
    else:
        state.unsupported(stmt.span, "a buffer that the host function owns", "make it a `global` parameter")
    names.poison(state, stmt.name, stmt.name_span, stmt)


def _check_local_size(state: State, stmt: ast.BufferDecl, symbol: DataSymbol) -> None:
    size = BYTES.get(symbol.element, 1) * (symbol.slots or 1)
    for extent in symbol.static_shape:
        size *= extent
    if size > LOCAL_BYTES:
        state.sink.error(
            "E-324",
            stmt.span,
            f"{size} bytes of local data a thread, the limit is {LOCAL_BYTES}",
            hint="use `shared` data or a smaller tile",
        )


def declare_frag(state: State, stmt: ast.FragDecl) -> None:
    shape = static_shape(state, stmt.shape, "a fragment")
    declare_fragment(state, stmt, shape, array_slots(state, stmt.array))


def static_shape(state: State, exprs: tuple[ast.Expr, ...], what: str) -> tuple[Dim, ...] | None:
    dims = [_dimension(state, expr, what) for expr in exprs]
    return None if None in dims else tuple(d for d in dims if d is not None)


def _dimension(state: State, expr: ast.Expr, what: str) -> Dim | None:
    if isinstance(expr, ast.Name) and names.find(state, expr.id) is None:
        names.use(state, expr, code="E-121")
        return None
    found = integer_of(state, expr, "E-322", "a dimension")
    if found.is_error:
        return None
    if found.mutable:
        state.sink.error("E-322", expr.span, "a mutable value as a dimension", hint="use a constant")
        return None
    if found.known is not None:
        if found.known <= 0:
            state.sink.error("E-107", expr.span, f"a dimension of {found.known}", hint="use at least 1")
            return None
        return Dim.of(found.known)
    if _is_bounded(state, expr):
        name = expr.id if isinstance(expr, ast.Name) else "v"
        state.sink.error(
            "E-323", expr.span, "the value of a bounded variable as a dimension", hint=f"use its bound: `#{name}`"
        )
        return None
    state.sink.error(
        "E-120",
        expr.span,
        f"the shape of {what} must be constant",
        notes=["dimensions are known only at run time"],
        hint="use a constant, for example a `#define`",
    )
    return None


def _is_bounded(state: State, expr: ast.Expr) -> bool:
    symbol = state.model.symbols.get(expr)
    return isinstance(symbol, ScalarSymbol) and symbol.type.bound is not None


def array_slots(state: State, exprs: tuple[ast.Expr, ...]) -> int | None:
    """The number of tiles of an array; None when it is none."""
    if not exprs:
        return None
    if len(exprs) > 1:
        state.unsupported(exprs[1].span, "an array of more than one dimension")
    found = integer_of(state, exprs[0], "E-312", "the number of slots")
    if found.is_error:
        return 1
    if found.known is None:
        if _is_bounded(state, exprs[0]):
            state.sink.error(
                "E-323", exprs[0].span, "the value of a bounded variable as an array extent", hint="use its bound: `#v`"
            )
        else:
            constant_of(state, exprs[0], "E-312", "the number of slots")
        return 1
    if found.known <= 0:
        state.sink.error("E-311", exprs[0].span, f"an array of {found.known} buffers", hint="use at least 1")
        return 1
    return found.known
