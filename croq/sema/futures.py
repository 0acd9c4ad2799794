"""Futures (10.3, 10.4): who completes an asynchronous operation, and when."""

from __future__ import annotations

from croq.sema import names
from croq.sema.state import State
from croq.sema.symbols import FutureSymbol, PoisonSymbol, Scope
from croq.syntax import ast


def wait_future(state: State, ref: ast.Name, future: FutureSymbol) -> None:
    started = [(future.span, "started here")]
    if not future.is_async:
        state.sink.error(
            "E-814",
            ref.span,
            f"`{future.name}` is synchronous: there is nothing to wait for",
            labels=started,
            hint="drop the `wait`, or add `.async` to the move",
        )
        return
    if future.bound is not None:
        state.sink.error(
            "E-1032",
            ref.span,
            f"`{future.name}` is waited for after it was bound to an event",
            labels=[(future.bound, "bound here")],
            hint="wait for the event instead",
        )
    elif future.kind == "mma":
        _check_waited_once(state, ref, future)
    future.waits.append((ref.span, state.scope))


def _check_waited_once(state: State, ref: ast.Name, future: FutureSymbol) -> None:
    for span, scope in future.waits:
        if state.scope.inside(scope):
            state.sink.error(
                "E-1030",
                ref.span,
                f"`{future.name}` is waited for twice",
                labels=[(span, "already waited for here")],
                notes=["each mma is waited for exactly once"],
                hint="drop one of the waits",
            )
            return
    if any(scope.kind == "loop" for scope in state.scope.between(future.scope)):
        state.sink.error(
            "E-1030",
            ref.span,
            f"`{future.name}` is waited for in every iteration of a loop",
            labels=[(future.span, "but started once, outside the loop")],
            notes=["each mma is waited for exactly once"],
        )


def publish(state: State, stmt: ast.Trigger) -> None:
    """The futures of `trigger e after f, ...`."""
    for name in stmt.after:
        symbol = names.use(state, name, code="E-1020" if names.find(state, name.id) is None else "E-314")
        if symbol is None or isinstance(symbol, PoisonSymbol):
            continue
        if not isinstance(symbol, FutureSymbol):
            state.sink.error(
                "E-1020",
                name.span,
                f"`{name.id}` is {symbol.WORD}, not the future of a load",
                labels=[(symbol.span, "declared here")],
            )
            continue
        if _can_publish(state, name, symbol):
            symbol.bound = name.span


def _can_publish(state: State, name: ast.Name, future: FutureSymbol) -> bool:
    started = [(future.span, "started here")]
    if future.kind == "mma":
        state.sink.error(
            "E-1021",
            name.span,
            f"`{name.id}` is the future of an mma: it cannot complete an event",
            labels=started,
            hint=f"write `wait {name.id};` and then trigger the event",
        )
    elif future.kind == "dma":
        state.sink.error(
            "E-1022",
            name.span,
            f"`{name.id}` is a `dma` copy: only `tma.load.async` completes events",
            labels=started,
            hint="wait for it, then trigger the event",
        )
    elif future.kind == "tma store":
        state.sink.error(
            "E-1023",
            name.span,
            f"`{name.id}` is a store: it cannot complete an event",
            labels=started,
            hint="wait for it, then trigger the event",
        )
    elif not future.is_async:
        state.sink.error(
            "E-1027",
            name.span,
            f"`{name.id}` is synchronous: it is complete already",
            labels=started,
            hint="add `.async` to the load, or drop the `after`",
        )
    elif future.waits:
        state.sink.error(
            "E-1024", name.span, f"`{name.id}` was already waited for", labels=[(future.waits[0][0], "waited for here")]
        )
    elif future.bound is not None:
        state.sink.error(
            "E-1025",
            name.span,
            f"`{name.id}` is bound to a second event",
            labels=[(future.bound, "first bound here")],
            hint="one trigger may name several futures, a future only one trigger",
        )
    elif future.scope is not state.scope:
        state.sink.error(
            "E-1020",
            name.span,
            f"`{name.id}` was started in another block than this trigger",
            labels=started,
            notes=["the load announces itself on the event's barrier when it is issued"],
            hint="put the `trigger ... after` into the same block, behind the load",
        )
    else:
        return True
    future.bound = future.bound or name.span  # one message is enough for it
    return False


def close_scope(state: State, scope: Scope) -> None:
    """At the end of a scope every asynchronous operation that it started must have been taken care of."""
    for symbol in scope.names.values():
        if not isinstance(symbol, FutureSymbol) or not symbol.is_async or symbol.waits or symbol.bound is not None:
            continue
        hint = f"write `wait {symbol.name};`"
        if symbol.kind == "tma load":
            hint += f" or `trigger event after {symbol.name};`"
        state.sink.error(
            "E-815",
            symbol.span,
            f"nothing ever waits for `{symbol.name}`",
            notes=["an asynchronous operation must be completed by a `wait` or bound to an event"],
            hint=hint,
        )
