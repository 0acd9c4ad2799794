"""What orders the CTA's own code, outside the inner parallels, against them and within itself.

Rules (language reference 7.2: code at CTA level happens once)
    L1  All threads compute and read there; an effect is one thread's, of a kernel that has inner parallels, between
        barriers of the CTA where all threads use the same data at CTA level.
    L2  A barrier of the CTA stands before an inner parallel that ordinary accesses of the CTA's own code may precede,
        and after one that may be repeated or followed by those or by another inner parallel. Moves synchronise
        themselves and do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import CtaSync, Elect
from croq.ir.objects import Buffer, FragRef, Kernel, View
from croq.ir.rewrite import by
from croq.ir.scalar import Call, StoreElement
from croq.ir.tile import EventTrigger, Move, Scope
from croq.passes.base import Pass


@dataclass(frozen=True)
class CtaLevel(Pass):
    name: ClassVar[str] = "cta-level"
    adds = (CtaSync, Elect)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        accesses = _Accesses(kernel)
        if accesses.scopes:
            _order(kernel.body, accesses)


def _order(block: Block, accesses: _Accesses) -> None:
    result: list[Op] = []
    for op in block.ops:
        if isinstance(op, Scope):  # L2
            result += by("cta-level.L2", _between(accesses.enter(op), op, accesses.leave(op)))
        elif is_single(op):  # L1
            before, after = accesses.around(op)
            result += by("cta-level.L1", _between(before, Elect("set", 0, Block([op]), span=op.span), after))
        else:
            for region in op.regions() if op.CONTROL != "map" else ():
                _order(region, accesses)
            result.append(op)
    block.ops[:] = result


def _between(before: bool, op: Op, after: bool) -> list[Op]:
    return [*([CtaSync(span=op.span)] if before else []), op, *([CtaSync(span=op.span)] if after else [])]


def is_single(op: Op) -> bool:
    """An effect that happens once. What gives or changes something that every thread has of its own is not one."""
    if isinstance(op, Call):
        return op.result is None and not any(is_private(arg) for arg in op.args)
    if isinstance(op, EventTrigger):
        return not op.after  # loads are issued once anyway
    return isinstance(op, StoreElement) and not is_private(op.view)


def is_private(item: object) -> bool:
    if isinstance(item, View):
        return isinstance(item.root, Buffer) and item.root.storage == "local"
    return isinstance(item, FragRef)


class _Accesses:
    """Of one kernel as the builder made it."""

    def __init__(self, kernel: Kernel) -> None:
        self.order = {op: n for n, op in enumerate(kernel.walk())}
        self.loops: dict[Op, frozenset[Op]] = {}
        self.scopes: list[Op] = []
        self.triggers: list[Op] = []
        self.accesses: list[tuple[Op, frozenset[Buffer]]] = []
        self._index(kernel.body, frozenset())

    def _index(self, block: Block, loops: frozenset[Op]) -> None:
        for op in block.ops:
            self.loops[op] = loops
            if isinstance(op, Scope):
                self.scopes.append(op)
                continue
            if isinstance(op, EventTrigger):
                self.triggers.append(op)
            touched = _shared(op)
            if touched:
                self.accesses.append((op, touched))
            for region in op.regions():
                self._index(region, loops | {op} if op.CONTROL == "loop" else loops)

    def enter(self, scope: Op) -> bool:
        """Whether an access of the CTA's own code may come before the scope, with no barrier in between."""
        return any(self._precedes(op, scope) for op, _ in self.accesses)

    def leave(self, scope: Op) -> bool:
        """Whether an access, a trigger or another scope, or the scope itself in a loop, may come after it."""
        others = [*(op for op, _ in self.accesses), *self.triggers, *(s for s in self.scopes if s is not scope)]
        return bool(self.loops[scope]) or any(self._precedes(scope, op) for op in others)

    def around(self, effect: Op) -> tuple[bool, bool]:
        """Whether accesses by all threads to what one thread touches here may come before it, and after it.

        One thread's trigger speaks for all threads: every access by all threads must be over.
        """
        collective = [(op, buffers) for op, buffers in self.accesses if not is_single(op)]
        if isinstance(effect, EventTrigger):
            return any(self._precedes(op, effect) for op, _ in collective), False
        touched = _shared(effect)
        others = [op for op, buffers in collective if buffers & touched]
        return any(self._precedes(op, effect) for op in others), any(self._precedes(effect, op) for op in others)

    def _precedes(self, first: Op, second: Op) -> bool:
        return self.order[first] < self.order[second] or bool(self.loops[first] & self.loops[second])


def _shared(op: Op) -> frozenset[Buffer]:
    if isinstance(op, Move):
        return frozenset()
    roots = (effect.root for effect in op.own_effects())
    return frozenset(root for root in roots if isinstance(root, Buffer) and root.storage == "shared")
