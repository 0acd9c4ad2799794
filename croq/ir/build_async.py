"""Moves, mma, waits and triggers to tile operations."""

from __future__ import annotations

from collections.abc import Callable

from croq.ir import tile
from croq.ir.build_context import KernelBuilder
from croq.ir.build_expressions import advance, value
from croq.ir.build_views import view, whole
from croq.ir.core import Value
from croq.ir.objects import Buffer, EventRef, View
from croq.ir.types import FUTURE
from croq.sema.symbols import DataSymbol, FutureSymbol
from croq.syntax import ast

Later = list[Callable[[], None]]


# --------------------------------------------------------------------------------------------------------------- moves
def move(b: KernelBuilder, stmt: ast.Move) -> None:
    source = view(b, stmt.source)
    dest = view(b, stmt.dest) if isinstance(stmt.dest, ast.Expr) else _made_buffer(b, stmt)
    symbol = b.model.symbols.get(stmt)
    future: Value | None = None
    if isinstance(symbol, FutureSymbol):
        b.places[symbol] = dest
        if symbol.is_async:
            future = Value(FUTURE, symbol.name)
            b.futures[symbol] = future
    if stmt.engine == "dma":
        b.ir.add(tile.DmaCopy(source, dest, future))
    elif isinstance(dest.root, Buffer):
        b.ir.add(tile.TmaLoad(source, dest, stmt.evict, future))
    else:
        b.ir.add(tile.TmaStore(source, dest, future))


def _made_buffer(b: KernelBuilder, stmt: ast.Move) -> View:
    symbol = b.model.buffers[stmt]
    buffer = Buffer(
        b.kernel.fresh(symbol.name),
        symbol.element,
        symbol.static_shape,
        symbol.slots or 1,
        requested_swizzle=symbol.swizzle,
        array=symbol.slots is not None,
        span=symbol.span,
    )
    b.kernel.buffers.append(buffer)
    b.data[symbol] = buffer
    return whole(buffer, _unit_index(b, symbol))


def _unit_index(b: KernelBuilder, symbol: DataSymbol) -> Value | None:
    """The index of the warpgroup (or warp) that the tile belongs to, in the CTA."""
    if symbol.per_unit is None:
        return None
    level = next(level for level in b.levels if symbol.per_unit in level.variables)
    outermost = level.unit * level.total == b.kernel.threads
    if outermost and len(level.variables) == 1:
        return b.values[symbol.per_unit]
    return b.ir.binary("div", b.ir.thread_index(b.kernel.threads), level.unit)


# ----------------------------------------------------------------------------------------------------------------- mma
def mma(b: KernelBuilder, stmt: ast.Mma) -> None:
    acc = b.frag_ref(stmt.acc)
    a = b.frag_ref(stmt.a) if stmt.a in b.model.fragments else view(b, stmt.a)
    operand = view(b, stmt.b)
    symbol = b.model.symbols.get(stmt)
    future = Value(FUTURE, stmt.name) if stmt.is_async else None
    if isinstance(symbol, FutureSymbol) and future is not None:
        b.futures[symbol] = future
    b.ir.add(tile.Mma(stmt.a_layout, stmt.b_layout, acc, a, operand, future))


# --------------------------------------------------------------------------------------------------- waits and triggers
def wait(b: KernelBuilder, stmt: ast.Wait) -> None:
    """Neighbouring events are one operation, and so are neighbouring futures; the order of the statement is kept."""
    groups: list[list[ast.Expr]] = []
    for ref in stmt.refs:
        if groups and (groups[-1][-1] in b.model.events) == (ref in b.model.events):
            groups[-1].append(ref)
        else:
            groups.append([ref])
    for group in groups:
        if group[0] in b.model.events:
            later: Later = []
            b.ir.add(tile.EventWait(tuple(_event_ref(b, ref, later) for ref in group)))
            _finish(later)
        else:
            b.ir.add(tile.FutureWait(tuple(_future(b, ref) for ref in group)))


def trigger(b: KernelBuilder, stmt: ast.Trigger) -> None:
    later: Later = []
    refs = tuple(_event_ref(b, ref, later) for ref in stmt.events)
    b.ir.add(tile.EventTrigger(refs, tuple(_future(b, name) for name in stmt.after)))
    _finish(later)


def _finish(later: Later) -> None:
    for change in later:
        change()


def _future(b: KernelBuilder, ref: ast.Expr) -> Value:
    symbol = b.model.symbols[ref]
    assert isinstance(symbol, FutureSymbol)
    return b.futures[symbol]


def _event_ref(b: KernelBuilder, ref: ast.Expr, later: Later) -> EventRef:
    """The reference; what `order++` changes happens after the statement and is appended to `later`."""
    use = b.model.events[ref]
    event = b.events[use.event]
    if use.slot is not None:
        return EventRef(event, slot=value(b, use.slot))
    if use.order is None:
        return EventRef(event)
    order = use.order
    if isinstance(order, ast.IncDec) and not order.prefix:
        old = value(b, order.target)
        later.append(lambda: _advance(b, order, old))
        return EventRef(event, order=old)
    return EventRef(event, order=value(b, order))


def _advance(b: KernelBuilder, order: ast.IncDec, old: Value) -> None:
    advance(b, order, old)
