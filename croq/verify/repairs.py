"""Small repairs of a wrong protocol, as changes of tile IR that can be done and taken back; from what is most often
forgotten to what is rare. None is known to help: `remedies` tries them.

    ready       an event begins with the wrong state
    waits       nobody waits for what a role hands back, or one role does not
    triggers    a role takes what it never hands back
    slots       events that are handed out by hand: a slot too few, too many, or the wrong one
    turns       sites that take turns name orders that can be equal
    removals    a trigger or a wait too many
    moves       a trigger too early, a wait too late, two waits in the other order
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from croq.ir.core import Block, Op, Value
from croq.ir.hw import Section
from croq.ir.objects import Event, EventRef, Kernel
from croq.ir.rewrite import Builder, clone_ops
from croq.ir.scalar import Const, For, VarDeclare, VarGet, VarSet
from croq.ir.tile import EventTrigger, EventWait

Sync = EventWait | EventTrigger


@dataclass
class Repair:
    """`text` says what to do. `changes`: an object, the name of its attribute, and what that is to be instead."""

    text: str
    changes: list[tuple[Any, str, Any]]

    def swap(self) -> None:
        """Do it, or take it back."""
        self.changes = [(item, name, _exchange(item, name, value)) for item, name, value in reversed(self.changes)]


def _exchange(item: Any, name: str, value: Any) -> Any:
    before = getattr(item, name)
    setattr(item, name, value)
    return before


@dataclass(frozen=True)
class Place:
    """A wait or a trigger in its block; `role` None is the CTA's own code."""

    op: Sync
    block: Block
    role: Section | None

    @property
    def index(self) -> int:
        return self.block.ops.index(self.op)


def repairs(kernel: Kernel) -> Iterator[Repair]:
    found = _Repairs(kernel)
    yield from found.ready()
    yield from found.waits_missing()
    yield from found.triggers_missing()
    yield from found.slots()
    yield from found.turns()
    yield from found.removals()
    yield from found.moves()


class _Repairs:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.places: list[Place] = []
        self.loops: list[tuple[Block, For]] = []
        self._index(kernel.body, None)
        self.waits = [p for p in self.places if isinstance(p.op, EventWait)]
        self.triggers = [p for p in self.places if isinstance(p.op, EventTrigger)]
        self.plain = [p for p in self.triggers if isinstance(p.op, EventTrigger) and not p.op.after]

    def _index(self, block: Block, role: Section | None) -> None:
        for op in block.ops:
            if isinstance(op, Sync):
                self.places.append(Place(op, block, role))
            elif isinstance(op, For):
                self.loops.append((block, op))
            inside = op if role is None and isinstance(op, Section) and op.role else role
            for region in op.regions():
                self._index(region, inside)

    def ready(self) -> Iterator[Repair]:
        for event in self.kernel.events:
            if event.ready:
                text = f"declare `{event.name}` without `= ready`: its first generation is triggered like all others"
            else:
                text = f"declare `{event.name}` with `= ready`: it is waited for before anybody can have triggered it"
            yield Repair(text, [(event, "ready", not event.ready)])

    # ------------------------------------------------------------------------------------------------------- missing
    def waits_missing(self) -> Iterator[Repair]:
        """An event answers those for which its role waits: who triggers them should wait for the answer."""
        waited = {ref.event for place in self.waits for ref in place.op.refs}
        for event in sorted(self.kernel.events, key=lambda e: e in waited):
            roles = {p.role for p in self.triggers if _uses(p.op, event)}
            answered = {ref.event for p in self.waits if p.role in roles for ref in p.op.refs}
            for place in self.triggers:
                waits_here = any(p.block is place.block and _uses(p.op, event) for p in self.waits)
                for ref in place.op.refs if not waits_here and place.role not in roles else ():
                    if ref.event in answered:
                        yield from self._wait_before(place, ref, event, event not in waited)

    def _wait_before(self, place: Place, ref: EventRef, event: Event, lonely: bool) -> Iterator[Repair]:
        ops = place.block.ops
        at = next(n for n, op in enumerate(ops) if not (op.PURE or isinstance(op, (VarGet, VarDeclare, EventWait))))
        new = _like(ref, event)
        brought = _brought(place.block, new.values(), at, place.index)
        if brought is not None:
            before, copies = brought
            moved = new.map_values(lambda value: copies.get(value, value))
            assert isinstance(moved, EventRef)
            wait = EventWait((moved,), span=place.op.span, threads=place.op.threads)
            why = f"nobody waits for `{event.name}`, so nothing keeps line {_line(ops[at])} from running ahead: "
            text = f"add `wait {_spelled(place.op, ref, event)};` before line {_line(ops[at])}"
            changed = [*ops[:at], *before, wait, *ops[at:]]
            yield Repair(f"{why if lonely else ''}{text}", [(place.block, "ops", changed)])

    def triggers_missing(self) -> Iterator[Repair]:
        """Who waits for an event again and again should trigger what its source waits for."""
        for place in self.waits:
            here = {ref.event for p in self.plain if p.block is place.block for ref in p.op.refs}
            for ref in place.op.refs:
                sources = {p.role for p in self.triggers if _uses(p.op, ref.event)} - {place.role}
                wanted = {r.event: None for p in self.waits if p.role in sources for r in p.op.refs}
                for event in wanted:
                    if event not in here and event is not ref.event:
                        yield from self._trigger_behind(place, ref, event)

    def _trigger_behind(self, place: Place, ref: EventRef, event: Event) -> Iterator[Repair]:
        """At the end of the block, or where what the order is computed from changes."""
        ops = place.block.ops
        trigger = EventTrigger((_like(ref, event),), (), span=place.op.span, threads=place.op.threads)
        at = _changed(place.block, ref.values(), place.index)
        where = f"before line {_line(ops[at])}" if at < len(ops) else f"behind line {_last_line(place.block)}"
        text = f"add `trigger {_spelled(place.op, ref, event)};` {where}"
        yield Repair(text, [(place.block, "ops", [*ops[:at], trigger, *ops[at:]])])

    # --------------------------------------------------------------------------------------------- handed out by hand
    def slots(self) -> Iterator[Repair]:
        for place in self.plain:
            for ref in place.op.refs:
                number = _constant(ref)
                if number is not None:
                    yield from self._other_slots(place, ref, number)
        for block, loop in self.loops:
            count = getattr(loop.count.op, "value", None)
            if isinstance(count, int) and any(isinstance(op, EventTrigger) for op in loop.body.ops):
                for other in (count + 1, count - 1):
                    yield self._other_count(block, loop, other)

    def _other_slots(self, place: Place, ref: EventRef, number: int) -> Iterator[Repair]:
        ops, at, line = place.block.ops, place.index, _line(place.op)
        for other in (n for n in range(ref.event.slots) if n != number):
            build = Builder(span=place.op.span, threads=place.op.threads)
            value = build.const("s32", other)
            named = EventRef(ref.event, value if ref.order is None else None, value if ref.order is not None else None)
            name = _spelled(place.op, ref, ref.event, str(other))
            more = EventTrigger((named,), (), span=place.op.span, threads=place.op.threads)
            yield Repair(
                f"add `trigger {name};` behind line {line}",
                [(place.block, "ops", [*ops[: at + 1], *build.ops, more, *ops[at + 1 :]])],
            )
            refs = tuple(named if r is ref else r for r in place.op.refs)
            yield Repair(
                f"write `trigger {name};` at line {line}",
                [(place.block, "ops", [*ops[:at], *build.ops, *ops[at:]]), (place.op, "refs", refs)],
            )

    def _other_count(self, block: Block, loop: For, count: int) -> Repair:
        build = Builder(span=loop.span, threads=loop.threads)
        value = build.const(loop.count.type, count)
        at = block.ops.index(loop)
        times = f"{count} times" if count != 1 else "once"
        text = f"let the loop of line {_line(loop)} trigger {times}"
        return Repair(text, [(block, "ops", [*block.ops[:at], *build.ops, *block.ops[at:]]), (loop, "count", value)])

    def turns(self) -> Iterator[Repair]:
        """A site that is never the first to act in a slot: its orders begin a round later."""
        for place in self.plain:
            for ref in place.op.refs:
                if ref.order is None or _constant(ref) is not None:
                    continue
                ops, at = place.block.ops, place.index
                build = Builder(span=place.op.span, threads=place.op.threads)
                later = build.binary("add", ref.order, ref.event.slots)
                refs = tuple(EventRef(r.event, None, later) if r is ref else r for r in place.op.refs)
                name = _spelled(place.op, ref, ref.event, f"{_order(place.op, ref)} + {ref.event.slots}")
                yield Repair(
                    f"write `trigger {name};` at line {_line(place.op)}: others complete the first generations",
                    [(place.block, "ops", [*ops[:at], *build.ops, *ops[at:]]), (place.op, "refs", refs)],
                )

    # ------------------------------------------------------------------------------------------- too many, elsewhere
    def removals(self) -> Iterator[Repair]:
        """Of several for one event: an event that is only waited for, or only triggered, is of no use."""
        for place in [*self.plain, *self.waits]:
            alike = self.triggers if isinstance(place.op, EventTrigger) else self.waits
            for ref in place.op.refs:
                if sum(r.event is ref.event for p in alike for r in p.op.refs) == 1:
                    continue
                refs = tuple(r for r in place.op.refs if r is not ref)
                verb = "wait" if isinstance(place.op, EventWait) else "trigger"
                text = f"remove `{verb} {_spelled(place.op, ref, ref.event)};` from line {_line(place.op)}"
                if _counts_up(place.op):
                    text += ", and count up there all the same"
                ops = [op for op in place.block.ops if op is not place.op]
                yield Repair(text, [(place.op, "refs", refs)] if refs else [(place.block, "ops", ops)])

    def moves(self) -> Iterator[Repair]:
        for place in self.plain:
            rest = [op for op in place.block.ops if op is not place.op]
            behind = next((op for op in reversed(rest) if op.span is not None), None)
            if behind is not None and place.block.ops[-1] is not place.op and not _counts_up(place.op):
                text = f"move the trigger of line {_line(place.op)} behind line {_line(behind)}"
                yield Repair(text, [(place.block, "ops", [*rest, place.op])])
        for place in self.waits:
            rest = [op for op in place.block.ops if op is not place.op]
            brought = _brought(place.block, place.op.operands(), 0, place.index)
            first = next((op for op in rest if op.span is not None), None)
            if brought is not None and place.index and first is not None:
                before, copies = brought
                text = f"move the wait of line {_line(place.op)} before line {_line(first)}"
                yield Repair(text, [(place.block, "ops", [*before, *clone_ops([place.op], copies), *rest])])
        for one, other in pairwise(self.waits):
            if one.block is other.block:
                text = f"wait in the other order at lines {_line(one.op)} and {_line(other.op)}"
                yield Repair(text, [(one.op, "refs", other.op.refs), (other.op, "refs", one.op.refs)])


# ------------------------------------------------------------------------------------------------------------- helpers
def _uses(op: Sync, event: Event) -> bool:
    return any(ref.event is event for ref in op.refs)


def _line(op: Op) -> int:
    return op.span.line if op.span is not None else 0


def _like(ref: EventRef, event: Event) -> EventRef:
    """The event at the place that a reference to another one names."""
    return EventRef(event, ref.slot, ref.order) if event.array else EventRef(event)


def _constant(ref: EventRef) -> int | None:
    place = ref.order if ref.order is not None else ref.slot
    made = place.op if place is not None else None
    return made.value if isinstance(made, Const) and isinstance(made.value, int) else None


def _brought(block: Block, values: Iterable[Value], at: int, until: int) -> tuple[list[Op], dict[Value, Value]] | None:
    """Copies of what computes the values between two places of the block, to stand at the first; None: not possible."""
    between = block.ops[at:until]
    made: list[Op] = []
    copies: dict[Value, Value] = {}

    def bring(value: Value) -> bool:
        op = next((op for op in between if value in op.results()), None)
        if op is None or value in copies:
            return True
        assigned = {o.var for before in between[: between.index(op)] for o in before.walk() if isinstance(o, VarSet)}
        if not (op.PURE or (isinstance(op, VarGet) and op.var not in assigned)):
            return False
        if not all(map(bring, op.operands())):
            return False
        made.extend(clone_ops([op], copies))
        return True

    return (made, copies) if all(map(bring, values)) else None


def _changed(block: Block, values: Iterable[Value], at: int) -> int:
    """Where behind a place of the block a variable is assigned that the values are computed from; else its end."""
    pending, read = list(values), set()
    while pending:
        made = pending.pop().op
        if isinstance(made, VarGet):
            read.add(made.var)
        elif made is not None and made.PURE:
            pending += made.operands()
    for n, op in enumerate(block.ops[at:], at):
        if any(isinstance(inner, VarSet) and inner.var in read for inner in op.walk()):
            return n
    return len(block.ops)


def _last_line(block: Block) -> int:
    return max((_line(op) for op in block.walk()), default=0)


def _counts_up(op: Sync) -> bool:
    """Whether the statement does more than its event: `e.at(order++)`."""
    return op.span is not None and "++" in op.span.text


def _order(op: Sync, ref: EventRef) -> str:
    """What the source writes between the parentheses of `e.at(..)`, or the brackets of `e[..]`, without `++`."""
    text = op.span.text if op.span is not None else ""
    found = re.search(rf"\b{re.escape(ref.event.name)}\s*(?:\.\s*at\s*\(|\[)", text)
    if found is None:
        return ".."
    depth = 1
    for at in range(found.end(), len(text)):
        depth += (text[at] in "([") - (text[at] in ")]")
        if depth == 0:
            return text[found.end() : at].replace("++", "").strip()
    return ".."


def _spelled(op: Sync, ref: EventRef, event: Event, order: str = "") -> str:
    """`e`, `e.at(..)` or `e[..]`, with the order of another reference."""
    if not event.array or (ref.order is None and ref.slot is None):
        return event.name
    inside = order or _order(op, ref)
    return f"{event.name}.at({inside})" if ref.order is not None else f"{event.name}[{inside}]"
