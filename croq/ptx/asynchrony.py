"""What is in flight: copies that land later, groups that threads commit and wait for, matrix products that still read.

PTX ISA, "Asynchronous copy", "Asynchronous Data Movement: Async proxy", "wgmma.wait_group".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from croq.ptx.faults import PtxFault
from croq.ptx.lanes import Lanes, Mask
from croq.ptx.memory import PAD, SHARED_START, Offsets, Segment, padded
from croq.ptx.syntax import Instruction, Place
from croq.target.cuda import WARP, WARPGROUP

Array = np.ndarray[Any, Any]

WARPS = WARPGROUP // WARP
_WHOLE = 0x0101010101010101
_WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_ALL = {1: 1, 2: 0x0101, 4: 0x01010101, 8: _WHOLE}
_LANDING = "that a copy in flight writes"
_READING = "that an operation in flight still reads"
_OBJECT = "that hold an mbarrier"


class SharedSegment(Segment):
    """Shared memory from address 0, and what asynchronous operations do to it.

    `landing`: bytes that copies in flight write; `reading`: how many operations in flight read each chunk of PAD bytes;
    `objects`: bytes of mbarriers. `busy` is 0 while there are none of these. `ordinary`: bytes that the generic proxy
    wrote and no proxy fence has published to the async proxy. PTX ISA, "Proxies", "fence.proxy.async"
    """

    def __init__(self, size: int) -> None:
        data = np.zeros(padded(SHARED_START + size), np.uint8)
        super().__init__("shared memory", 0, SHARED_START + size, data, begin=SHARED_START, tracked=True)
        self.landing = np.zeros(len(data), np.uint8)
        self.objects = np.zeros(len(data), np.uint8)
        self.reading = np.zeros(len(data) // PAD, np.int32)
        self.ordinary = np.zeros(len(data), np.uint8)
        self.ordinary_words = {n: self.ordinary.view(d) for n, d in _WORDS.items()}
        self.unpublished = False
        self.busy = 0

    def reset(self) -> None:
        assert self.written is not None
        for array in (self.data, self.written, self.landing, self.reading, self.objects, self.ordinary):
            array[:] = 0
        self.unpublished = False
        self.busy = 0

    def load(self, offsets: Offsets, width: int, lanes: Lanes) -> Array:
        if self.busy:
            self._refuse("a read of", self.landing[offsets], offsets, _LANDING)
            self._refuse("a read of", self.objects[offsets], offsets, _OBJECT)
        return super().load(offsets, width, lanes)

    def store(self, offsets: Offsets, width: int, values: Array) -> None:
        if self.busy:
            self._check_overwrite(offsets)
        super().store(offsets, width, values)
        self.ordinary_words[width][offsets // width] = _ALL[width]
        self.unpublished = True

    def fence_proxy(self) -> None:
        """fence.proxy.async: whatever ordinary stores wrote so far may be read by asynchronous operations.

        Of any thread, which is generous: a fence of another thread counts as if a barrier lay between.
        """
        if self.unpublished:
            self.ordinary[:] = 0
            self.unpublished = False

    def _check_overwrite(self, offsets: Offsets) -> None:
        self._refuse("an overwrite of", self.landing[offsets], offsets, _LANDING)
        self._refuse("an overwrite of", self.reading[offsets >> 4], offsets, _READING)
        self._refuse("an overwrite of", self.objects[offsets], offsets, _OBJECT)

    @staticmethod
    def _refuse(what: str, marks: Array, offsets: Offsets, why: str) -> None:
        """Raises PtxFault E-7020 where a mark is set."""
        if marks.any():
            first = int(offsets[int(np.argmax(marks != 0))])
            raise PtxFault("E-7020", f"{what} bytes of shared memory {why}: at address {first:#x}")

    # ---------------------------------------------------------------------------------------------- whole operations
    def begin_write(self, addresses: Offsets) -> None:
        """A copy to these bytes is in flight. Raises PtxFault E-7012, E-7020."""
        self._inside(addresses, 1)
        self._check_overwrite(addresses)
        self.landing[addresses] = 1
        self.busy += len(addresses)

    def end_write(self, addresses: Offsets, data: Array, *, ordinary: bool = False) -> None:
        """It lands; `ordinary` for `cp.async`, which is of the generic proxy."""
        assert self.written is not None
        self.data[addresses] = data
        self.written[addresses] = 1
        self.landing[addresses] = 0
        self.ordinary[addresses] = ordinary
        self.unpublished |= ordinary
        self.busy -= len(addresses)

    def begin_read(self, chunks: Offsets) -> None:
        """Chunks of PAD bytes, by their addresses, are read in flight. Raises PtxFault E-7012, E-7014, E-7020."""
        self._inside(chunks, PAD)
        if self.busy:
            self._refuse("a read of", self.landing[chunks], chunks, _LANDING)
            self._refuse("a read of", self.objects[chunks], chunks, _OBJECT)
        words = chunks >> 3
        marks = self.marks[8]
        missing = (marks[words] != _WHOLE) | (marks[words + 1] != _WHOLE)
        if missing.any():
            first = int(chunks[int(np.argmax(missing))])
            raise PtxFault("E-7014", f"a read of shared memory at address {first:#x}, which nothing has written")
        if self.unpublished:
            words = self.ordinary_words[8][chunks >> 3] | self.ordinary_words[8][(chunks >> 3) + 1]
            why = "that ordinary stores wrote with no fence.proxy.async since"
            self._refuse("an asynchronous read of", words, chunks, why)
        self.reading[chunks >> 4] += 1
        self.busy += len(chunks)

    def end_read(self, chunks: Offsets) -> None:
        self.reading[chunks >> 4] -= 1
        self.busy -= len(chunks)

    def _inside(self, addresses: Offsets, width: int) -> None:
        low, high = int(addresses.min()), int(addresses.max()) + width
        if low < self.begin or high > self.size:
            raise PtxFault(
                "E-7012",
                f"an operation on shared memory from address {low:#x} to {high:#x}, which ends at {self.size:#x}",
            )

    def hold_object(self, address: int, lanes: Lanes) -> None:
        """The 8 bytes at an address become an mbarrier."""
        self.offsets(np.array([address], np.int64), 8, lanes)
        self.objects[address : address + 8] = 1
        self.busy += 1

    def release_object(self, address: int) -> None:
        self.objects[address : address + 8] = 0
        self.busy -= 1


@dataclass(eq=False)
class Flight:
    """Operations of one instruction in flight, one for each of `threads`. `act` makes those of a mask take effect."""

    what: str
    place: Place
    threads: Array
    act: Callable[[Mask], None]
    release: Callable[[Mask], None] | None = None  # called when its thread has waited for it
    landed: Mask = field(init=False)

    def __post_init__(self) -> None:
        self.landed = np.zeros(len(self.threads), dtype=bool)

    def land(self, mask: Mask | None = None) -> None:
        which = ~self.landed if mask is None else mask & ~self.landed
        if which.any():
            self.landed |= which
            self.act(which)


@dataclass(eq=False)
class _Member:
    flight: Flight
    group: Array  # for each of its threads, the how-manieth commit of the thread; -1 before it
    left: Mask  # not waited for yet


@dataclass
class ThreadGroups:
    """Commit groups of each thread: `cp.async`, or bulk copies."""

    threads: int
    committed: Array = field(init=False)
    members: list[_Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.committed = np.zeros(self.threads, np.int64)

    def add(self, flight: Flight) -> None:
        count = len(flight.threads)
        self.members.append(_Member(flight, np.full(count, -1), np.ones(count, dtype=bool)))

    def commit(self, lanes: Lanes) -> None:
        for member in self.members:
            threads = member.flight.threads
            fresh = (member.group < 0) & lanes.present[threads]
            member.group[fresh] = self.committed[threads][fresh]
        self.committed[lanes.sel] += 1

    def wait(self, lanes: Lanes, pending: int, uncommitted: bool = False) -> None:
        """All but the newest `pending` groups of these threads are over; also what no group has, if so asked."""
        for member in self.members:
            threads = member.flight.threads
            over = (member.group < self.committed[threads] - pending) & (uncommitted | (member.group >= 0))
            over &= lanes.present[threads] & member.left
            if over.any():
                member.flight.land(over)
                member.left &= ~over
                if member.flight.release is not None:
                    member.flight.release(over)
        self.members = [m for m in self.members if m.left.any()]

    def open_flights(self) -> Iterator[Flight]:
        return (m.flight for m in self.members)


@dataclass(eq=False)
class _Product:
    """A matrix product that `left` warps have not waited for. `over` is called with those that have, as they do."""

    chunks: Offsets
    place: Place
    over: Callable[[list[int]], None]
    left: set[int]


@dataclass
class MmaGroups:
    """Matrix products that may still read their operands in shared memory, in commit groups of each warp.

    Each warp has a share of a product, and nothing says that the others' are over when its own is; nor which rows of A
    a share reads, so that all of the operands are read until the last warp has waited.
    """

    shared: SharedSegment
    fresh: dict[int, list[_Product]] = field(default_factory=dict)
    groups: dict[int, list[list[_Product]]] = field(default_factory=dict)

    def issue(self, warps: list[int], chunks: Offsets, place: Place, over: Callable[[list[int]], None]) -> None:
        self.shared.begin_read(chunks)
        product = _Product(chunks, place, over, set(warps))
        for warp in warps:
            self.fresh.setdefault(warp, []).append(product)

    def commit(self, lanes: Lanes) -> None:
        for warp in lanes.warps.tolist():
            self.groups.setdefault(warp, []).append(self.fresh.pop(warp, []))

    def wait(self, lanes: Lanes, pending: int) -> None:
        """wgmma.wait_group: all but the newest `pending` groups are over."""
        ended: dict[_Product, list[int]] = {}
        for warp in lanes.warps.tolist():
            groups = self.groups.get(warp, [])
            while len(groups) > pending:
                for product in groups.pop(0):
                    ended.setdefault(product, []).append(warp)
        for product, warps in ended.items():
            product.over(warps)
            product.left.difference_update(warps)
            if not product.left:
                self.shared.end_read(product.chunks)

    def open_places(self) -> Iterator[Place]:
        for part in (*self.fresh.values(), *(g for groups in self.groups.values() for g in groups)):
            yield from (product.place for product in part)


@dataclass
class Alignment:
    """`.aligned` instructions of warpgroups: each of the four warps must execute the same ones, in the same order.

    `log`: those that not all four have executed yet, of each warpgroup, with what must be equal; `past`: how many went
    before; `done`: how many each warp has executed.
    """

    threads: int
    log: dict[int, deque[tuple[Place, Hashable]]] = field(default_factory=dict)
    past: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)

    def parts(self, lanes: Lanes) -> list[Lanes]:
        """Whole warps, those of each warpgroup that execute the same instance of an instruction together.

        Warps that are at one place of a loop may be in different rounds of it.
        """
        found: dict[tuple[int, int], list[int]] = {}
        for warp in lanes.warps.tolist():
            found.setdefault((warp // WARPS, self.done.get(warp, 0)), []).append(warp)
        if len(found) == 1:
            return [lanes]
        return [lanes.where(np.isin(lanes.index // WARP, warps)) for warps in found.values()]

    def note(self, lanes: Lanes, ins: Instruction, what: Hashable = None) -> None:
        """Warps execute an instruction; `what` of it must be equal. Raises PtxFault E-7017, E-7024."""
        for warp in lanes.warps.tolist():
            warpgroup, done = warp // WARPS, self.done.get(warp, 0)
            if (warpgroup + 1) * WARPGROUP > self.threads:
                raise PtxFault("E-7017", f"`{ins.opcode}` in a warpgroup of which the CTA has a part only")
            log, past = self.log.setdefault(warpgroup, deque()), self.past.get(warpgroup, 0)
            if done == past + len(log):
                log.append((ins.place, what))
            self._compare(log[done - past], ins, what)
            self.done[warp] = done + 1
            if all(self.done.get(w, 0) > past for w in range(warpgroup * WARPS, (warpgroup + 1) * WARPS)):
                log.popleft()
                self.past[warpgroup] = past + 1

    @staticmethod
    def _compare(first: tuple[Place, Hashable], ins: Instruction, what: Hashable) -> None:
        if first[0] != ins.place:
            raise PtxFault("E-7017", f"`{ins.opcode}` while another warp of the warpgroup executes another instruction")
        if first[1] != what:
            raise PtxFault("E-7024", f"operands of `{ins.opcode}` differ between the warps of its warpgroup")

    def unmet(self) -> Place | None:
        """An instruction that only a part of a warpgroup has executed."""
        return next((log[0][0] for log in self.log.values() if log), None)
