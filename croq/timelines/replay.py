"""Lays recorded steps out on a time axis: a discrete-event simulation of one SM with the costs of the target.

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

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from croq.ir import hw
from croq.ir.core import Op
from croq.simulate.faults import fault
from croq.target import Target, cuda
from croq.timelines import costs
from croq.timelines.engine import Engine, Process, Server, Signal
from croq.timelines.record import Step

WARPGROUP = cuda.WARPGROUP // cuda.WARP  # warps


@dataclass(eq=False)
class Executed:
    """A step with its times. `completes`: when what it waited for, or what it started, was complete."""

    step: Step
    warp: int
    start: float
    end: float = -1.0  # not yet
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


class _Groups:
    """Operations of one kind that a warp has started: not committed ones, then groups of them."""

    def __init__(self) -> None:
        self.open: list[Flight] = []
        self.groups: list[list[Flight]] = []

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []

    def due(self, depth: int) -> list[Flight]:
        """What a wait for at most `depth` pending groups waits for."""
        return [f for group in self.groups[: max(0, len(self.groups) - depth)] for f in group]


class _Issued:
    """What one warp has started, and how many MMAs."""

    def __init__(self) -> None:
        self.mmas, self.stores = _Groups(), _Groups()
        self.count = 0


class _Replay:
    def __init__(self, target: Target, steps: Mapping[int, Sequence[Step]]) -> None:
        self.target = target
        self.steps = steps
        self.engine = Engine(target)
        self.out = Replayed({warp: [] for warp in steps}, [], [], [], self.engine.busy, 0.0)
        self.phases: dict[tuple[Any, int], Signal] = {}
        self.mmas: dict[tuple[int, int], Flight] = {}  # by warpgroup and number
        self.members: dict[tuple[int, int], int] = defaultdict(int)  # warps that execute an MMA
        self.queues: dict[int, deque[Signal]] = defaultdict(deque)  # instructions in flight, by warpgroup
        self.tensor, self.loads, self.stores = Server(), Server(), Server()
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
            self.engine.start(self._warp(warp), warp % cuda.QUARTERS)
        self.engine.run()
        self._check()
        ends = [executed.end for done in self.out.steps.values() for executed in done]
        flights = [f.done.when or 0 for f in (*self.out.mmas, *self.out.loads, *self.out.stores)]
        self.out.end = max([0.0, *ends, *flights])
        return self.out

    def _check(self) -> None:
        """Every warp has come to its end: an order in which the kernel has run is an order in which it can run."""
        for warp, steps in self.steps.items():
            done = [e for e in self.out.steps[warp] if e.step.kind != "fetch_wait"]
            if len(done) < len(steps) or (done and done[-1].end < done[-1].start):
                stuck = done[-1].step.op
                notes = ["a timeline is made of an eager run; this is a fault of croq, or the kernel has a race"]
                raise fault("E-5099", stuck, f"the timeline stops: warp {warp} waits for ever", notes=notes)

    # ---------------------------------------------------------------------------------------------------- warps
    def _warp(self, warp: int) -> Process:
        engine, issued = self.engine, _Issued()
        fetched: dict[Op, tuple[Step, float]] = {}  # loads of elements under way, and when they arrive
        for step in self.steps[warp]:
            if fetched and (step.kind != "fetch" or not step.after.isdisjoint(fetched)):
                yield from self._arrive(warp, fetched)
            executed = Executed(step, warp, engine.now)
            self.out.steps[warp].append(executed)
            match step.kind:
                case "work" | "copy":
                    if max(step.work.pipes(self.target)) > 0:
                        yield step.work
                    yield step.work.latency
                case "fetch":
                    yield replace(step.work, latency=0)
                    fetched[step.op] = step, engine.now + step.work.latency
                case "pause":
                    yield step.amount
                case "wait" | "sync" | "arrive" | "sync_arrive":
                    yield from self._barrier(step, executed)
                case _:
                    yield from self._asynchronous(step, executed, issued)
            executed.end = engine.now

    def _asynchronous(self, step: Step, executed: Executed, issued: _Issued) -> Process:
        """Issue, commit, or wait for what the copy engine and the tensor cores do."""
        warp = executed.warp
        groups = issued.mmas if step.kind.startswith("mma") else issued.stores
        match step.kind:
            case "load":
                yield self.target.cycles("tma.issue")
                self._load(step, warp)
            case "store":
                yield self.target.cycles("tma.issue")
                groups.open.append(self._store(step, warp))
            case "mma":
                flight = self._join(warp, issued.count, step)
                issued.count += 1
                groups.open.append(flight)
                assert flight.ready is not None
                yield flight.ready
            case "mma_commit" | "store_commit":
                groups.commit()
                yield self.target.cycles("wgmma.fence" if step.kind == "mma_commit" else "tma.issue")
            case _:
                for flight in groups.due(int(step.amount)):
                    yield flight.done
                    executed.completes = max(executed.completes or 0, flight.done.when or 0)
                yield self.target.cycles("wgmma.wait" if step.kind == "mma_wait" else "tma.issue")

    def _arrive(self, warp: int, fetched: dict[Op, tuple[Step, float]]) -> Process:
        """Wait for all loads of elements that are under way: what comes next may use them."""
        step, when = max(fetched.values(), key=lambda item: item[1])
        fetched.clear()
        waiting = Executed(replace(step, kind="fetch_wait"), warp, self.engine.now, completes=when)
        self.out.steps[warp].append(waiting)
        yield when - self.engine.now
        waiting.end = self.engine.now

    def _barrier(self, step: Step, executed: Executed) -> Process:
        engine = self.engine
        phase = self.phases.get((step.barrier, step.generation))
        if step.kind in ("arrive", "sync_arrive"):
            assert phase is not None
            count = int(step.amount) if step.kind == "arrive" else 1
            engine.at(
                self.target.cycles("mbarrier.arrive" if step.kind == "arrive" else "bar"),
                lambda: engine.hit(phase, count),
            )
            yield self.target.cycles("issue")
            return
        if step.kind == "sync":
            assert phase is not None
            engine.hit(phase)
            yield phase
            executed.completes = phase.when
            yield self.target.cycles("bar")
            return
        yield self.target.cycles("mbarrier.poll")
        if phase is None:
            return  # complete from the start
        if phase.when is None:
            yield phase
            yield self.target.cycles("mbarrier.wake")
        executed.completes = phase.when

    # ---------------------------------------------------------------------------------------------------- copies
    def _load(self, step: Step, warp: int) -> None:
        flight = Flight(step, warp, self.engine.now)
        self.out.loads.append(flight)
        phase = self.phases[step.barrier, step.generation]
        self._transfer(flight, self.loads, self.target.cycles("tma.latency"), lambda: self.engine.hit(phase))

    def _store(self, step: Step, warp: int) -> Flight:
        flight = Flight(step, warp, self.engine.now)
        self.out.stores.append(flight)
        self._transfer(flight, self.stores, self.target.cycles("tma.store"), lambda: None)
        return flight

    def _transfer(self, flight: Flight, server: Server, latency: float, then: Callable[[], None]) -> None:
        engine = self.engine
        flight.start, free = server.serve(engine.now, flight.step.amount / self.target.cycles("tma.bytes"))
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
        count, duration = costs.mma_instructions(op), costs.mma_cycles(self.target, op)
        for index in range(count):
            yield self.target.cycles("wgmma.issue")
            while len(queue) >= self.target.cycles("wgmma.queue"):
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
                engine.at(end + self.target.cycles("wgmma.latency") - engine.now, lambda: engine.hit(flight.done))
        assert flight.ready is not None
        engine.hit(flight.ready)

    def _retire(self, finished: Signal, queue: deque[Signal]) -> None:
        queue.popleft()
        self.engine.hit(finished)


def replay(target: Target, steps: Mapping[int, Sequence[Step]]) -> Replayed:
    """Times for the recorded steps of one block, by warp."""
    return _Replay(target, {warp: steps[warp] for warp in sorted(steps)}).run()
