"""Events (section 10): declarations, references, who waits and who triggers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from croq.sema import names
from croq.sema.expressions import constant_of, integer_of
from croq.sema.futures import publish, wait_future
from croq.sema.state import State
from croq.sema.symbols import EventSymbol, EventUse, FutureSymbol, PoisonSymbol, Symbol
from croq.sema.views import slot_index
from croq.source import Span
from croq.syntax import ast


def declare_event(state: State, stmt: ast.EventDecl) -> None:
    if stmt.storage != "shared":
        state.unsupported(
            stmt.span, f"an event in {stmt.storage or 'default'} storage", f"write `shared event {stmt.name};`"
        )
        names.poison(state, stmt.name, stmt.name_span, stmt)
        return
    if not state.on_device:
        state.sink.error(
            "E-321",
            stmt.span,
            f"the event `{stmt.name}` is declared outside `parallel`",
            hint="declare it inside the block-level `parallel`",
        )
    if state.roles:
        state.sink.error(
            "E-1010",
            stmt.span,
            f"the event `{stmt.name}` is declared inside `inthreads`",
            labels=[(state.roles[-1].condition.span, "inside this")],
            notes=["threads on both sides of the handoff must see it"],
            hint="declare it in front of the `inthreads`",
        )
    slots = _slots(state, stmt)
    event = EventSymbol(stmt.name, stmt.name_span, slots, bool(stmt.array), stmt.ready)
    state.events.append(event)
    names.declare(state, event, stmt)


def _slots(state: State, stmt: ast.EventDecl) -> int:
    if len(stmt.array) > 1:
        state.unsupported(stmt.array[1].span, "an event array of more than one dimension")
    if not stmt.array:
        return 1
    slots = constant_of(state, stmt.array[0], "E-312", "the number of slots")
    if slots is not None and slots <= 0:
        state.sink.error("E-311", stmt.array[0].span, f"an array of {slots} events", hint="use at least 1")
        return 1
    return slots or 1


# -------------------------------------------------------------------------------------------------- wait and trigger
def wait(state: State, stmt: ast.Wait) -> None:
    _need_device(state, stmt)
    for ref in stmt.refs:
        symbol = _referred(state, ref, "E-1031")
        if isinstance(symbol, FutureSymbol):
            if isinstance(ref, ast.Name):
                wait_future(state, ref, symbol)
            else:
                state.sink.error(
                    "E-1003",
                    ref.span,
                    f"`{symbol.name}` is a future: it has no generations or slots",
                    hint=f"write `wait {symbol.name};`",
                )
        elif symbol is not None:
            use = _event_use(state, ref, symbol, "wait")
            if use is not None:
                use.event.waits.append(use)


def trigger(state: State, stmt: ast.Trigger) -> None:
    _need_device(state, stmt)
    for ref in stmt.events:
        symbol = _referred(state, ref, "E-314")
        if symbol is None:
            continue
        use = _event_use(state, ref, symbol, "trigger")
        if use is not None:
            use.event.triggers.append(use)
    if not stmt.after:
        return
    if len(stmt.events) > 1:
        state.sink.error(
            "E-1026",
            stmt.events[1].span,
            "`trigger ... after` completes one event",
            hint="a load announces itself on one barrier only",
        )
    if len(stmt.after) > 1:
        for ref in stmt.events:
            _no_increment(state, ref)
    publish(state, stmt)


def _need_device(state: State, stmt: ast.Stmt) -> None:
    if not state.on_device:
        state.sink.error("E-1013", stmt.span, "`wait` and `trigger` stand inside `parallel` only")


def _no_increment(state: State, ref: ast.Expr) -> None:
    if isinstance(ref, ast.At) and any(isinstance(i, ast.IncDec) for i in ref.indices):
        state.sink.error(
            "E-1002",
            ref.span,
            "an order that is incremented in a trigger with several futures",
            hint="increment it in a statement of its own",
        )


def _referred(state: State, ref: ast.Expr, code: str) -> Symbol | None:
    base = ref.base if isinstance(ref, (ast.At, ast.Subscript)) else ref
    if not isinstance(base, ast.Name):
        state.sink.error("E-1003", ref.span, "an event or a future is needed here")
        return None
    symbol = names.use(state, base, code=code if _declared_later(state, base) else "E-314")
    return None if isinstance(symbol, PoisonSymbol) else symbol


def _declared_later(state: State, name: ast.Name) -> bool:
    return names.find(state, name.id) is None and any(name.id in scope.later for scope in state.scope.chain())


def _event_use(state: State, ref: ast.Expr, symbol: Symbol, verb: str) -> EventUse | None:
    if not isinstance(symbol, EventSymbol):
        hint = "to publish a load write `trigger event after load;`" if isinstance(symbol, FutureSymbol) else None
        state.sink.error(
            "E-1003",
            ref.span,
            f"`{verb}` needs an event, `{symbol.name}` is {symbol.WORD}",
            labels=[(symbol.span, "declared here")],
            hint=hint,
        )
        return None
    use = EventUse(symbol, ref.span, in_loop=state.loops > 0)
    if isinstance(ref, ast.At):
        _check_order(state, ref, symbol)
        use.order = ref.indices[0] if symbol.array else None
    elif isinstance(ref, ast.Subscript):
        _check_slot(state, ref, symbol)
        use.slot = ref.indices[0] if symbol.array else None
    elif symbol.array:
        state.unsupported(ref.span, "an event array as a whole", f"name a generation: `{symbol.name}.at(order)`")
        return None
    _check_forms(state, use)
    if symbol.array and not state.roles:
        state.sink.warning(
            "W-1002",
            ref.span,
            f"`{verb}` on a slot of `{symbol.name}` by all threads of the unit",
            notes=["a ring is a handoff between roles"],
            hint="put it into an `inthreads`",
        )
    state.model.events[ref] = use
    return use


def _check_order(state: State, ref: ast.At, event: EventSymbol) -> None:
    order = ref.indices[0]
    integer_of(state, order, "E-1005", "an order")
    if not event.array:
        state.sink.error(
            "E-1003",
            ref.span,
            f"`.at` on `{event.name}`, which is not an array of events",
            labels=[(event.span, "declared here")],
            hint=f"write `{event.name}` alone, or declare `{event.name}[1]`",
        )
    elif len(ref.indices) != 1:
        state.sink.error("E-1005", ref.span, "`.at` on an event takes one order")
    nested = next(_nested_increments(order), None)
    if nested is not None:
        state.sink.error(
            "E-1001",
            nested,
            "an increment inside the order expression",
            hint="only the whole order may be `order++`",
        )


def _nested_increments(order: ast.Expr) -> Iterator[Span]:
    for f in fields(order):
        item = getattr(order, f.name)
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, ast.IncDec):
                yield part.span
            if isinstance(part, ast.Expr):
                yield from _nested_increments(part)


def _check_slot(state: State, ref: ast.Subscript, event: EventSymbol) -> None:
    if event.array:
        slot_index(state, ref, event.slots, event)
        return
    state.sink.error(
        "E-408",
        ref.span,
        f"`{event.name}` is not an array of events",
        labels=[(event.span, "declared here")],
    )


def _check_forms(state: State, use: EventUse) -> None:
    """`e[i]` and `e.at(order)` count generations in different ways."""
    for other in (*use.event.waits, *use.event.triggers):
        if (use.slot is None) != (other.slot is None):
            state.sink.error(
                "E-1006",
                use.span,
                f"`{use.event.name}` is used with a slot here and with an order elsewhere",
                labels=[(other.span, "the other form")],
                notes=["a slot keeps its generation on each path, an order carries it"],
                hint=f"use `{use.event.name}.at(order)` everywhere",
            )
            return


# ------------------------------------------------------------------------------------------------- at the kernel's end
def check_kernel_events(state: State) -> None:
    for event in state.events:
        if event.waits and not event.triggers:
            _never_triggered(state, event)
        elif event.triggers and not event.waits:
            state.sink.warning(
                "W-1003",
                event.span,
                f"nothing waits for the event `{event.name}`",
                labels=[(event.triggers[0].span, "it is triggered here")],
                hint="wait for it where its condition matters, or remove it",
            )
        elif not event.triggers:
            state.sink.warning("W-1004", event.span, f"the event `{event.name}` is not used", hint="remove it")


def _never_triggered(state: State, event: EventSymbol) -> None:
    wait_in_loop = next((use for use in event.waits if use.in_loop), None)
    if not event.ready:
        state.sink.error(
            "E-1007",
            event.waits[0].span,
            f"this waits for `{event.name}`, which nothing triggers",
            labels=[(event.span, "declared here, not `= ready`")],
            notes=["the kernel would hang"],
            hint=f"add a `trigger {event.name}`",
        )
    elif wait_in_loop is not None:
        state.sink.error(
            "E-1008",
            wait_in_loop.span,
            f"this waits in a loop for `{event.name}`, which nothing triggers",
            labels=[(event.span, "`= ready` makes only its first generation complete")],
            notes=["the kernel would hang in a later iteration"],
            hint=f"add a `trigger {event.name}`",
        )
