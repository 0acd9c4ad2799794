"""Lays recorded steps out on a time axis: a discrete-event simulation of one SM with the costs of `timeline_costs`.

Each warp goes through its steps in order. What a step waits for completes when everything that the record names for it
has happened: arrivals and bytes of a phase, MMAs of a commit group. Shared machinery:

* the pipes of each SM quarter: statements of several warps that want one pipe at the same time all slow down in
  proportion; FMA and ALU are slower while the tensor cores work;
* the tensor cores, one server for all warpgroups, in the order in which instructions are issued; a warpgroup has a
  limited number of them in flight, and its issuing warps wait when the queue is full;
* the copy engine, one server for loads and one for stores: bytes over bandwidth each, and a latency behind that
  overlaps with the next transfer.

Times are cycles, as floats; equal records give equal times.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from croq.ir import hw
from croq.simulate import timeline_costs as costs
from croq.simulate.timeline_costs import Work, cycles
from croq.simulate.timeline_record import Step

QUARTERS = 4
WARPGROUP = 4  # warps
_SLACK = 1e-6  # cycles: what is left of a statement that counts as nothing


class Signal:
    """Something that happens once, after `pending` parts of it have."""

    def __init__(self, pending: int = 1) -> None:
        self.pending = pending
        self.when: float | None = None
        self.waiting: list[Process] = []


Process = Generator["float | Signal | Work", None, None]  # yields a delay, what it waits for, or work to be done


@dataclass(eq=False)
class Executed:
    """A step with its times. `completes`: when what it waited for, or what it started, was complete."""

    step: Step
    warp: int
    start: float
    end: float = 0
    completes: float | None = None


@dataclass(eq=False)
class Flight:
    """An asynchronous operation: issued, under way from `start` to `end`; its effects are seen from `done` on."""

    step: Step
    warp: int  # that issued it; of an MMA the first of the warpgroup
    issued: float
    start: float = 0
    end: float = 0
    done: Signal = field(default_factory=Signal)
    ready: Signal | None = None  # MMAs: all instructions are issued
    arrived: int = 0  # MMAs: warps of the group that have come to it


@dataclass
class Replayed:
    """Everything that happened: steps by warp, MMAs by warpgroup, transfers; `busy`: intervals of the tensor cores."""

    steps: dict[int, list[Executed]]
    mmas: list[Flight]
    loads: list[Flight]
    stores: list[Flight]
    busy: list[tuple[float, float]]
    end: float


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
        pipes = work.pipes
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


class _Server:
    """Serves one request after the other, in the order of their coming."""

    def __init__(self) -> None:
        self.free = 0.0

    def serve(self, now: float, duration: float) -> tuple[float, float]:
        start = max(now, self.free)
        self.free = start + duration
        return start, self.free


class Engine:
    """The clock, and what is shared."""

    def __init__(self) -> None:
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
            return 1, 1 / cycles("fma.under_mma"), 1 / cycles("alu.under_mma"), 1, 1
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


class _Issued:
    """What one warp has started and not waited for: operations not committed yet, then groups of them."""

    def __init__(self) -> None:
        self.open: list[Flight] = []
        self.groups: list[list[Flight]] = []

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []

    def due(self, depth: int) -> list[Flight]:
        """What a wait for at most `depth` pending groups waits for."""
        return [f for group in self.groups[: max(0, len(self.groups) - depth)] for f in group]


class _Replay:
    def __init__(self, steps: Mapping[int, Sequence[Step]]) -> None:
        self.steps = steps
        self.engine = Engine()
        self.out = Replayed({warp: [] for warp in steps}, [], [], [], self.engine.busy, 0.0)
        self.phases: dict[tuple[Any, int], Signal] = {}
        self.mmas: dict[tuple[int, int], Flight] = {}  # by warpgroup and number
        self.members: dict[tuple[int, int], int] = defaultdict(int)  # warps that execute an MMA
        self.queues: dict[int, deque[Signal]] = defaultdict(deque)  # instructions in flight, by warpgroup
        self.tensor, self.loads, self.stores = _Server(), _Server(), _Server()
        for warp, sequence in steps.items():
            self._survey(warp, sequence)

    def _survey(self, warp: int, steps: Sequence[Step]) -> None:
        """Count what completes each phase, and who takes part in each MMA."""
        number = 0
        for step in steps:
            if step.kind in ("arrive", "load", "sync", "sync_arrive"):
                signal = self.phases.setdefault((step.barrier, step.generation), Signal(0))
                signal.pending += int(step.amount) if step.kind == "arrive" else 1
            elif step.kind == "mma":
                self.members[warp // WARPGROUP, number] += 1
                number += 1

    def run(self) -> Replayed:
        for warp in self.steps:
            self.engine.start(self._warp(warp), warp % QUARTERS)
        self.engine.run()
        ends = [executed.end for done in self.out.steps.values() for executed in done]
        flights = [f.done.when or 0 for f in (*self.out.mmas, *self.out.loads, *self.out.stores)]
        self.out.end = max([0.0, *ends, *flights])
        return self.out

    # ---------------------------------------------------------------------------------------------------- warps
    def _warp(self, warp: int) -> Process:
        engine = self.engine
        mmas, stores = _Issued(), _Issued()
        number = 0
        for step in self.steps[warp]:
            executed = Executed(step, warp, engine.now)
            self.out.steps[warp].append(executed)
            match step.kind:
                case "work" | "copy":
                    if max(step.work.pipes) > 0:
                        yield step.work
                    yield step.work.latency
                case "pause":
                    yield step.amount
                case "wait" | "sync" | "arrive" | "sync_arrive":
                    yield from self._barrier(step, executed)
                case "load":
                    yield cycles("tma.issue")
                    self._load(step, warp)
                case "store":
                    yield cycles("tma.issue")
                    stores.open.append(self._store(step, warp))
                case "mma":
                    flight = self._join(warp, number, step)
                    number += 1
                    mmas.open.append(flight)
                    assert flight.ready is not None
                    yield flight.ready
                case "mma_commit" | "store_commit":
                    (mmas if step.kind == "mma_commit" else stores).commit()
                    yield cycles("wgmma.fence" if step.kind == "mma_commit" else "tma.issue")
                case "mma_wait" | "store_wait":
                    waited = mmas if step.kind == "mma_wait" else stores
                    for flight in waited.due(int(step.amount)):
                        yield flight.done
                        executed.completes = max(executed.completes or 0, flight.done.when or 0)
                    yield cycles("wgmma.wait" if step.kind == "mma_wait" else "tma.issue")
            executed.end = engine.now

    def _barrier(self, step: Step, executed: Executed) -> Process:
        engine = self.engine
        phase = self.phases.get((step.barrier, step.generation))
        if step.kind in ("arrive", "sync_arrive"):
            assert phase is not None
            count = int(step.amount) if step.kind == "arrive" else 1
            engine.at(cycles("mbarrier.arrive" if step.kind == "arrive" else "bar"), lambda: engine.hit(phase, count))
            yield cycles("issue")
            return
        if step.kind == "sync":
            assert phase is not None
            engine.hit(phase)
            yield phase
            executed.completes = phase.when
            yield cycles("bar")
            return
        yield cycles("mbarrier.poll")
        if phase is None:
            return  # complete from the start
        if phase.when is None:
            yield phase
            yield cycles("mbarrier.wake")
        executed.completes = phase.when

    # ---------------------------------------------------------------------------------------------------- copies
    def _load(self, step: Step, warp: int) -> None:
        flight = Flight(step, warp, self.engine.now)
        self.out.loads.append(flight)
        phase = self.phases[step.barrier, step.generation]
        self._transfer(flight, self.loads, cycles("tma.latency"), lambda: self.engine.hit(phase))

    def _store(self, step: Step, warp: int) -> Flight:
        flight = Flight(step, warp, self.engine.now)
        self.out.stores.append(flight)
        self._transfer(flight, self.stores, cycles("tma.store"), lambda: None)
        return flight

    def _transfer(self, flight: Flight, server: _Server, latency: float, then: Callable[[], None]) -> None:
        engine = self.engine
        flight.start, free = server.serve(engine.now, flight.step.amount / cycles("tma.bytes"))
        flight.end = free + latency

        def land() -> None:
            engine.hit(flight.done)
            then()

        engine.at(flight.end - engine.now, land)

    # ----------------------------------------------------------------------------------------------------- MMAs
    def _join(self, warp: int, number: int, step: Step) -> Flight:
        """One more warp has come to the n-th MMA of its warpgroup; the last one sets it going."""
        key = warp // WARPGROUP, number
        flight = self.mmas.get(key)
        if flight is None:
            flight = self.mmas[key] = Flight(step, warp - warp % WARPGROUP, self.engine.now, ready=Signal())
        flight.arrived += 1
        if flight.arrived == self.members[key]:
            self.out.mmas.append(flight)
            flight.issued = self.engine.now
            self.engine.start(self._issue(flight, self.queues[key[0]]), 0)
        return flight

    def _issue(self, flight: Flight, queue: deque[Signal]) -> Process:
        """Issue the instructions of an MMA one by one, as the queue has room."""
        engine = self.engine
        op = flight.step.op
        assert isinstance(op, hw.WgmmaIssue)
        count, duration = costs.mma_instructions(op)
        for index in range(count):
            yield cycles("wgmma.issue")
            while len(queue) >= cycles("wgmma.queue"):
                yield queue[0]
            start, end = self.tensor.serve(engine.now, duration)
            engine.tensor(start, end)
            flight.start = start if index == 0 else flight.start
            flight.end = end
            finished = Signal()
            queue.append(finished)
            last = index == count - 1
            engine.at(end - engine.now, lambda f=finished: self._retire(f, queue))  # type: ignore[misc]
            if last:
                engine.at(end + cycles("wgmma.latency") - engine.now, lambda: engine.hit(flight.done))
        assert flight.ready is not None
        engine.hit(flight.ready)

    def _retire(self, finished: Signal, queue: deque[Signal]) -> None:
        queue.popleft()
        self.engine.hit(finished)


def replay(steps: Mapping[int, Sequence[Step]]) -> Replayed:
    """Times for the recorded steps of one block, by warp."""
    return _Replay({warp: steps[warp] for warp in sorted(steps)}).run()
