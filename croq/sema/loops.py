"""`foreach` and `with` (9.2)."""

from __future__ import annotations

from collections.abc import Callable

from croq.sema import names
from croq.sema.elements import shape
from croq.sema.expressions import integer_of
from croq.sema.futures import close_scope
from croq.sema.state import State
from croq.sema.symbolic import Dim
from croq.sema.symbols import PoisonSymbol, ScalarSymbol
from croq.sema.types import Interval, Scalar, closed, from_dim
from croq.syntax import ast

Walk = Callable[[State, tuple[ast.Stmt, ...]], None]


def foreach(state: State, stmt: ast.Foreach, walk: Walk) -> None:
    with state.enter("loop") as scope:
        names.announce(scope, stmt.body.body)
        for within in stmt.iterators:
            if within.ranges:
                declare_range(state, within)
            else:
                for name in within.names:
                    _iterates(state, name)
        state.loops += 1
        walk(state, stmt.body.body)
        state.loops -= 1
        close_scope(state, scope)


def with_(state: State, stmt: ast.With, walk: Walk) -> None:
    with state.enter("block") as scope:
        names.announce(scope, stmt.body.body)
        for within in stmt.iterators:
            declare_range(state, within)
        walk(state, stmt.body.body)
        close_scope(state, scope)


def declare_range(state: State, within: ast.Within) -> None:
    """`{i, j} in [m, n]`: declare i and j, bounded by the counts."""
    counts = _counts(state, within)
    if counts is None:
        for name in within.names:
            names.poison(state, name.id, name.span, name)
        return
    if len(counts) != len(within.names):
        state.sink.error(
            "E-914",
            within.span,
            f"{len(within.names)} variables over a range of rank {len(counts)}",
            hint="name one variable for each count",
        )
    state.model.ranges[within] = counts
    for name, count in zip(within.names, counts, strict=False):
        names.declare(
            state, ScalarSymbol(name.id, name.span, _iterator(state.unique(name.id), count), origin="iterator"), name
        )
    for name in within.names[len(counts) :]:
        names.poison(state, name.id, name.span, name)
    names.declare_group(state, within.tuple_name, within)


def _iterator(name: str, count: Scalar) -> Scalar:
    """An s32, or an s64 where the count may be larger than 32 bits hold."""
    most = min(closed(count.interval, count.element)[1], 2**63 - 1)
    return Scalar(
        "s32" if most < 2**31 else "s64",
        interval=Interval(0, most - 1),
        bound=count.value or count.bound,
        varies=count.varies,
        form=Dim.index(name, count.form) if count.form is not None else None,
    )


def _counts(state: State, within: ast.Within) -> tuple[Scalar, ...] | None:
    if len(within.ranges) == 1 and isinstance(within.ranges[0], ast.SpanOf) and within.ranges[0].axis is None:
        found = shape(state, within.ranges[0])
        return None if found is None else tuple(from_dim(d) for d in found)
    counts = [integer_of(state, expr, "E-913", "the count of a loop") for expr in within.ranges]
    for expr, count in zip(within.ranges, counts, strict=True):
        if count.known == 0:
            state.sink.error("E-916", expr.span, "a loop over an empty range", hint="a count is at least 1")
        elif count.known is not None and count.known < 0:
            state.sink.error("E-916", expr.span, f"a loop of {count.known} iterations", hint="a count is at least 1")
    return None if any(count.is_error for count in counts) else tuple(counts)


def _iterates(state: State, name: ast.Name) -> None:
    """`foreach i` over a variable that a `with` declared."""
    symbol = names.use(state, name)
    if symbol is None or isinstance(symbol, PoisonSymbol):
        return
    if not isinstance(symbol, ScalarSymbol) or symbol.origin != "iterator" or state.apply is not None:
        what = (
            "a variable of `parallel`"
            if isinstance(symbol, ScalarSymbol) and symbol.origin == "parallel"
            else (symbol.WORD)
        )
        state.sink.error(
            "E-912",
            name.span,
            f"`foreach` over `{name.id}`, which is {what}",
            labels=[(symbol.span, "declared here")],
            hint=f"write `foreach {name.id} in [n]`, or declare it with `with`",
        )
        return
    inner = ScalarSymbol(name.id, name.span, symbol.type, origin="iterator")
    state.scope.names[name.id] = inner
    state.model.symbols[name] = symbol
    state.model.loops[name] = inner
