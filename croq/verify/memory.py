"""Shared memory: who touches which elements when, by which proxy, and what must lie between two touches.

Rules (docs/memory-model.md)
    M1  Two accesses of one element, one of them a write, are ordered: the first is over before the second begins.
    M2  An ordinary access is over when it is made. A TMA load is over when the phase that counts its bytes completes; a
        TMA store has read its source when its thread has waited for its bulk group; a WGMMA has read its operands when
        its warp has waited for its commit group.
    M3  What was written by ordinary stores is visible to TMA and WGMMA only behind a `fence.proxy.async` that the
        writer executes before it lets others go on.
    M4  Lanes of a warp are in no order with one another until a barrier, unless each touches what is its own.
    M5  Every element that is read has been written. Slots and places lie inside the buffer.
    M7  A TMA box lies at the addresses of the part of the buffer that the operation names (E-6013).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.ir.lanes import lane_flags
from croq.ir.objects import Buffer, Layout, View, slot_name
from croq.target import swizzle
from croq.target.cuda import WARP
from croq.target.handshakes import CommitGroups, Epoch
from croq.verify.barriers import Barriers
from croq.verify.clocks import LOG_WIDTH, MOST, Clock, known
from croq.verify.contents import Contents, Key, Store
from croq.verify.explain import conflict, in_flight_at_end, misaddressed, missing_fence, outside, uninitialised
from croq.verify.regions import Regions
from croq.verify.sites import Load, Site
from croq.verify.state import Warp
from croq.verify.values import UNKNOWN, Scalar, Undecided, lanes

Agents = tuple[int, ...]
Places = tuple[Scalar, ...]


@dataclass(eq=False, slots=True)
class Access:
    """One access in flight or over. `ends`: epochs of which each one shows that it is over; None while it is not."""

    site: Site
    warp: Warp
    agent: int
    bits: int
    write: bool
    asynchronous: bool
    ends: list[Epoch] | None
    moment: int
    instance: int = 0
    lanes: Any = None  # equal keys: each lane touches the same elements
    synced: int = 0
    until: str = ""  # what ends it, in words
    parts: dict[Any, int] | None = None  # elements by key of `lanes`, once accesses have been joined
    latest: int = 0  # elements of the last instance, once accesses have been joined
    kept: bool = True
    begun: int = 0  # the agent's time when it began
    maybe: bool = False  # data decide whether it is made


@dataclass(eq=False)
class Tile:
    """One slot of a shared buffer."""

    buffer: Buffer
    slot: int
    whole: int
    accesses: list[Access] = field(default_factory=list)
    written: int = 0
    perhaps: int = 0  # written, or not: data decide
    open: dict[tuple[Site, int], Access] = field(default_factory=dict)  # the last ordinary one of each site and agent
    contents: Contents = field(default_factory=Contents)  # where control depends on the buffer

    @property
    def name(self) -> str:
        return slot_name(self.buffer, self.slot)


class Memory(Barriers):
    proxies = True  # whether ordinary stores and the async proxy are told apart
    tiles: dict[Buffer, list[Tile]]
    bulk: defaultdict[int, CommitGroups[Access]]  # stores, by agent

    def start_memory(self) -> None:
        self.bulk = defaultdict(CommitGroups)
        self.stores: Counter[tuple[Site, int]] = Counter()  # executions of what writes
        self.tiles = {
            b: [Tile(b, slot, Regions.whole(b)) for slot in range(b.slots)]
            for b in self.kernel.buffers
            if b.storage == "shared"
        }

    # -------------------------------------------------------------------------------------------------- the rules
    def touch(self, tile: Tile, new: Access, agents: Agents) -> None:
        """M1 and M3 to M5 for one access that begins now, by threads of which all of `agents` speak."""
        clocks = [self.vc[a] for a in agents]
        new.begun, new.maybe = self.times[new.agent], bool(new.warp.perhaps)
        bits, write = new.bits, new.write
        kept = []
        for old in tile.accesses:
            overlap = bits if old.bits is bits else old.bits & bits  # places are made once
            opposed = overlap and (write or old.write)
            covered = overlap == old.bits and (write or not old.write)
            over = (opposed or covered) and _over(old, agents, clocks)
            if opposed and not _together(old, new, overlap):
                if not over:
                    raise self._clash(tile, old, new)
                if self.proxies and new.asynchronous and not old.asynchronous and not self._fenced(old, clocks):
                    raise missing_fence(self, tile, old, new)
                if old.agent == new.agent and not new.asynchronous and self._unsynchronised(old, new, overlap):
                    raise self._clash(tile, old, new)
            if covered and over and _outlived(old, new):
                old.kept = False
            else:
                kept.append(old)
        if not write and tile.written is not tile.whole and bits & ~tile.written:
            raise self._unwritten(tile, new)
        if new.asynchronous or not _joined(tile, new):
            kept.append(new)
        tile.accesses = kept
        if write:
            self._written(tile, new)

    def _clash(self, tile: Tile, old: Access, new: Access) -> Exception:
        if old.maybe and new.maybe:
            return Undecided(f"data decide which of two accesses of `{tile.buffer.name}` are made", new.site.op)
        return conflict(self, tile, old, new)

    def _unwritten(self, tile: Tile, new: Access) -> Exception:
        if new.bits & ~tile.written & tile.perhaps:
            return Undecided(f"data decide whether `{tile.buffer.name}` has been written here", new.site.op)
        return uninitialised(self, tile, new)

    def _written(self, tile: Tile, new: Access) -> None:
        if new.maybe:
            tile.perhaps |= new.bits
        elif tile.written is not tile.whole:
            tile.written |= new.bits
            if tile.written == tile.whole:
                tile.written = tile.whole
        if tile.buffer in self.program.consulted:
            self._write(tile, new)

    def _fenced(self, old: Access, clocks: list[Clock]) -> bool:
        """M3: not a write, or a fence by the writer behind it, known to have come before now."""
        if not old.write:
            return True
        fences = self.fences[old.agent]
        assert old.ends is not None
        at = bisect_left(fences, old.ends[0][1])
        return at < len(fences) and any(known(clock, old.agent) > fences[at] for clock in clocks)

    def _unsynchronised(self, old: Access, new: Access, overlap: int) -> bool:
        """M4."""
        if old.asynchronous or self.lanes[old.agent].bit_count() == 1 or old.synced < new.warp.synced:
            return False
        if new.lanes is None:
            return True
        if old.parts is None:
            return bool(old.lanes != new.lanes)
        return any(bits & overlap for key, bits in old.parts.items() if key != new.lanes)

    # ------------------------------------------------------------------------------------- what control depends on
    def _write(self, tile: Tile, access: Access) -> None:
        site, agent = access.site, access.agent
        self.stores[site, agent] += 1
        store = Store(site.number, agent, self.stores[site, agent], f"{site.place} by warp {access.warp.index}")
        tile.contents.write(access.bits, store)

    def _know(self, tile: Tile, places: list[NDArray[np.int64]], values: Scalar) -> None:
        """What lanes have just stored, each at its place."""
        elements = np.ravel_multi_index(tuple(places), tile.buffer.shape)
        for element, value in zip(elements.tolist(), np.broadcast_to(values, elements.shape).tolist(), strict=True):
            tile.contents.know(1 << element, int(value))

    def stored(self, load: Load, warp: Warp, mask: int, slot: Scalar, at: tuple[Scalar, ...]) -> Scalar:
        """What the lanes have just read. As for `load`, of memory that somebody else has written."""
        if not any(isinstance(x, np.ndarray) for x in (slot, *at)):
            value, key = self._consult(load, warp, (slot, *at))
            self._remember(warp, load, key)
            return value
        columns = [lanes(x).tolist() for x in (slot, *at)]
        active = lane_flags(mask)
        found = [
            self._consult(load, warp, place) if active[n] else (0, None)
            for n, place in enumerate(zip(*columns, strict=True))
        ]
        keys = [key for _, key in found]
        self._remember(warp, load, keys if all(key or not on for key, on in zip(keys, active, strict=True)) else None)
        return np.array([value for value, _ in found])

    @staticmethod
    def _remember(warp: Warp, load: Load, key: Any) -> None:
        if key is not None:
            warp.reads[load.op.result] = key
        else:
            warp.reads.pop(load.op.result, None)  # nothing that inputs could be solved for

    def _consult(self, load: Load, warp: Warp, place: tuple[int, ...]) -> tuple[int, Key | None]:
        """The value, and the key under which the oracle has it, if it has."""
        buffer = load.op.view.root
        assert isinstance(buffer, Buffer)
        element = int(np.ravel_multi_index(place[1:], buffer.shape))
        content = self.tiles[buffer][place[0]].contents.at(element)
        if content.value is not None:
            return content.value, None
        name = (buffer.name, *(place if buffer.slots > 1 else place[1:]))
        usual = content.usual(lambda store: self.oracle.values.get((*name, store)))
        key = (*name, content.store)
        return self.oracle.value(self, load, key, warp, usual), key

    # ------------------------------------------------------------------------------------------------------- places
    def tile(self, view: View, slot: Scalar, agent: int, site: Site, warp: Warp) -> Tile:
        buffer = view.root
        assert isinstance(buffer, Buffer)
        number = slot if type(slot) is int else self.number(slot, agent, f"the slot of `{buffer.name}`", site.op)
        if not 0 <= number < buffer.slots:
            self.check_slot(buffer, number, site, warp)
        return self.tiles[buffer][number]

    def box(self, view: View, starts: tuple[Scalar, ...], agent: int, site: Site, warp: Warp) -> int:
        key = (id(view), starts)
        found = remembered(self.regions.placed, key)
        if found is not None:
            return found
        buffer = view.root
        assert isinstance(buffer, Buffer)
        at = self.numbers(starts, agent, f"the place in `{buffer.name}`", site.op)
        found = self.regions.box(buffer, at, self.regions.extents(view))
        if found is None:
            raise outside(self, view, at, self.regions.extents(view), site, warp)
        if at is starts:
            self.regions.placed[key] = found
        return found

    def generic(self, warp: Warp, agent: int, site: Site, tile: Tile, bits: int, write: bool, key: Any = None) -> None:
        """An ordinary access by the lanes of one agent."""
        moment = -1
        if self.history is not None:
            moment = self.note(warp, site, f"{'write' if write else 'read'} {tile.name}", (), {tile.buffer})
        now: list[Epoch] = [(agent, self.times[agent])]
        instance = warp.counts.get(site, 0)
        self.touch(
            tile,
            Access(site, warp, agent, bits, write, False, now, moment, instance, key, warp.synced),
            (agent,),
        )

    # -------------------------------------------------------------------------------------- called by generated code
    def proxy_fence(self, warp: Warp, mask: int, site: Site) -> None:
        for agent in self.acting(warp, mask):
            self.fences[agent].append(self.times[agent])
            self.step(agent)
        self.note(warp, site, "fence.proxy.async")

    def _named(self, warp: Warp, site: Site, tile: Tile, starts: Places, terms: Places, agent: int) -> int:
        """M7: the elements of a TMA box, which lie at its addresses."""
        view, start = site.objects["view"], site.objects["start"]
        bits = self.box(view, starts, agent, site, warp)
        found = remembered(self.program.cache, (site.op, tile.slot, terms))
        if found is None:
            terms = self.numbers(terms, agent, f"the place in `{tile.buffer.name}`", site.op)
            key = (site.op, tile.slot, terms)
            first = start.offset + sum(term * scale for term, scale in zip(terms, start.scales, strict=True))
            lines = np.arange(0, site.objects["bytes"], swizzle.CHUNK, dtype=np.int64) + first
            width = site.objects["map"].swizzle
            found = self.program.cache[key] = self.regions.chunks(
                tile.buffer, tile.slot, lambda base: swizzle.swizzle_offset(base + lines, width)
            )
        if found != bits:
            raise misaddressed(self, view, "a TMA box", site, warp)
        return bits

    def load_tile(
        self, warp: Warp, mask: int, site: Site, slot: Scalar, starts: Places, terms: Places, bar_slot: Scalar
    ) -> None:
        """One TMA instruction."""
        view: View = site.objects["view"]
        for agent in self.acting(warp, mask):
            tile = self.tile(view, slot, agent, site, warp)
            bits = self._named(warp, site, tile, starts, terms, agent)
            bar = self.bar(warp, agent, site, bar_slot)
            moment = -1
            if self.history is not None:
                text = f"load {tile.name}, counts on {bar.name} #{bar.done + 1}"
                moment = self.note(warp, site, text, (bar.moment,), {tile.buffer, bar.event})
            size = site.objects["bytes"] * self.lanes[agent].bit_count()
            end = self.land(warp, agent, site, bar, size, moment)
            until = f"until completion {bar.done + 1} of {bar.name}"
            self.touch(tile, Access(site, warp, agent, bits, True, True, [end], moment, until=until), (agent,))
            self.advance(bar, site, warp)

    def store_tile(self, warp: Warp, mask: int, site: Site, slot: Scalar, starts: Places, terms: Places) -> None:
        view: View = site.objects["view"]
        for agent in self.acting(warp, mask):
            tile = self.tile(view, slot, agent, site, warp)
            bits = self._named(warp, site, tile, starts, terms, agent)
            moment = -1
            if self.history is not None:
                moment = self.note(warp, site, f"store {tile.name}", (), {tile.buffer})
            until = "until its thread has waited for its bulk group"
            access = Access(site, warp, agent, bits, False, True, None, moment, until=until)
            self.touch(tile, access, (agent,))
            self.bulk[agent].open.append(access)

    def bulk_commit(self, warp: Warp, mask: int) -> None:
        for agent in self.acting(warp, mask):
            self.bulk[agent].commit()

    def bulk_wait(self, warp: Warp, mask: int, site: Site, depth: int) -> None:
        self.note(warp, site, f"wait for bulk groups, {depth} may be pending")
        for agent in self.acting(warp, mask):
            for group in self.bulk[agent].due(depth):
                for access in group:
                    access.ends = [(agent, self.times[agent])]

    def together_tile(
        self,
        warp: Warp,
        mask: int,
        site: Site,
        slot: Scalar,
        starts: tuple[Scalar, ...],
    ) -> None:
        """A tile that the threads of the operation read or write together (copies, fills): parts of it each."""
        view: View = site.objects["view"]
        warp.counts[site] = warp.counts.get(site, 0) + 1
        every = range(view.root.slots) if site.objects.get("all") and isinstance(view.root, Buffer) else [slot]
        for agent in self.acting(warp, mask):
            for number in every:
                tile = self.tile(view, number, agent, site, warp)
                bits = self.box(view, starts, agent, site, warp)
                self.generic(warp, agent, site, tile, bits, site.objects["write"], ("together", site.op))

    def element(
        self, warp: Warp, mask: int, site: Site, slot: Scalar, at: tuple[Scalar, ...], value: Scalar = UNKNOWN
    ) -> None:
        """One element a lane. `value`: of a store."""
        self.work += 8
        view: View = site.objects["view"]
        warp.counts[site] = warp.counts.get(site, 0) + 1
        for agent in self.acting(warp, mask):
            tile = self.tile(view, slot, agent, site, warp)
            active = lane_flags(self.lanes[agent])
            places = [lanes(self.known(site, x))[active] for x in at]
            key = ("element", tile.buffer, *(p.tobytes() for p in places))
            bits = self.program.cache.get(key)
            if bits is None:
                bits = self.regions.points(tile.buffer, places)
                if bits is None:
                    raise outside(self, view, tuple(int(p.max()) for p in places), (1,) * len(places), site, warp)
                self.program.cache[key] = bits
            self.generic(warp, agent, site, tile, bits, site.objects["write"], key)
            known = value is not UNKNOWN and not warp.perhaps
            if known and site.objects["write"] and tile.buffer in self.program.consulted:
                self._know(tile, places, value[active] if isinstance(value, np.ndarray) else value)

    def fragment_tile(self, warp: Warp, mask: int, site: Site, slot: Scalar, starts: tuple[Scalar, ...]) -> None:
        """Each lane moves the elements of a fragment that it holds: from the view or to it."""
        view: View = site.objects["view"]
        warp.counts[site] = warp.counts.get(site, 0) + 1
        for agent in self.acting(warp, mask):
            tile = self.tile(view, slot, agent, site, warp)
            self.box(view, starts, agent, site, warp)  # M5: inside as a whole
            at = self.numbers(starts, agent, "the place", site.op)
            layout: Layout = site.objects["layout"]
            key = (id(layout), view.root, view.kept, warp.index % max(1, layout.threads // WARP), self.lanes[agent], at)
            bits = self.program.cache.get(key)
            if bits is None:
                bits = self.program.cache[key] = self._held(layout, view, at, warp, agent)
            self.generic(warp, agent, site, tile, bits, site.objects["write"], (site.objects["lanes"], key[0], at))

    def _held(self, layout: Layout, view: View, at: tuple[int, ...], warp: Warp, agent: int) -> int:
        threads: NDArray[np.int64] = np.flatnonzero(lane_flags(self.lanes[agent])).astype(np.int64) + WARP * warp.index
        coordinates = layout.coordinates(threads % max(layout.threads, 1))
        extents = self.regions.extents(view)
        inside = np.ones(coordinates[0].shape, dtype=np.bool_)
        for d, at_d in zip(view.kept, coordinates, strict=True):
            inside &= at_d < extents[d]
        places = []
        for d, start in enumerate(at):
            if d in view.kept:
                places.append(coordinates[view.kept.index(d)][inside] + start)
            else:
                places.append(np.full(int(inside.sum()), start, dtype=np.int64))
        assert isinstance(view.root, Buffer)
        found = self.regions.points(view.root, places)
        assert found is not None
        return found

    # -------------------------------------------------------------------------------------------------- at the end
    def check_ends(self) -> None:
        """What is in flight when the CTA ends goes on in memory that belongs to somebody else."""
        for bulk in self.bulk.values():
            for access in bulk:
                raise in_flight_at_end(self, access.site, access.warp, access.moment, "`bulk.wait`")
        for bars in self.bars.values():
            for bar in bars:
                if bar.last_load is not None:
                    completion, site, moment = bar.last_load
                    if all(known(clock, bar.component) < completion for clock in self.vc):
                        raise in_flight_at_end(
                            self, site, None, moment, f"wait for completion {completion} of {bar.name}"
                        )


def remembered(cache: Mapping[Any, int], key: tuple[Any, ...]) -> int | None:
    """What is remembered of a place; nothing where lanes differ, for arrays are no keys."""
    try:
        return cache.get(key)
    except TypeError:
        return None


def _over(old: Access, agents: Agents, clocks: list[Clock]) -> bool:
    """M2, as far as one of the agents knows, each of which knows all that it did itself."""
    ends = old.ends
    if ends is None:
        return False
    for component, value in ends:
        if component in agents:
            return True
        place = component << LOG_WIDTH
        for clock in clocks:
            if clock >> place & MOST >= value:  # `known`, at the place where most time goes
                return True
    return False


def _outlived(old: Access, new: Access) -> bool:
    """Whether all that will be ordered behind `new` is then ordered behind `old`, which is over and covers no more."""
    if new.warp.perhaps:
        return False
    return old.agent != new.agent or old.synced < new.synced or (old.parts is None and old.lanes == new.lanes)


def _together(old: Access, new: Access, overlap: int) -> bool:
    """Elements that one thread owns, or parts of one execution of one operation: by the same warp, or of a tile that
    warps move together."""
    if new.lanes is not None and new.lanes[0] == "owned":
        own = old.bits if old.parts is None and old.lanes == new.lanes else (old.parts or {}).get(new.lanes, 0)
        if not overlap & ~own:
            return True
    if old.site is not new.site or old.instance != new.instance or new.instance == 0:
        return False
    if old.parts is not None and overlap & ~old.latest:
        return False
    return old.warp is new.warp or bool(new.site.objects.get("together"))


def _joined(tile: Tile, new: Access) -> bool:
    """Take an ordinary access together with the last one of the same site, agent and epoch: loops over elements make
    many."""
    old = tile.open.get((new.site, new.agent))
    if old is None or not old.kept or old.ends != new.ends or old.synced != new.synced:
        tile.open[new.site, new.agent] = new
        return False
    if old.parts is None:
        old.parts = {old.lanes: old.bits}
        old.latest = old.bits
    old.parts[new.lanes] = old.parts.get(new.lanes, 0) | new.bits
    old.latest = new.bits if old.instance != new.instance else old.latest | new.bits
    old.bits |= new.bits
    old.instance, old.moment = new.instance, new.moment
    return True
