"""The clock of the time model and what warps share on it: the pipes of SM quarters, servers, the tensor cores' load."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from dataclasses import dataclass

from croq.target import Target
from croq.target.cuda import QUARTERS
from croq.timelines.costs import Work

_SLACK = 1e-6  # cycles: what is left of a statement that counts as nothing


class Signal:
    """Something that happens once, after `pending` parts of it have."""

    def __init__(self, pending: int = 1) -> None:
        self.pending = pending
        self.when: float | None = None
        self.waiting: list[Process] = []


Process = Generator["float | Signal | Work", None, None]  # yields a delay, what it waits for, or work to be done


@dataclass
class _Task:
    remaining: float  # cycles that it would take alone
    demand: tuple[float, ...]  # share of each pipe at full speed
    process: Process
    speed: float = 1.0


class _Quarter:
    """The pipes of one quarter of the SM, shared by the warps that work at the same time."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.tasks: list[_Task] = []
        self._settled = 0.0
        self._version = 0

    def add(self, work: Work, process: Process) -> None:
        pipes = work.pipes(self.engine.target)
        alone = max(pipes)
        self._settle()
        self.tasks.append(_Task(alone, tuple(p / alone for p in pipes), process))
        self.reschedule()

    def _settle(self) -> None:
        elapsed = self.engine.now - self._settled
        for task in self.tasks:
            task.remaining -= elapsed * task.speed
        self._settled = self.engine.now

    def reschedule(self) -> None:
        """Speeds from now on: a task is as fast as the most wanted of its pipes lets it be."""
        self._settle()
        self._version += 1
        if not self.tasks:
            return
        wanted = [sum(task.demand[p] for task in self.tasks) for p in range(len(self.tasks[0].demand))]
        capacity = self.engine.capacity
        crowd = [max(1.0, want / have) for want, have in zip(wanted, capacity, strict=True)]
        for task in self.tasks:
            task.speed = 1 / max(c for c, share in zip(crowd, task.demand, strict=True) if share > 0)
        version = self._version
        self.engine.at(min(task.remaining / task.speed for task in self.tasks), lambda: self._tick(version))

    def _tick(self, version: int) -> None:
        if version != self._version:
            return
        self._settle()
        over = [task for task in self.tasks if task.remaining <= _SLACK]
        self.tasks = [task for task in self.tasks if task.remaining > _SLACK]
        self.reschedule()
        for task in over:
            self.engine.resume(task.process)


class Server:
    """Serves one request after the other, in the order of their coming."""

    def __init__(self) -> None:
        self.free = 0.0

    def serve(self, now: float, duration: float) -> tuple[float, float]:
        start = max(now, self.free)
        self.free = start + duration
        return start, self.free


class Engine:
    """The clock, and what is shared."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.now = 0.0
        self.busy: list[tuple[float, float]] = []
        self._tensor_until = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._quarters = [_Quarter(self) for _ in range(QUARTERS)]
        self._quarter_of: dict[Process, int] = {}

    @property
    def capacity(self) -> tuple[float, ...]:
        """What issue, FMA, ALU, XU and LSU can do now."""
        if self._tensor_until > self.now + _SLACK:
            return 1, 1 / self.target.cycles("fma.under_mma"), 1 / self.target.cycles("alu.under_mma"), 1, 1
        return 1, 1, 1, 1, 1

    def at(self, delay: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + max(delay, 0.0), self._count, act))

    def start(self, process: Process, quarter: int) -> None:
        self._quarter_of[process] = quarter
        self.at(0, lambda: self.resume(process))

    def resume(self, process: Process) -> None:
        """Let a process run until it has to wait."""
        while True:
            try:
                want = next(process)
            except StopIteration:
                return
            if isinstance(want, Signal):
                if want.when is not None:
                    continue
                want.waiting.append(process)
            elif isinstance(want, Work):
                self._quarters[self._quarter_of[process]].add(want, process)
            else:
                self.at(want, lambda: self.resume(process))
            return

    def hit(self, signal: Signal, count: int = 1) -> None:
        """So many parts of something happen now."""
        signal.pending -= count
        if signal.pending <= 0 and signal.when is None:
            signal.when = self.now
            for process in signal.waiting:
                self.at(0, lambda process=process: self.resume(process))  # type: ignore[misc]
            signal.waiting = []

    def tensor(self, start: float, end: float) -> None:
        """The tensor cores work from `start` to `end`; ALU and FMA slow down as long as they do."""
        if self.busy and start <= self.busy[-1][1]:
            self.busy[-1] = self.busy[-1][0], end
        else:
            self.busy.append((start, end))
        if self._tensor_until <= self.now:
            self._tensor_until = end
            self._changed()
        self._tensor_until = end
        self.at(end - self.now, self._changed)

    def _changed(self) -> None:
        for quarter in self._quarters:
            quarter.reschedule()

    def run(self) -> None:
        while self._events:
            self.now, _, act = heapq.heappop(self._events)
            act()
