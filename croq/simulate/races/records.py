"""What is remembered of accesses: one record an access, kept in each area as long as a later one could conflict."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

import numpy as np

from croq.ir.core import Op
from croq.simulate.races.areas import Area, spread
from croq.simulate.races.clocks import Clock, knows
from croq.simulate.watch import Units
from croq.target.handshakes import Epoch

Kind = Literal["ordinary", "load", "store", "mma"]
Block = tuple[int, int, int]
Parts = dict[Hashable, Units]  # which lane touches what, by key of the place


class Record:
    """`ends`: the access is certainly over for whoever knows all these epochs."""

    __slots__ = ("component", "ends", "kind", "of", "op", "parts", "synced", "warp", "write")

    def __init__(self, op: Op, warp: int, kind: Kind, write: bool, ends: tuple[Epoch, ...], of: Any = None) -> None:
        self.op = op
        self.warp = warp
        self.kind: Kind = kind
        self.write = write
        self.ends = ends
        self.of = of  # load: (barrier, completion); mma: the Mma; store: (lane, group)
        self.component = -1  # of the agent that made an ordinary access
        self.synced = -1 - id(self)  # equal to no other's
        self.parts: Parts | None = None

    @property
    def asynchronous(self) -> bool:
        return self.kind != "ordinary"

    def over(self, clock: Clock) -> bool:
        return knows(clock, self.ends)


class Entry:
    """A record in one area: the units on which nothing newer has taken its place."""

    __slots__ = ("bits", "record")

    def __init__(self, record: Record, bits: int) -> None:
        self.record = record
        self.bits = bits


class History:
    """What has been done to one area."""

    __slots__ = ("area", "entries", "limit", "open", "seen", "unit", "written")

    def __init__(self, area: Area) -> None:
        self.area = area
        self.unit = area.unit
        self.entries: list[Entry] = []
        self.open: dict[tuple[Op, int, bool], Entry] = {}  # the last ordinary one of each operation and agent
        self.written = 0
        self.seen: dict[tuple[Op, bool], int] = {}  # of global memory: all units by operation, for other blocks
        self.limit = 32

    def refine(self) -> None:
        """The area has begun to count in smaller units."""
        count, factor = self.area.size // self.unit, self.unit // self.area.unit
        for entry in self.entries:
            entry.bits = spread(entry.bits, count, factor)
        self.written = spread(self.written, count, factor)
        self.seen = {key: spread(bits, count, factor) for key, bits in self.seen.items()}
        self.unit = self.area.unit

    def add(self, record: Record, bits: int) -> None:
        """Put a record in; loops over elements make many of one epoch, which are taken together."""
        if record.asynchronous or record.component < 0:
            self.entries.append(Entry(record, bits))
            return
        key = (record.op, record.component, record.write)
        before = self.open.get(key)
        if before is not None and before.bits:
            old = before.record
            if old.ends == record.ends and old.synced == record.synced:
                before.bits |= bits
                old.parts = old.parts and record.parts and {**old.parts, **record.parts}
                return
        entry = self.open[key] = Entry(record, bits)
        self.entries.append(entry)


class Touched:
    """What the blocks so far have done to one area of global memory by one operation."""

    __slots__ = ("all", "blocks", "unit")

    def __init__(self) -> None:
        self.unit = 0
        self.all = 0
        self.blocks: list[tuple[Block, int]] = []

    def _refine(self, area: Area) -> None:
        if self.unit not in (0, area.unit):
            count, factor = area.size // self.unit, self.unit // area.unit
            self.all = spread(self.all, count, factor)
            self.blocks = [(block, spread(bits, count, factor)) for block, bits in self.blocks]
        self.unit = area.unit

    def add(self, area: Area, block: Block, bits: int) -> None:
        self._refine(area)
        self.all |= bits
        self.blocks.append((block, bits))

    def meets(self, area: Area, bits: int) -> Block | None:
        """The first block that touched some of these units."""
        self._refine(area)
        if not self.all & bits:
            return None
        return next(block for block, theirs in self.blocks if theirs & bits)


def cross(old: Record, new: Record) -> bool:
    """Whether lanes that have not synchronised touch something of one another."""
    if old.parts is None or new.parts is None:
        return True
    for key, theirs in new.parts.items():
        for other, ours in old.parts.items():
            if key != other and _differ(ours, theirs):
                return True
    return False


def _differ(a: Units, b: Units) -> bool:
    """Whether some byte is touched by one set of lanes in `a` and by another in `b`."""
    unit = min(a.size, b.size)
    low = min(int(a.at.min()) * a.size, int(b.at.min()) * b.size) // unit
    masks = [_masks(units, unit, low) for units in (a, b)]
    shared = min(len(m) for m in masks)
    first, second = masks[0][:shared], masks[1][:shared]
    return bool(((first != second) & (first != 0) & (second != 0)).any())


def _masks(units: Units, unit: int, low: int) -> Any:
    """Which lanes touch each unit from `low` on, as bit masks."""
    if units.lanes is None:
        lanes = np.full(len(units.at), -1, dtype=np.int64)
    else:
        lanes = np.left_shift(np.int64(1), units.lanes.astype(np.int64))
    factor = units.size // unit
    at = (units.at * factor - low)[:, None] + np.arange(factor)
    found = np.zeros(int(at.max()) + 1, dtype=np.int64)
    np.bitwise_or.at(found, at.reshape(-1), np.repeat(lanes, factor))
    return found
