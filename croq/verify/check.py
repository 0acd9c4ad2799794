"""Verification of one kernel: bindings in order of size, a run for each, the first fault shown in full."""

from __future__ import annotations

import heapq
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, Literal

from croq.diagnostics import Diagnostic, make
from croq.ir.objects import Buffer, Event, Kernel
from croq.ir.scalar import For
from croq.target.cuda import MBARRIER_BYTES
from croq.verify import hw, tile
from croq.verify.assumptions import assumptions
from croq.verify.bindings import Binding, Bindings, ChoosingOracle, size
from croq.verify.coder import Level
from croq.verify.decisions import Attempt, Decisions, Fresh, Goal
from croq.verify.faults import Fault, Refine
from croq.verify.machine import Machine
from croq.verify.program import Program
from croq.verify.sites import Decision
from croq.verify.state import Oracle, initial_partition
from croq.verify.timeline import timeline
from croq.verify.values import TooLong, Undecided
from croq.verify.verdict import Coverage, LoopCoverage, Verdict

LevelName = Literal["hw", "tile"]
Memory = dict[tuple[Any, ...], int]
_Run = tuple[float, int, Binding, tuple[int, ...]]
MOST_COUNTED = 8  # scalars of memory, of those that a run reads, that are chosen so that loops run long
LONGEST = 150_000  # operations of a run that is made for one side of one decision
MOST_ATTEMPTS = 32


@dataclass(frozen=True)
class Options:
    """Bounds. `trips`: every loop runs 0 to so many times where inputs can make it (more, where a ring is deeper: twice
    its slots and one). `steps`: protocol operations over all runs, after which no further run is begun."""

    trips: int = 7
    steps: int = 60_000
    runs: int = 400


THOROUGH = Options(steps=500_000)
"""For a check that is asked for, rather than made along with every compilation."""


def level_of(name: LevelName) -> Level:
    return hw.LEVEL if name == "hw" else tile.LEVEL


def verify_protocol(kernel: Kernel, *, level: LevelName = "hw", options: Options | None = None) -> Verdict:
    """Whether the kernel's synchronisation is right in every schedule.

    `level` "hw": lowered IR, after all passes. "tile": IR after the pass `participants`. Raises nothing that is the
    program's fault, nor croq's; the verdict is deterministic.
    """
    try:
        return _Check(kernel, level, options or Options()).run()
    except Exception as bug:  # what is not expected decides nothing
        reason = f"croq's verifier failed ({type(bug).__name__}: {bug}), which is a bug of croq"
        return Verdict(kernel.name, level, "undecided", reason=reason, bug=bug)


def _key(binding: Binding, memory: Memory) -> object:
    return (*sorted(binding.symbols.items()), binding.place, *sorted(memory.items(), key=str))


def overlapping(kernel: Kernel) -> tuple[Buffer | Event, Buffer | Event] | None:
    """Two things in shared memory that share bytes: an access of one would have to be held against the other."""
    placed: list[tuple[int, int, Buffer | Event]] = [
        (b.offset, b.offset + b.slots * b.slot_stride, b)
        for b in kernel.buffers
        if b.storage == "shared" and b.offset is not None
    ]
    placed += [(e.offset, e.offset + MBARRIER_BYTES * e.slots, e) for e in kernel.events if e.offset is not None]
    placed.sort(key=lambda item: item[:2])
    for (_, end, first), (start, _, second) in pairwise(placed):
        if start < end:
            return first, second
    return None


@dataclass
class _Ended(Exception):
    """The verdict is known."""

    verdict: Verdict


class _Check:
    def __init__(self, kernel: Kernel, level: LevelName, options: Options) -> None:
        self.kernel, self.level = kernel, level
        slots = max((event.slots for event in kernel.events), default=1)
        self.options = replace(options, trips=max(options.trips, 2 * slots + 1))
        self.program = Program(kernel, level_of(level))
        self.bindings = Bindings(self.program, self.options.trips)
        self.partition = initial_partition(kernel.threads)
        self.decisions = Decisions(self.program, self.bindings.solver)
        self.runs = self.steps = 0
        self.complete = True
        self.too_long: dict[Decision, Undecided] = {}
        self.turning: list[tuple[Binding, Memory, Fresh]] = []  # runs that took a side which none had taken before
        self.followed: set[object] = set()

    def run(self) -> Verdict:
        shared = overlapping(self.kernel)
        if shared:
            return self._undecided(Undecided(f"`{shared[0].name}` and `{shared[1].name}` lie at the same addresses"))
        self.queue: list[_Run] = []
        self.number = 0
        for binding in self.bindings:
            self._plan(binding, ())
        try:
            self._drain()
            self._go_on()
            self._lead()
        except _Ended as end:
            return end.verdict
        return self._verdict()

    def _plan(self, binding: Binding, prefix: tuple[int, ...]) -> None:
        heapq.heappush(self.queue, (binding.cost + size(prefix), self.number, binding, prefix))
        self.number += 1

    def _drain(self) -> None:
        """Follow what is planned, small inputs first, and the task lists that the runs ask for."""
        while self.queue:
            if self.steps > self.options.steps or self.runs >= self.options.runs:
                self.complete = False
                return
            _, _, binding, prefix = heapq.heappop(self.queue)
            oracle = ChoosingOracle(self.bindings, prefix)
            self._one(binding, oracle)
            for position in range(len(prefix), len(oracle.taken)):
                for choice in range(oracle.taken[position] + 1, oracle.widths[position]):
                    extended = (*oracle.taken[:position], choice)
                    if sum(extended) <= self.options.trips + 1:
                        self._plan(binding, extended)

    def _one(self, binding: Binding, oracle: Oracle, limit: int | None = None) -> None:
        try:
            machine = self._follow(binding, oracle, limit=limit)
            self.followed.add(_key(binding, oracle.values))
            if machine.fresh:
                self.turning.append((binding, dict(oracle.values), machine.fresh))
        except Fault:
            raise _Ended(self._show(binding, oracle)) from None
        except TooLong as stop:
            if limit is None:
                raise _Ended(self._undecided(stop)) from None
            self.machine.forget()
            raise
        except Undecided as stop:
            raise _Ended(self._undecided(stop)) from None

    def _lead(self) -> None:
        """Inputs for the sides of decisions that no run has taken, as long as that leads to new ones."""
        tried: set[object] = set()
        budget = self.steps + self.options.steps
        while True:
            before = len(tried)
            for goal in list(self.decisions.goals()):
                for attempt in islice(self.decisions.attempts(goal), MOST_ATTEMPTS):
                    if not goal.missing or self.steps > budget:
                        break
                    if attempt.key not in tried:
                        tried.add(attempt.key)
                        self._attempt(goal, attempt)
                        self._go_on()
            if len(tried) == before or self.steps > budget:
                return

    def _go_on(self) -> None:
        """What a side does may show later only: a run that took one as the first is repeated with longer loops."""
        budget = self.steps + self.options.steps
        while self.turning and self.steps <= budget:
            binding, memory, fresh = self.turning.pop(0)
            for longer in self.bindings.longer(binding):
                self._again(longer, memory)
                for attempt in self.decisions.held(fresh, binding, longer):
                    self._again(Binding(attempt.symbols, attempt.place, 0.0), attempt.memory)
            arrays = self.bindings.counting
            if any(key[0] in arrays for key in memory):
                rest = {key: value for key, value in memory.items() if key[0] not in arrays}
                for choice in (self.bindings.around, self.options.trips):
                    self._again(binding, rest, (choice,) * MOST_COUNTED)

    def _again(self, binding: Binding, memory: Memory, prefix: tuple[int, ...] = ()) -> None:
        if _key(binding, memory) in self.followed and not prefix:
            return
        with suppress(TooLong):  # the side was taken all the same
            self._one(binding, ChoosingOracle(self.bindings, prefix, memory), LONGEST)

    def _attempt(self, goal: Goal, attempt: Attempt) -> None:
        binding = Binding(attempt.symbols, attempt.place, 0.0)
        try:
            self._one(binding, ChoosingOracle(self.bindings, (), attempt.memory), LONGEST)
        except TooLong as stop:
            self.too_long.setdefault(goal.decision, stop)

    def _follow(self, binding: Binding, oracle: Oracle, record: bool = False, limit: int | None = None) -> Machine:
        """One run; repeated with a finer partition as long as lanes part that were taken together."""
        fresh: list[tuple[Decision, int, int, int]] = []
        while True:
            machine: Machine = self.program.level.machine(
                self.program, self.partition, binding.symbols, binding.place, oracle, record
            )
            self.machine = machine
            machine.limit, machine.fresh = limit, fresh
            try:
                machine.execute()
            except Refine as parting:
                classes = self.partition[parting.warp]
                self.partition[parting.warp] = [
                    part for c in classes for part in (c & parting.mask, c & ~parting.mask) if part
                ]
                continue
            finally:
                self.steps += machine.work
            self.runs += 1
            return machine

    # ------------------------------------------------------------------------------------------------------ verdicts
    def _coverage(self) -> Coverage:
        loops = []
        for loop in self.program.loops:
            decides = loop.op.count if isinstance(loop.op, For) else loop.op.condition
            constant = not self.bindings.varies(decides)
            line = loop.op.span.line if loop.op.span is not None else 0
            loops.append(LoopCoverage(line, tuple(sorted(loop.trips)), constant))
        return Coverage(self.runs, self.steps, tuple(loops), self.complete)

    def _verdict(self) -> Verdict:
        coverage = self._coverage()
        for loop, seen in zip(self.program.loops, coverage.loops, strict=True):
            if not seen.trips or (not seen.constant and len(seen.trips) < 2):
                times = f"only {seen.trips[0]} times" if seen.trips else "never reached"
                return self._undecided(Undecided(f"no input was found that varies this loop ({times})", loop.op))
        goal = next(self.decisions.required(), None)
        if goal is not None:
            return self._undecided(self._missing(goal))
        taken = assumptions(self.kernel, self.program.slice)
        return Verdict(self.kernel.name, self.level, "proved", coverage, assumes=taken, remarks=self._remarks())

    def _remarks(self) -> tuple[Diagnostic, ...]:
        """What the machine has noted at sites beside faults."""
        return tuple(site.objects["remark"] for site in self.program.sites if "remark" in site.objects)

    def _missing(self, goal: Goal) -> Undecided:
        decision = goal.decision
        taken = bool(goal.side)
        if decision.what == "place":
            return Undecided("it is not shown that this place lies inside for all inputs", decision.op)
        ways = {
            "branch": ("leads into this branch", "leads past this branch"),
            "loop": ("enters this loop", "skips this loop"),
            "choice": ("makes this choice the first way", "makes this choice the other way"),
            "comparison": ("makes this comparison true", "makes this comparison false"),
        }
        reason = f"no input was found that {ways[decision.what][0 if taken else 1]}"
        stop = self.too_long.get(decision)
        if stop is not None:
            where = f" at line {stop.op.span.line}" if stop.op is not None and stop.op.span is not None else ""
            reason += f" and could be followed ({stop.reason}{where})"
        return Undecided(reason, decision.op)

    def _undecided(self, stop: Undecided) -> Verdict:
        span = stop.op.span if stop.op is not None else None
        where = f" (line {span.line})" if span is not None else ""
        return Verdict(
            self.kernel.name, self.level, "undecided", self._coverage(), reason=stop.reason + where, span=span
        )

    def _show(self, binding: Binding, oracle: Oracle) -> Verdict:
        """Repeat the run that failed, recorded, with the same values."""
        replay = Oracle()
        replay.values = dict(oracle.values)
        try:
            self._follow(binding, replay, record=True)
        except Fault as fault:
            history = self.machine.history
            assert history is not None
            lines = tuple(timeline(fault, history))
            return Verdict(
                self.kernel.name,
                self.level,
                "fault",
                self._coverage(),
                found=(self._diagnostic(fault, lines, binding, oracle),),
                remarks=self._remarks(),
                timeline=lines,
            )
        raise AssertionError("a fault that does not show again")

    def _diagnostic(self, fault: Fault, lines: tuple[str, ...], binding: Binding, oracle: Oracle) -> Diagnostic:
        sizes = [f"{name} = {binding.symbols[name]}" for name in self.bindings.choices]
        if self.bindings.axes:
            sizes.append(f"block {binding.place}")
        sizes += [f"{k[0]}[{', '.join(map(str, k[1:]))}] = {v}" for k, v in list(oracle.values.items())[:8]]
        notes = list(fault.notes)
        if lines:
            title = f"a schedule that shows it{' (' + ', '.join(sizes) + ')' if sizes else ''}:"
            notes.append("\n    ".join([title, *lines]))
        span = fault.site.span if fault.site is not None else None
        labels = [(where, text) for where, text in fault.labels if where is not None]
        return make(fault.code, span, fault.message, labels=labels, notes=notes, hint=fault.hint)
