"""What a simulation tells whoever watches it: who touches which bytes, and what puts one thing behind another.

`Cta.watch` is a `Watcher` or None; without one the hooks cost a test for None. Asynchronous operations are told of when
they are *issued*, with what will end them: that does not depend on when the schedule lets them take effect.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from croq.ir.core import Op
from croq.ir.objects import Buffer, Fragment, Param
from croq.simulate.dtypes import Array, Scalar
from croq.target.cuda import WARP

if TYPE_CHECKING:
    from croq.simulate.barriers import Mbarrier, NamedBarrier
    from croq.simulate.machine import Cta, Mma, Warp

LANES = np.arange(WARP, dtype=np.int8)
LANES.setflags(write=False)


class Units(NamedTuple):
    """Pieces of `size` bytes, by number from the start of the CTA's shared memory or of a parameter's data.

    `lanes`: who touches each piece; None where the warp does it as a whole.
    """

    at: NDArray[np.int64]
    size: int
    lanes: NDArray[np.int8] | None = None


class Place:
    """Some bytes of a buffer or a parameter. Places with equal keys are the same; `units` is made when it is needed."""

    __slots__ = ("_make", "key", "root")

    def __init__(self, root: Buffer | Param, make: Callable[[], Units], key: Hashable = None) -> None:
        self.root = root
        self.key: Hashable = self if key is None else key
        self._make = make

    @property
    def units(self) -> Units:
        return self._make()


def elements(root: Buffer | Param, index: Scalar, size: int, active: Array | None) -> Place:
    """One element a lane, or one for each position of a map: `index` and `active` (None: all) broadcast together."""
    at = np.asarray(index, dtype=np.int64)
    if at.ndim < 2 and (active is None or active.ndim == 1):
        at = at if at.ndim else np.full(WARP, at)
        lanes = LANES
        if active is not None:
            at, lanes = at[active], lanes[active]
    else:
        axes = max(at.ndim, 1 if active is None else active.ndim)
        lanes = LANES.reshape(WARP, *[1] * (axes - 1))
        shape = np.broadcast_shapes(at.shape, lanes.shape, () if active is None else active.shape)
        at, lanes = np.broadcast_to(at, shape), np.broadcast_to(lanes, shape)
        chosen = slice(None) if active is None else np.broadcast_to(active, shape)
        at, lanes = at[chosen].reshape(-1), lanes[chosen].reshape(-1)
    units = Units(at, size, lanes)
    return Place(root, lambda: units, (root, size, at.tobytes(), lanes.tobytes()))


class Watcher:
    """Sees everything that matters to happens-before, in the order in which the simulation does it.

    `lanes` is a bit mask of the lanes that act; where it is missing those of `warp.mask` do. Nothing is done here: a
    watcher overrides what it wants to know.
    """

    def follows(self, root: Buffer | Param) -> bool:
        """Whether accesses of `root` are of interest; no others need be told."""
        return True

    def touch(self, warp: Warp, op: Op, place: Place, *, write: bool, together: bool = False) -> None:
        """Ordinary code reads or writes. `together`: which lane does which part is not for the program to know."""

    def load(self, warp: Warp, lane: int, op: Op, source: Place | None, dest: Place, barrier: Mbarrier) -> None:
        """A TMA load is issued; the phase of `barrier` that is under way counts its bytes."""

    def store(self, warp: Warp, lane: int, op: Op, source: Place, dest: Place | None, group: int) -> None:
        """A TMA store is issued; it will be in the thread's bulk group number `group` (from 1)."""

    def stored(self, warp: Warp, lane: int, op: Op, groups: int, *, read: bool) -> None:
        """The thread's first `groups` bulk groups have read their sources, or (not `read`) are complete."""

    def multiply(self, warp: Warp, mma: Mma, places: Sequence[Place], group: int) -> None:
        """A warp's share of a WGMMA is issued; it will be in the warp's commit group number `group` (from 1)."""

    def multiplied(self, warp: Warp, op: Op, groups: int) -> None:
        """The warp's first `groups` commit groups are complete."""

    def undefined(self, warp: Warp, op: Op, fragment: Fragment) -> None:
        """Registers that nothing has written are read."""

    def initialise(self, warp: Warp, op: Op, barrier: Mbarrier) -> None:
        """One thread initialises one barrier."""

    def initialised(self, warp: Warp, op: Op) -> None:
        """fence.mbarrier_init."""

    def arrive(self, warp: Warp, op: Op, barrier: Mbarrier, lanes: int) -> None:
        """Before the arrival counts."""

    def complete(self, op: Op, barrier: Mbarrier) -> None:
        """The barrier has just completed a phase."""

    def wait(self, warp: Warp, op: Op, barrier: Mbarrier, parity: int, lanes: int) -> None:
        """Before the wait."""

    def passed(self, warp: Warp, op: Op, barrier: Mbarrier, parity: int, lanes: int) -> None:
        """The wait is over."""

    def join(self, warp: Warp, op: Op, barrier: NamedBarrier) -> None:
        """Before the arrival at a named barrier counts."""

    def joined(self, op: Op, barrier: NamedBarrier) -> None:
        """A named barrier has just completed a generation."""

    def leave(self, warp: Warp, op: Op, barrier: NamedBarrier, generation: int) -> None:
        """The warp goes on behind `generation` (from 0)."""

    def converge(self, warp: Warp, op: Op) -> None:
        """__syncwarp."""

    def fence(self, warp: Warp, op: Op) -> None:
        """fence.proxy.async."""

    def end(self, cta: Cta) -> None:
        """All warps have ended."""


def whole(index: Any, size: int) -> Units:
    """Pieces that a warp or the copy engine touches as a whole; a slice or an array of piece numbers."""
    at = np.arange(index.start, index.stop, dtype=np.int64) if isinstance(index, slice) else index.reshape(-1)
    return Units(at, size)
