"""One run of a kernel: every warp followed to its end or to a fault, in one order that stands for all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croq.ir.lanes import lane_flags
from croq.ir.objects import Buffer, Layout, View
from croq.target.cuda import WARP
from croq.verify.barrier_faults import deadlock, partial
from croq.verify.device_text import Nature
from croq.verify.explain import outside
from croq.verify.sites import Site
from croq.verify.state import Warp
from croq.verify.tensor import Tensor
from croq.verify.values import Scalar, Undecided


class Machine(Tensor):
    """Raises Fault, Undecided, or Refine (the partition of lanes is too coarse)."""

    def start(self) -> None:
        self.start_barriers()
        self.start_memory()
        self.start_clocks()

    def execute(self) -> None:
        for warp in self.warps:
            warp.values = [None] * self.program.size
            warp.run = self.program.follow(self, warp, warp.base)
            self.ready.append(warp)
        while self.ready:
            warp = self.pick()
            if not warp.done and not warp.held:
                self._advance(warp)
        if any(not warp.done for warp in self.warps):
            raise deadlock(self)
        self.check_collectives()
        self.check_ends()

    def pick(self) -> Warp:
        """Who goes on next: any choice leads to the same verdict."""
        return self.ready.popleft()

    def _advance(self, warp: Warp) -> None:
        assert warp.run is not None
        try:
            next(warp.run)
        except StopIteration:
            warp.done = True
        except ZeroDivisionError:
            raise Undecided("an index or a count is divided by zero") from None

    def opaque(self, site: Site) -> None:
        raise Undecided("the C++ text here may do anything", site.op)

    def unruled(self, site: Site) -> None:
        raise Undecided(f"there is no rule for the operation `{site.op.NAME}`", site.op)

    def call(self, warp: Warp, mask: int, site: Site) -> None:
        """A C++ function that is not plain arithmetic (croq/verify/device_text.py)."""
        nature: Nature = site.objects["nature"]
        name = site.objects["callee"]
        if nature.kind == "block" and mask != warp.base:
            raise partial(warp, site, f"`{name}` {nature.why}, a barrier of the CTA")
        if nature.kind != "warp":
            raise Undecided(f"the function `{name}`, called here, {nature.why}", site.op)
        if mask != warp.base:
            raise Undecided(f"a part of a warp calls `{name}`, which {nature.why}", site.op)
        self.work += 1

    def unknown_threads(self, site: Site) -> None:
        raise Undecided("which threads execute this depends on run-time values", site.op)

    # ------------------------------------------------------------------------------- maps that touch shared memory
    def mapped(
        self,
        warp: Warp,
        mask: int,
        site: Site,
        slot: Scalar,
        starts: tuple[Scalar, ...],
        given: tuple[Scalar, ...],
    ) -> None:
        """A map's access at the coordinates of each register; `given` for indices that are the same for all."""
        warp.counts[site] = warp.counts.get(site, 0) + 1
        view: View = site.objects["view"]
        for agent in self.acting(warp, mask):
            tile = self.tile(view, slot, agent, site, warp)
            at = tuple(self.number(s, agent, "the place", site.op) for s in starts)
            fixed = tuple(self.number(g, agent, "an index", site.op) for g in given)
            layout: Layout = site.objects["layout"]
            position = warp.index % max(1, layout.threads // WARP)
            key = (site, position, self.lanes[agent], at, fixed)
            bits = self.program.cache.get(key)
            if bits is None:
                bits = self.program.cache[key] = self._covered(site, view, at, fixed, warp, agent)
            if bits:
                self.generic(warp, agent, site, tile, bits, site.objects["write"], ("map", id(layout), at, fixed))

    def _covered(
        self, site: Site, view: View, at: tuple[int, ...], fixed: tuple[int, ...], warp: Warp, agent: int
    ) -> int:
        layout: Layout = site.objects["layout"]
        threads: NDArray[np.int64] = np.flatnonzero(lane_flags(self.lanes[agent])).astype(np.int64) + WARP * warp.index
        coordinates = layout.coordinates(threads % max(layout.threads, 1))
        picks: list[int] = site.objects["picks"]
        assert isinstance(view.root, Buffer)
        index = [
            coordinates[p] if p >= 0 else np.full(coordinates[0].shape, f) for p, f in zip(picks, fixed, strict=True)
        ]
        inside = np.ones(coordinates[0].shape, dtype=np.bool_)
        held = np.full(inside.shape, site.objects["shape"] is not None)
        for at_d, full in zip(coordinates, site.objects["shape"] or (), strict=False):
            held &= at_d < full
        places = []
        for d, (start, full) in enumerate(zip(at, view.root.shape, strict=True)):
            place = index[view.kept.index(d)] + start if d in view.kept else np.full(inside.shape, start)
            inside &= (place >= 0) & (place < full)
            places.append(place)
        if (held & ~inside).any():
            first = np.argwhere(held & ~inside)[0]
            raise outside(self, view, tuple(int(p[tuple(first)]) for p in places), (1,) * len(places), site, warp)
        return self.regions.points(view.root, [p[inside] for p in places]) or 0

    def somewhere(self, warp: Warp, mask: int, site: Site, slot: Scalar, starts: tuple[Scalar, ...]) -> None:
        """An access at a place that is not followed: anywhere in the view, or in all of the buffer's slot."""
        if not site.objects["anywhere"]:
            self.together_tile(warp, mask, site, slot, starts)
            return
        warp.counts[site] = warp.counts.get(site, 0) + 1
        for agent in self.acting(warp, mask):
            tile = self.tile(site.objects["view"], slot, agent, site, warp)
            self.generic(warp, agent, site, tile, tile.whole, site.objects["write"], ("together", site.op))

    def owned_tile(self, warp: Warp, mask: int, site: Site, slot: Scalar, starts: tuple[Scalar, ...]) -> None:
        """Every thread touches the elements that it owns, of a tile spread over fragments of one shape."""
        view: View = site.objects["view"]
        warp.counts[site] = warp.counts.get(site, 0) + 1
        for agent in self.acting(warp, mask):
            tile = self.tile(view, slot, agent, site, warp)
            bits = self.box(view, starts, agent, site, warp)
            self.generic(warp, agent, site, tile, bits, site.objects["write"], ("owned", site.objects["owner"], bits))
