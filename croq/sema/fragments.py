"""Fragments (11.3): declarations, `apply`, copies and reductions."""

from __future__ import annotations

from collections.abc import Callable

from croq.sema import names
from croq.sema.conversions import convertible
from croq.sema.elements import fragment
from croq.sema.expressions import constant_of, scalar
from croq.sema.model import FragmentUse
from croq.sema.state import ApplyContext, State
from croq.sema.symbolic import Dim
from croq.sema.symbols import FragmentSymbol, ScalarSymbol
from croq.sema.types import BYTES, Scalar, bounded, shape_text
from croq.source import Span
from croq.syntax import ast

Walk = Callable[[State, tuple[ast.Stmt, ...]], None]


def declare_fragment(state: State, stmt: ast.FragDecl, shape: tuple[Dim, ...] | None, slots: int | None) -> None:
    """`shape` and `slots` are checked already; None stands for a faulty shape."""
    if not state.on_device:
        state.sink.error("E-1150", stmt.span, f"the fragment `{stmt.name}` is declared outside `parallel`")
    if stmt.element not in BYTES:
        state.sink.error("E-410", stmt.span, f"`{stmt.element}` is not an element type of the target")
    if stmt.init is not None:
        convertible(state, stmt.init.span, scalar(state, stmt.init), stmt.element, "E-313", "the fragment's element")
    if shape is None:
        names.poison(state, stmt.name, stmt.name_span, stmt)
        return
    static = tuple(d.known or 1 for d in shape)
    if len(static) > 2:
        state.unsupported(stmt.span, f"a fragment of rank {len(static)}")
    symbol = FragmentSymbol(stmt.name, stmt.name_span, stmt.element, static, slots)
    state.fragments.append(symbol)
    names.declare(state, symbol, stmt)


# -------------------------------------------------------------------------------------------------------------- apply
def apply(state: State, stmt: ast.Apply, walk: Walk) -> None:
    if state.apply is not None:
        state.sink.error("E-1153", stmt.span, "`apply` inside `apply`")
        return
    use = fragment(state, stmt.frag)
    with state.enter("apply") as scope:
        names.announce(scope, stmt.body.body)
        iterators = tuple(_iterator(state, name, use, k) for k, name in enumerate(stmt.iterators))
        state.apply = ApplyContext(iterators)
        walk(state, stmt.body.body)
        state.apply = None
    if use is not None:
        _check_rank(state, stmt, use.fragment)


def _iterator(state: State, name: ast.Name, use: FragmentUse | None, axis: int) -> ScalarSymbol:
    shape = use.fragment.shape if use is not None else None
    found = Scalar("s32")
    if shape is not None and axis < len(shape):
        found = bounded(state.unique(name.id), Dim.of(shape[axis]))
    symbol = ScalarSymbol(name.id, name.span, found, origin="iterator")
    names.declare(state, symbol, name)
    return symbol


def _check_rank(state: State, stmt: ast.Apply, symbol: FragmentSymbol) -> None:
    span = stmt.iterators[0].span.to(stmt.iterators[-1].span) if stmt.iterators else stmt.span

    def check() -> None:
        if symbol.shape is not None and len(symbol.shape) != len(stmt.iterators):
            state.sink.error(
                "E-1151",
                span,
                f"{len(stmt.iterators)} iterators over `{symbol.name}` of rank {len(symbol.shape)}",
                labels=[(symbol.span, f"its shape is {shape_text(symbol.shape)}")],
            )

    state.deferred.append(check)


def refuse_in_apply(state: State, span: Span, what: str) -> bool:
    """Report what may not stand inside `apply`."""
    if state.apply is None:
        return False
    state.sink.error(
        "E-1153",
        span,
        f"{what} inside `apply`",
        notes=["the body of `apply` runs once for each element, in its owner alone"],
        hint="put it in front of or behind the `apply`",
    )
    return True


# -------------------------------------------------------------------------------------------- copies and reductions
def copy(state: State, stmt: ast.FragCopy) -> None:
    dest, source = fragment(state, stmt.dest), fragment(state, stmt.source)
    if dest is None or source is None:
        return
    to, of = dest.fragment, source.fragment

    def check() -> None:
        if (
            to.shape is not None
            and of.shape is not None
            and to.shape != of.shape
            and (0, 0) not in (to.shape, of.shape)
        ):
            state.sink.error(
                "E-1154",
                stmt.span,
                f"`{of.name}` is {shape_text(of.shape)}, `{to.name}` {shape_text(to.shape)}",
                labels=[(of.span, "the source"), (to.span, "the destination")],
            )

    convertible(state, stmt.span, Scalar(of.element), to.element, "E-317", "the destination's element")
    state.deferred.append(check)


def reduce(state: State, stmt: ast.FragReduce) -> None:
    dest, source = fragment(state, stmt.dest), fragment(state, stmt.source)
    axis = constant_of(state, stmt.axis, "E-1155", "the dimension of a reduction")
    if axis is not None and axis != 1:
        state.sink.error(
            "E-1155",
            stmt.axis.span,
            f"a reduction over dimension {axis}",
            notes=["only dimension 1 is spread so that it can be reduced in place"],
        )
    if dest is None or source is None:
        return
    to, of = dest.fragment, source.fragment

    def check() -> None:
        if of.shape is None or to.shape is None or of.shape == (0, 0):
            return
        if len(of.shape) != 2 or to.shape != of.shape[:1]:
            state.sink.error(
                "E-1155",
                stmt.span,
                f"a reduction of `{of.name}` {shape_text(of.shape)} into `{to.name}` {shape_text(to.shape)}",
                labels=[(of.span, "the source"), (to.span, "the destination")],
                notes=["[M, N] is reduced into [M]"],
            )

    state.deferred.append(check)


def all_reduce(state: State, stmt: ast.FragAllReduce) -> None:
    use = fragment(state, stmt.frag)
    if use is None:
        return
    symbol = use.fragment
    if symbol.shape is None or len(symbol.shape) != 1:
        state.sink.error(
            "E-1156",
            stmt.frag.span,
            f"`all_reduce_sum` combines a value a row, `{symbol.name}` is not a row vector",
            labels=[(symbol.span, "declared here")],
            hint="use `reduce_sum` for a 2-D fragment",
        )
