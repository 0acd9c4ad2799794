"""Slots and places in shared memory as decisions: inside or not, and which slot, for all inputs.

A run faults at a place that lies outside (E-6010). Where bounds do not show that none can, it is a decision whose
outside must be impossible, or led to. A slot that inputs choose is one whose every value is led to, where that can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from croq.ir import scalar
from croq.ir.core import Op, Value
from croq.ir.objects import Buffer, Event, EventRef, View
from croq.verify.slicing import is_shared
from croq.verify.values import Scalar, land

if TYPE_CHECKING:
    from croq.verify.coder import Coder, Get
    from croq.verify.state import State, Warp

Part = Value | int | None
Place = tuple[list[Part], int, int]  # the sum of parts, the extent there, and the size of what it lies in
MOST_SLOTS = 8


def decide_places(coder: Coder, op: Op) -> None:
    for parts, extent, size in _places(op):
        _inside(coder, op, parts, size - extent)
    for slot, slots in _slots(op):
        _inside(coder, op, [slot], slots - 1)
        _each(coder, op, slot, slots)


def _slots(op: Op) -> Iterator[tuple[Part, int]]:
    event = getattr(op, "event", None)
    if isinstance(event, Event):
        yield getattr(op, "slot", None), event.slots
    for ref in getattr(op, "refs", ()):
        if isinstance(ref, EventRef):
            yield ref.slot, ref.event.slots
    for view in _views(op):
        assert isinstance(view.root, Buffer)
        yield view.slot, view.root.slots


def _views(op: Op) -> Iterable[View]:
    if isinstance(op, scalar.LoadElement | scalar.StoreElement):
        return [op.view] if is_shared(op.view) else []
    found = (effect.target for effect in op.own_effects())
    return dict.fromkeys(view for view in found if is_shared(view))


def _places(op: Op) -> Iterator[Place]:
    for view in _views(op):
        assert isinstance(view.root, Buffer)
        element = isinstance(op, scalar.LoadElement | scalar.StoreElement)
        index: dict[int, Value] = dict(zip(view.kept, op.indices, strict=True)) if element else {}  # type: ignore[attr-defined]
        for d, (offset, size) in enumerate(zip(view.offsets, view.root.shape, strict=True)):
            yield [offset, index.get(d)], 1 if element else view.extents[d].known or 1, size


def _inside(coder: Coder, op: Op, parts: list[Part], most: int) -> None:
    """Whether the sum lies in 0 .. `most`."""
    values = [part for part in parts if isinstance(part, Value)]
    constant = sum(part for part in parts if isinstance(part, int))
    bounds = [coder.program.intervals.of(value) for value in values]
    lo, hi = (constant + sum(b[side] for b in bounds) for side in (0, 1))
    if not values or (lo >= 0 and hi <= most):
        return
    total = values[0]
    for value in values[1:]:
        total = coder.made("add", total, value, "s64")
    below = coder.made("ge", total, coder.number(-constant), "bool")
    above = coder.made("le", total, coder.number(most - constant), "bool")
    inside = coder.made("land", below, above, "bool")
    gets = [coder.value(value) for value in values]

    def is_inside(s: State, w: Warp) -> Scalar:
        at = constant + sum(get(s, w) for get in gets)
        return land(at >= 0, at <= most)

    coder.decide(op, inside, "place", is_inside)


def _each(coder: Coder, op: Op, slot: Part, slots: int) -> None:
    """The slots that inputs, not loops, choose among."""
    if not isinstance(slot, Value) or not 1 < slots <= MOST_SLOTS:
        return
    if all(kind == "other" for kind, _ in coder.program.expressions.reach(slot)):
        return
    for number in range(slots):
        chosen = coder.made("eq", slot, coder.number(number), "bool")
        coder.decide(op, chosen, "slot", _equals(coder.value(slot), number))


def _equals(get: Get, number: int) -> Get:
    return lambda s, w: get(s, w) == number
