"""How often, where and as what each value of a kernel is used: that decides which are named and which inlined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from croq.ir.core import Block, Op, Value
from croq.ir.hw import BulkTensorLoad, BulkTensorStore, MbarrierWait
from croq.ir.objects import View
from croq.ir.scalar import Call, Cast, FragRead, FragWrite, LoadElement, Math, VarGet, While
from croq.ir.types import FUTURE


def rendered_operands(op: Op) -> Iterator[Value]:
    """Operands that appear in the text: not futures, and not a map's iterators where they only pick the register."""
    if isinstance(op, FragRead):
        return
    if isinstance(op, FragWrite):
        yield op.value
        return
    yield from (value for value in op.operands() if value.type != FUTURE)


@dataclass
class Uses:
    """`count`: operations that still need the value (dead ones left out). `carried`: values used in a loop that does
    not contain their definition. `hints`: what to call a value that has no name."""

    count: dict[Value, int] = field(default_factory=dict)
    carried: set[Value] = field(default_factory=set)
    hints: dict[Value, str] = field(default_factory=dict)
    definition: dict[Value, Op] = field(default_factory=dict)

    def of(self, value: Value) -> int:
        return self.count.get(value, 0)


def analyse(body: Block) -> Uses:
    uses = Uses()
    places: list[tuple[Op, int]] = []
    loop_of: dict[Value, int] = {}
    _collect(body, 0, places, loop_of, uses)
    live = {id(op) for op, _ in places if not op.EXPRESSION}
    for op, loop in reversed(places):
        if id(op) not in live:
            continue
        _hints(op, uses)
        for value in rendered_operands(op):
            uses.count[value] = uses.count.get(value, 0) + 1
            if value in uses.definition:
                live.add(id(uses.definition[value]))
            if loop_of.get(value, loop) != loop:
                uses.carried.add(value)
    return uses


def _collect(block: Block, loop: int, places: list[tuple[Op, int]], loop_of: dict[Value, int], uses: Uses) -> None:
    for op in block.ops:
        for value in op.results():
            loop_of[value] = loop
            uses.definition[value] = op
        inner = id(op) if op.CONTROL in ("loop", "map") else loop
        if inner != loop:
            loop_of.update(dict.fromkeys(op.results(), inner))
        if isinstance(op, While):  # its condition is defined in its head
            _collect(op.head, inner, places, loop_of, uses)
            places.append((op, inner))
            _collect(op.body, inner, places, loop_of, uses)
            continue
        places.append((op, loop))
        for region in op.regions():
            _collect(region, inner, places, loop_of, uses)


def _hints(op: Op, uses: Uses) -> None:
    """What the operation's operands are to it. Operations come last to first, so the first one's word stands."""
    if isinstance(slot := getattr(op, "slot", None), Value):
        uses.hints[slot] = f"{op.events[0].name}_slot"
    if isinstance(op, MbarrierWait):
        uses.hints[op.parity] = f"{op.event.name}_parity"
    if isinstance(op, (BulkTensorLoad, BulkTensorStore)):
        _position_hints(op.coords, uses)
    for view in vars(op).values():
        if isinstance(view, View):
            _position_hints(view.offsets[::-1], uses)
            if isinstance(view.slot, Value):
                uses.hints[view.slot] = f"{view.root.name}_slot"


def _position_hints(innermost_first: Sequence[Value | int], uses: Uses) -> None:
    names = ("first",) if len(innermost_first) == 1 else ("first_col", "first_row")
    for n, position in enumerate(innermost_first):
        if isinstance(position, Value):
            uses.hints[position] = names[n] if n < len(names) else f"first_{n}"


def hint(value: Value, op: Op | None, uses: Uses) -> str:
    """A name for a value that the source did not name."""
    if value.name:
        return value.name
    if value in uses.hints:
        return uses.hints[value]
    if isinstance(op, VarGet):
        return f"{op.var.name}_before"
    if isinstance(op, LoadElement):
        return f"{op.view.root.name}_value"
    if isinstance(op, FragRead):
        return f"{op.frag.frag.name}_value"
    if isinstance(op, Call):
        return op.callee.rsplit("::", 1)[-1] + "_result"
    if isinstance(op, Cast):
        return hint(op.operand, uses.definition.get(op.operand), uses)
    if isinstance(op, Math):
        return op.fn
    return {"bool": "flag", "f32": "x"}.get(value.type, "n")
