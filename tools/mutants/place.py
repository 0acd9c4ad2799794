"""Places in a kernel of hardware IR, and what may be done to the operation that stands there."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

from croq.ir.core import Block, Op, Value
from croq.ir.objects import Buffer, Kernel, View
from croq.ir.rewrite import Builder


@dataclass
class Place:
    """An operation of a cloned kernel and the list that holds it."""

    kernel: Kernel
    block: Block
    op: Op

    @property
    def index(self) -> int:
        return next(i for i, op in enumerate(self.block.ops) if op is self.op)

    def replace(self, *new: Op) -> None:
        at = self.index
        self.block.ops[at : at + 1] = new

    def before(self) -> Builder:
        return Builder(span=self.op.span, threads=self.op.threads)

    def insert(self, build: Builder) -> None:
        at = self.index
        self.block.ops[at:at] = build.take()


Act = Callable[[Place], None]
Edit = tuple[str, str, Act]  # short name for the id, description, what to do


def remove(place: Place) -> None:
    place.replace()


def twice(place: Place) -> None:
    place.replace(place.op, copy.copy(place.op))


def set_fields(**fields_: object) -> Act:
    def act(place: Place) -> None:
        for name, item in fields_.items():
            setattr(place.op, name, item)

    return act


def next_slot(field: str, slots: int) -> Act:
    """`field`, a slot, one further around the ring."""

    def act(place: Place) -> None:
        build = place.before()
        slot = getattr(place.op, field)
        shifted = build.binary("mod", build.binary("add", slot, 1), slots)
        place.insert(build)
        setattr(place.op, field, shifted)

    return act


def next_tile(field: str) -> Act:
    """The slot of the view in `field` one further."""

    def act(place: Place) -> None:
        view: View = getattr(place.op, field)
        assert isinstance(view.root, Buffer)
        slots = view.root.slots
        if isinstance(view.slot, Value):
            build = place.before()
            shifted: Value | int = build.binary("mod", build.binary("add", view.slot, 1), slots)
            place.insert(build)
        else:
            shifted = ((view.slot or 0) + 1) % slots
        setattr(place.op, field, replace(view, slot=shifted))

    return act
