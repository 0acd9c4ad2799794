"""Memory: which accesses meet, and whether something puts one behind the other.

The rules are those of the protocol verifier, for the accesses of one run: memory.M1 to memory.M5 (croq/verify/memory.py
states them). An access is over for whoever has *seen* what ends it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from croq.ir.core import Op
from croq.ir.objects import Buffer, Fragment, Kernel, Param
from croq.simulate.machine import Cta, Mma, Warp
from croq.simulate.races import reports
from croq.simulate.races.areas import Area, Areas, Memory, Outside, Pieces
from croq.simulate.races.clocks import Agent, Clock, merged
from croq.simulate.races.guards import Guards
from croq.simulate.races.handshakes import Handshakes
from croq.simulate.races.records import Entry, History, Record, Touched, cross
from croq.simulate.watch import Place
from croq.target.handshakes import Epoch

Block = tuple[int, int, int]


class Races:
    """Detectors for the blocks of one run. What blocks do to the same global memory is compared here."""

    def __init__(self, kernel: Kernel, memory: Memory | None = None) -> None:
        self.kernel = kernel
        self.areas = Areas(kernel, memory)
        self.guards = Guards(kernel)
        groups = [group for group, _ in (memory or {}).values()]
        self.changing = self.guards.written.union(*(g for g in groups if self.guards.written & set(g)))
        self.touched: dict[Area, dict[tuple[Op, bool], Touched]] = {}

    def __call__(self, block: Block) -> Detector:
        return Detector(self, block)


class Detector(Handshakes):
    """Watches one block. Raises SimulationFault at the first fault."""

    def __init__(self, races: Races, block: Block) -> None:
        super().__init__(races.guards)
        self.races = races
        self.block = block
        self.areas = races.areas
        self._histories: dict[Area, History] = {}
        self._pipelines: dict[Any, int] = {}  # components: of a warp's MMAs, of a thread's bulk stores
        self._loads: dict[tuple[int, int], tuple[Op, Warp]] = {}  # by the completion that counts them

    def follows(self, root: Buffer | Param) -> bool:
        return isinstance(root, Buffer) or root in self.races.changing

    # ------------------------------------------------------------------------------------------------- what is done
    def touch(self, warp: Warp, op: Op, place: Place, *, write: bool, together: bool = False) -> None:
        agents = self.clocks.acting(warp.index, warp.mask)
        if len(agents) > 1 and together:
            record = Record(op, warp.index, "ordinary", write, tuple(agent.now for agent in agents))
            self._one(record, place, merged(agent.seen for agent in agents))
            return
        made = []
        for agent in agents:
            record = Record(op, warp.index, "ordinary", write, (agent.now,))
            record.component, record.synced = agent.component, agent.synced
            record.parts = {(place.key, agent.lanes): self._own(place, agent, len(agents) > 1)}
            made.append((agent, record))
        pieces = self._cut(op, place, [-1] if len(agents) == 1 else [agent.lanes for agent in agents])
        for (agent, record), cut in zip(made, pieces, strict=True):
            self._check(record, cut, agent.seen)
        for (agent, record), cut in zip(made, pieces, strict=True):
            self._insert(record, cut, agent.seen)

    def _own(self, place: Place, agent: Agent, several: bool) -> Any:
        units = self.areas.in_memory(place)
        if not several or units.lanes is None:
            return units
        own = (agent.lanes >> units.lanes.astype("int64")) & 1 != 0
        return type(units)(units.at[own], units.size, units.lanes[own])

    def load(self, warp: Warp, lane: int, op: Op, source: Place | None, dest: Place, barrier: Any) -> None:
        (agent,) = self.clocks.acting(warp.index, 1 << lane)
        end, clock = self.counted(warp, op, barrier, agent), agent.seen
        about = (barrier, end[1])
        self._loads[end] = (op, warp)
        if source is not None:
            self._one(Record(op, warp.index, "load", False, (end,), about), source, clock)
        self._one(Record(op, warp.index, "load", True, (end,), about), dest, clock)

    def store(self, warp: Warp, lane: int, op: Op, source: Place, dest: Place | None, group: int) -> None:
        (agent,) = self.clocks.acting(warp.index, 1 << lane)
        clock = agent.seen
        read, done = (self._pipeline((warp.index, lane, what)) for what in ("read", "done"))
        self._one(Record(op, warp.index, "store", False, ((read, group),), (lane, group)), source, clock)
        if dest is not None:
            self._one(Record(op, warp.index, "store", True, ((done, group),), (lane, group)), dest, clock)

    def stored(self, warp: Warp, lane: int, op: Op, groups: int, *, read: bool) -> None:
        for what in ("read",) if read else ("read", "done"):
            component = self._pipeline((warp.index, lane, what))
            for agent in self.clocks.acting(warp.index, 1 << lane):
                agent.seen[component] = agent.past[component] = max(agent.seen[component], groups)

    def multiply(self, warp: Warp, mma: Mma, places: Sequence[Place], group: int) -> None:
        agents = self.clocks.acting(warp.index, warp.mask)
        clock = agents[0].seen if len(agents) == 1 else merged(agent.seen for agent in agents)
        ends = ((self._pipeline(warp.index), group),)
        for place in places:
            self._one(Record(mma.op, warp.index, "mma", False, ends, mma), place, clock)

    def multiplied(self, warp: Warp, op: Op, groups: int) -> None:
        component = self._pipeline(warp.index)
        for agent in self.clocks.acting(warp.index, warp.mask):
            agent.seen[component] = agent.past[component] = max(agent.seen[component], groups)

    def undefined(self, warp: Warp, op: Op, fragment: Fragment) -> None:
        raise reports.undefined(op, fragment, warp)

    def end(self, cta: Cta) -> None:
        for end, (op, warp) in self._loads.items():
            if not any(agent.seen[end[0]] >= end[1] for agent in self.clocks):
                raise reports.never_waited_for(op, warp, self.barrier_of(end[0]), end[1])
        self._compare_blocks()

    # ----------------------------------------------------------------------------------------------------- helpers
    def _pipeline(self, key: Any) -> int:
        found = self._pipelines.get(key)
        if found is None:
            found = self._pipelines[key] = self.clocks.component()
        return found

    def _cut(self, op: Op, place: Place, lanes: list[int]) -> list[Pieces]:
        try:
            version = -1
            while version != self.areas.version:  # a piece may make units finer
                version = self.areas.version
                found = [self.areas.pieces(place, mask) for mask in lanes]
        except Outside as where:
            raise reports.outside(op, place.root, where.byte) from None
        return found

    def _one(self, record: Record, place: Place, clock: Clock) -> None:
        (pieces,) = self._cut(record.op, place, [-1])
        self._check(record, pieces, clock)
        self._insert(record, pieces, clock)

    def _history(self, area: Area) -> History:
        found = self._histories.get(area)
        if found is None:
            found = self._histories[area] = History(area)
        elif found.unit != area.unit:
            found.refine()
        return found

    # --------------------------------------------------------------------------------------------------- the rules
    def _check(self, new: Record, pieces: Pieces, clock: Clock) -> None:
        write = new.write
        for area, bits in pieces:
            history = self._history(area)
            for entry in history.entries:
                old = entry.record
                if not (write or old.write):
                    continue
                overlap = entry.bits & bits
                if not overlap:
                    continue
                if not old.over(clock):
                    raise reports.conflict(self, history, old, new, overlap)
                if old.kind == "ordinary":
                    self._check_visible(history, old, new, clock)
            if not write and area.shared and bits & ~history.written:
                raise reports.unwritten(self, history, new, bits & ~history.written)

    def _check_visible(self, history: History, old: Record, new: Record, clock: Clock) -> None:
        """M3 and M4, for an ordinary access that is over."""
        if new.asynchronous:
            if old.write and not self._fenced(old, clock):
                raise reports.missing_fence(self, history, old, new)
        elif old.synced == new.synced and cross(old, new):
            raise reports.lanes(self, history, old, new)

    def _fenced(self, old: Record, clock: Clock) -> bool:
        """M3: a fence by the writer behind the write, and known to have come before now."""
        return all(self._fence_behind(end, clock) for end in old.ends)

    def _fence_behind(self, end: Epoch, clock: Clock) -> bool:
        component, value = end
        fences = self.fences.get(component, ())
        at = bisect_left(fences, value)
        return at < len(fences) and clock[component] > fences[at]

    def _insert(self, new: Record, pieces: Pieces, clock: Clock) -> None:
        for area, bits in pieces:
            history = self._history(area)
            if new.write:
                history.written |= bits
                for entry in history.entries:
                    entry.bits &= ~bits
                history.entries = [entry for entry in history.entries if entry.bits]
            elif len(history.entries) > 8:
                for entry in history.entries:
                    if _replaced(entry, new, bits, clock):
                        entry.bits = 0
                history.entries = [entry for entry in history.entries if entry.bits]
            history.add(new, bits)
            if not area.shared:
                key = (new.op, new.write)
                history.seen[key] = history.seen.get(key, 0) | bits
            if len(history.entries) > history.limit:
                self._forget(history)

    def _forget(self, history: History) -> None:
        """Drop what everybody knows to be over: nothing can conflict with it any more."""
        clocks = [agent.seen for agent in self.clocks]
        kept = []
        for entry in history.entries:
            old = entry.record
            visible = not old.write or old.asynchronous or all(self._fenced(old, clock) for clock in clocks)
            if not (visible and all(old.over(clock) for clock in clocks) and self._synced(old)):
                kept.append(entry)
            else:
                entry.bits = 0
        history.entries = kept
        history.limit = max(32, 2 * len(kept))

    def _synced(self, old: Record) -> bool:
        return all(agent.synced != old.synced for agent in self.clocks.agents[old.warp])

    # ------------------------------------------------------------------------------------------------ other blocks
    def _compare_blocks(self) -> None:
        """No block may touch what another writes: they run at the same time, in no order."""
        for area in self._histories:
            if area.shared:
                continue
            history = self._history(area)
            before = self.races.touched.setdefault(area, {})
            for (op, write), bits in history.seen.items():
                for (other, wrote), theirs in before.items():
                    if (write or wrote) and (block := theirs.meets(area, bits)) is not None:
                        raise reports.blocks(area.name, op, self.block, write, other, block, wrote)
            for key, bits in history.seen.items():
                before.setdefault(key, Touched()).add(area, self.block, bits)


def _replaced(entry: Entry, new: Record, bits: int, clock: Clock) -> bool:
    """Whether all that will be ordered behind a read is then ordered behind an earlier one that covers no more."""
    old = entry.record
    if old.write or entry.bits & ~bits or not old.over(clock):
        return False
    return old.synced != new.synced or (old.parts or {}).keys() == (new.parts or {}).keys()
