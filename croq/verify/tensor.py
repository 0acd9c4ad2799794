"""Tensor cores and registers: what is in flight in a warp, and what may be touched meanwhile.

Rules (docs/memory-model.md)
    W1  A WGMMA reads its shared operands and register operand, and uses its accumulator, until its warp has waited for
        the commit group that holds it. Groups complete in the order of their commits.
    W2  Until then nothing reads or writes the accumulator but MMAs that accumulate into it, and nothing writes the
        register operand (E-6003).
    W3  `wgmma.fence` stands between ordinary accesses to these registers and the MMA, and before a warp's first MMA
        (E-6003).
    W4  All four warps of a warpgroup execute the same WGMMAs and register reallocations, in one order (E-6011).
    W5  What is read of a fragment has been written (E-6009).
    W6  The bits of an operand's descriptors address the tile that the operation names (E-6013): what is read is what
        they address.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from croq.ir.hw import WgmmaIssue
from croq.ir.objects import Fragment, View
from croq.ir.operands import Side, operand_chunks
from croq.verify.barrier_faults import partial
from croq.verify.explain import (
    different_collectives,
    in_flight_at_end,
    misaddressed,
    register_fault,
    unfenced_registers,
    unset_fragment,
)
from croq.verify.memory import Access, Memory, Tile, remembered
from croq.verify.sites import Site
from croq.verify.state import Warp
from croq.verify.values import Scalar, Undecided

Key = tuple[Fragment, int]
Operand = tuple[Scalar, tuple[Scalar, ...], tuple[Scalar, ...], Scalar]  # slot, place; terms and first of a `Matrix`


@dataclass(eq=False)
class Mma:
    """One warp's share of a WGMMA in flight."""

    site: Site
    accumulator: Key
    operand: Key | None
    reads: list[Access]
    moment: int


@dataclass(eq=False)
class RegisterUse:
    """What a run of register operations does to one fragment: the first of them that reads, and that writes."""

    frag: Fragment
    slot: int | None  # None: `dynamic` of the call has it
    reads: Site | None = None
    writes: Site | None = None
    declares: bool = False
    needs_value: Site | None = None  # reads what earlier operations must have written

    def __post_init__(self) -> None:
        self.key = None if self.slot is None else (self.frag, self.slot)


@dataclass(eq=False)
class Registers:
    uses: list[RegisterUse] = field(default_factory=list)


class Tensor(Memory):
    def fragment(self, warp: Warp, site: Site, frag: Fragment, slot: Scalar) -> Key:
        if type(slot) is int:
            return (frag, slot)
        return (frag, self.number(slot, warp.classes[0][1], f"the index of `{frag.name}`", site.op))

    def whole(self, warp: Warp, mask: int, site: Site) -> None:
        if mask != warp.base:
            raise partial(warp, site, "all 128 threads of a warpgroup execute it. PTX ISA, wgmma, `.sync.aligned`")

    def collective(self, warp: Warp, mask: int, site: Site) -> None:
        """setmaxnreg."""
        self.whole(warp, mask, site)
        warp.trace.append(site)
        self.work += 1

    def converged(self, warp: Warp, mask: int, site: Site) -> None:
        """An operation that all lanes of a warp execute together."""
        if mask != warp.base:
            raise partial(
                warp, site, "shuffles, ldmatrix and stmatrix are executed by whole warps. PTX ISA, `.sync.aligned`"
            )

    def wgmma_fence(self, warp: Warp, mask: int, site: Site) -> None:
        """W3."""
        self.whole(warp, mask, site)
        warp.dirty.clear()
        warp.fenced = True

    def wgmma_issue(
        self,
        warp: Warp,
        mask: int,
        site: Site,
        acc_slot: Scalar,
        a: Operand,
        b: Operand,
    ) -> None:
        """`a`, `b`: slot and place of each operand; for a register operand the fragment's index."""
        self.whole(warp, mask, site)
        warp.trace.append(site)
        agents = self.acting(warp, mask)
        objects = site.objects
        acc = self.fragment(warp, site, objects["acc"], acc_slot)
        operand = self.fragment(warp, site, objects["frag"], a[0]) if objects["frag"] is not None else None
        sides: tuple[tuple[Side, Operand], ...] = (("a", a), ("b", b))
        places = [
            (self.tile(objects[side], at[0], agents[0], site, warp), side, at)
            for side, at in sides
            if objects[side] is not None
        ]
        moment = -1
        if self.history is not None:
            tiles = [tile for tile, _, _ in places]
            about = {*(t.buffer for t in tiles), acc[0], *([operand[0]] if operand else [])}
            moment = self.note(warp, site, "mma reads " + ", ".join(t.name for t in tiles), (), about)
        self._check_registers(warp, site, acc, operand, moment)
        reads = []
        for tile, side, at in places:
            view: View = objects[side]
            bits = self.box(view, at[1], agents[0], site, warp)
            if isinstance(site.op, WgmmaIssue) and self._addressed(site.op, side, tile, at, agents[0]) != bits:
                raise misaddressed(self, view, "a matrix descriptor", site, warp)
            until = "until its warp has waited for its commit group"
            access = Access(site, warp, agents[0], bits, False, True, None, moment, 0, None, warp.synced, until)
            self.touch(tile, access, agents)
            reads.append(access)
        warp.live.add(acc)
        warp.mmas.open.append(Mma(site, acc, operand, reads, moment))

    def _addressed(self, op: WgmmaIssue, side: Side, tile: Tile, at: Operand, agent: int) -> int:
        """W6: the elements of the tile at the addresses that the descriptors give; 0 where one lies outside."""
        matrix = op.a_matrix if side == "a" else op.b_matrix
        assert matrix is not None
        found = remembered(self.program.cache, (op, side, tile.slot, at[2], at[3]))
        if found is None:
            what = f"the place in `{tile.buffer.name}`"
            terms, first = self.numbers(at[2], agent, what, op), self.number(at[3], agent, what, op)
            key = (op, side, tile.slot, terms, first)
            steps = zip(terms, matrix.start.scales, strict=True)
            start = matrix.start.offset + sum(term * scale for term, scale in steps)
            found = self.program.cache[key] = self.regions.chunks(
                tile.buffer, tile.slot, lambda base: operand_chunks(op, side, base + start, first)
            )
        return found

    def _check_registers(self, warp: Warp, site: Site, acc: Key, operand: Key | None, moment: int) -> None:
        """W2."""
        for key in (acc, operand):
            if key is not None and (key in warp.dirty or not warp.fenced):
                raise unfenced_registers(self, site, warp, key[0], moment)
        if site.objects["accumulate"] and acc not in warp.live:
            raise unset_fragment(self, site, warp, acc[0], moment)
        if operand is not None and operand not in warp.live:
            raise unset_fragment(self, site, warp, operand[0], moment)
        for mma in warp.mmas:
            if acc == mma.operand or operand == mma.accumulator:
                raise register_fault(
                    self, site, warp, acc[0] if acc == mma.operand else mma.accumulator[0], mma, moment
                )

    def wgmma_commit(self, warp: Warp, mask: int, site: Site) -> None:
        """W1."""
        self.whole(warp, mask, site)
        warp.mmas.commit()

    def wgmma_wait(self, warp: Warp, mask: int, site: Site, depth: int) -> None:
        self.whole(warp, mask, site)
        if self.history is not None:
            self.note(warp, site, f"wait for MMAs, {depth} may be pending")
        self.complete(warp, mask, depth)

    def complete(self, warp: Warp, mask: int, depth: int) -> None:
        ends = [(agent, self.times[agent]) for agent in self.acting(warp, mask)]
        for group in warp.mmas.due(depth):
            for mma in group:
                for access in mma.reads:
                    access.ends = list(ends)

    def registers(self, warp: Warp, mask: int, site: Site, dynamic: tuple[Scalar, ...] = ()) -> None:
        """W5: a run of ordinary operations on fragments."""
        self.work += 1
        flying = list(warp.mmas) if warp.mmas.groups or warp.mmas.open else ()
        indices = iter(dynamic)
        uses: Registers = site.objects["registers"]
        for use in uses.uses:
            key = use.key or self.fragment(warp, site, use.frag, next(indices))
            if use.declares:
                warp.live.discard(key)
                warp.dirty.discard(key)
            for mma in flying:
                culprit = use.reads or use.writes if mma.accumulator == key else use.writes
                if culprit is not None and key in (mma.accumulator, mma.operand):
                    moment = self.note(warp, culprit, f"touch {use.frag.name}", (), {use.frag})
                    raise register_fault(self, culprit, warp, use.frag, mma, moment)
            if use.needs_value is not None and key not in warp.live:
                if key in warp.perhaps_live:
                    raise Undecided(f"data decide whether `{use.frag.name}` has been written here", use.needs_value.op)
                moment = self.note(warp, use.needs_value, f"read {use.frag.name}", (), {use.frag})
                raise unset_fragment(self, use.needs_value, warp, use.frag, moment)
            if use.writes is not None:
                (warp.perhaps_live if warp.perhaps else warp.live).add(key)
            if use.reads is not None or use.writes is not None:
                warp.dirty.add(key)

    def check_collectives(self) -> None:
        """W4, and MMAs that nobody has waited for."""
        for warp in self.warps:
            for mma in warp.mmas:
                raise in_flight_at_end(self, mma.site, warp, mma.moment, "`wgmma.wait`")
        for first in range(0, len(self.warps), 4):
            group = self.warps[first : first + 4]
            for warp in group:
                if warp.trace != group[0].trace or (warp.trace and len(group) < 4):
                    raise different_collectives(self, group[0], warp)
