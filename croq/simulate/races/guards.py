"""Who triggers and who waits for what, from the text of the kernel: names for what should have ordered two accesses."""

from __future__ import annotations

from dataclasses import dataclass

from croq.ir.core import Op
from croq.ir.objects import Event, Kernel, Param


@dataclass(frozen=True)
class Guard:
    """An event that one side triggers and the other side waits for."""

    event: Event
    trigger: Op
    wait: Op


class Guards:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.order: dict[Op, int] = {op: n for n, op in enumerate(kernel.walk())}
        self.triggers: dict[Event, list[Op]] = {}
        self.waits: dict[Event, list[Op]] = {}
        self.written: set[Param] = set()
        for op in self.order:
            for event in op.feeds:
                self.triggers.setdefault(event, []).append(op)
            for event in op.awaits:
                self.waits.setdefault(event, []).append(op)
            self.written |= {root for root in _written(op) if isinstance(root, Param)}

    def writers(self, root: object) -> list[Op]:
        """Operations that may write a buffer or a parameter, in the order of the text."""
        return [op for op in self.order if root in _written(op)]

    def warps(self, op: Op) -> tuple[int, ...]:
        """Warps whose threads execute an operation; all when that is not known."""
        if op.threads is None:
            return tuple(range(self.kernel.warps))
        return op.threads.warps()

    def between(self, first: Op, first_warp: int, second: Op, second_warp: int) -> Guard | None:
        """What `first` by one warp could have told `second` by another: the nearest such wait before `second`."""
        found: list[tuple[bool, int, Guard]] = []
        for event, waits in self.waits.items():
            trigger = self._nearest(event, first, first_warp)
            if trigger is None:
                continue
            for wait in waits:
                if second_warp in self.warps(wait):
                    distance = self.order[second] - self.order[wait]
                    found.append((distance < 0, abs(distance), Guard(event, trigger, wait)))
        return min(found, key=lambda item: item[:2])[2] if found else None

    def _nearest(self, event: Event, op: Op, warp: int) -> Op | None:
        """A trigger of the event by a warp: the first one behind `op`, else the last one before it."""
        triggers = [t for t in self.triggers.get(event, []) if warp in self.warps(t)]
        behind = [t for t in triggers if self.order[t] > self.order[op]]
        return behind[0] if behind else triggers[-1] if triggers else None


def _written(op: Op) -> list[object]:
    """Roots of the data that an operation may write."""
    return [effect.root for effect in op.own_effects() if effect.kind == "write"]
