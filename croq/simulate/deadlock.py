"""What a deadlock is reported as: who waits for what, and why it cannot come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from croq.ir import hw
from croq.ir.core import Op
from croq.ir.objects import Event
from croq.ir.types import warps_in_words
from croq.simulate.barriers import Mbarrier
from croq.simulate.faults import SimulationFault, fault
from croq.simulate.machine import Cta, Waiting, Warp
from croq.simulate.races.guards import Guards
from croq.source import Span


def deadlock(cta: Cta, live: list[Warp]) -> SimulationFault:
    """What every warp that is left waits for, one label a source line."""
    waits: dict[tuple[Span | None, str], list[int]] = defaultdict(list)
    events: dict[Event, None] = {}
    for warp in live:
        assert warp.waiting is not None
        waits[warp.waiting.op.span, warp.waiting.describe()].append(warp.index)
        event = getattr(warp.waiting.op, "event", None)
        if isinstance(event, Event):
            events[event] = None
    (span, _), *others = waits
    labels = [(s, f"{_wait_for(waits[s, text])} {text}") for s, text in others if s is not None]
    notes = [f"{_wait_for(warps)} {text}" for (s, text), warps in waits.items() if s is None or s is span]
    ended = [warp.index for warp in cta.warps if warp not in live]
    if ended:
        notes.append(f"{warps_in_words(ended)} {'has' if len(ended) == 1 else 'have'} ended")
    notes += [note for warp in live if (note := _lapped(warp))]
    notes += _Causes(cta, live).notes()
    notes += [f"`{e.name}` is triggered by threads {e.triggers}" for e in events if e.triggers is not None]
    notes += [f"{_waiting(warp.waiting)}: only a part of warp {warp.index} is there" for warp in live if _partial(warp)]
    return fault(
        "E-5010",
        span,
        f"deadlock: {warps_in_words([w.index for w in live])} of {len(cta.warps)} cannot go on",
        labels=labels,
        notes=dict.fromkeys(notes),
        hint="an event is waited for more often than it is triggered, or the handshakes wait for one another",
    )


class _Causes:
    """Why what is waited for cannot come."""

    def __init__(self, cta: Cta, live: list[Warp]) -> None:
        self.cta = cta
        self.guards = Guards(cta.program.kernel)
        self.live = {warp.index: warp for warp in live}

    def notes(self) -> Iterator[str]:
        for barrier in dict.fromkeys(_barrier(warp) for warp in self.live.values()):
            if barrier is not None:
                yield from self._of_mbarrier(barrier)
        for warp in self.live.values():
            named = warp.waiting.named if warp.waiting is not None else None
            if named is not None and named.there:
                yield f"{warps_in_words(named.there)} {'is' if len(named.there) == 1 else 'are'} at {named.name}"
        circle = self._circle()
        if circle:
            yield "they wait for one another: " + ", ".join(
                f"warp {warp} for `{barrier.name}`" for warp, barrier in circle
            )

    def _of_mbarrier(self, barrier: Mbarrier) -> Iterator[str]:
        triggers = self._triggers(barrier.event)
        if not triggers:
            yield f"nothing in the kernel triggers `{barrier.event.name}`"
        if barrier.pending:
            for op in triggers:
                yield from self._of_trigger(barrier, op)
        elif barrier.tx > 0 and not any(p.op for p in self.cta.pending):
            yield (
                f"`{barrier.name}` has all its arrivals, but {barrier.tx} bytes that were announced are brought by no "
                "load that is in flight"
            )

    def _triggers(self, event: Event) -> list[Op]:
        return [op for op in self.guards.triggers.get(event, []) if not isinstance(op, hw.BulkTensorLoad)]

    def _of_trigger(self, barrier: Mbarrier, op: Op) -> Iterator[str]:
        """What has become of those who would trigger it."""
        states: dict[str, list[int]] = defaultdict(list)
        for index in self.guards.warps(op):
            states[self._state(index, barrier)].append(index)
        where = f" (line {op.span.line})" if op.span is not None else ""
        if len(states) <= 3:
            parts = "; by ".join(f"{warps_in_words(warps)}, which {what}" for what, warps in states.items())
            yield f"`{barrier.event.name}` is triggered{where} by {parts}"

    def _state(self, index: int, of: Mbarrier) -> str:
        warp = self.live.get(index)
        if warp is None:
            return "ended without it" if of.phase == 0 else "ended"
        barrier = _barrier(warp)
        if barrier is of:
            return "cannot go on without it"
        return f"cannot go on without `{barrier.name}`" if barrier is not None else "cannot go on"

    def _circle(self) -> list[tuple[int, Mbarrier]]:
        """Warps that wait for one another by events, each for the next and the last for the first."""
        for start in self.live:
            path: list[int] = []
            at: int | None = start
            while at is not None and at not in path:
                path.append(at)
                at = next(iter(self._awaited(at)), None)
            if at is not None:
                circle = path[path.index(at) :]
                lowest = circle.index(min(circle))
                circle = circle[lowest:] + circle[:lowest]
                named = [(i, barrier) for i in circle if (barrier := _barrier(self.live[i])) is not None]
                if len(named) > 1:
                    return named
        return []

    def _awaited(self, index: int) -> list[int]:
        """Warps that are stuck themselves and would trigger what a warp waits for."""
        barrier = _barrier(self.live[index])
        if barrier is None:
            return []
        warps = [w for op in self._triggers(barrier.event) for w in self.guards.warps(op)]
        return [w for w in warps if w != index and w in self.live and _barrier(self.live[w]) not in (None, barrier)]


def _barrier(warp: Warp) -> Mbarrier | None:
    return warp.waiting.barrier if warp.waiting is not None else None


def _lapped(warp: Warp) -> str | None:
    """Whether the phase that a warp wants has come and gone: parity cannot tell it from the next but one."""
    barrier = _barrier(warp)
    if barrier is None:
        return None
    wanted = warp.passed.get(barrier, 0) - barrier.event.ready
    if barrier.phase <= wanted:
        return None
    return (
        f"warp {warp.index} has missed a phase of `{barrier.name}`: it waits for phase {wanted}, which is over since "
        f"phase {barrier.phase} began; nothing made the others wait for it"
    )


def _partial(warp: Warp) -> bool:
    return warp.mask != warp.base


def _waiting(waiting: Waiting | None) -> str:
    return waiting.op.NAME if waiting is not None else "end"


def _wait_for(indices: list[int]) -> str:
    return f"{warps_in_words(indices)} {'waits' if len(indices) == 1 else 'wait'} for"
