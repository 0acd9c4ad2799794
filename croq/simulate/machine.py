"""The state of one CTA while it runs: warps, warpgroups, operations in flight."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from croq.ir.core import Op
from croq.ir.lanes import lane_flags
from croq.ir.objects import Buffer, Param
from croq.simulate.barriers import Barriers, Mbarrier, NamedBarrier
from croq.simulate.dtypes import Array, Scalar
from croq.simulate.faults import fault
from croq.simulate.memory import Shared
from croq.simulate.registers import Registers
from croq.simulate.watch import Watcher, elements
from croq.target.cuda import WARP
from croq.target.handshakes import CommitGroups

if TYPE_CHECKING:
    from croq.simulate.compiler import Program

ALL_LANES = (1 << WARP) - 1
WEIGHTS = (1.0, 1.0, 0.1, 0.01)  # random schedules: how soon an operation in flight takes effect


@lru_cache(maxsize=4096)
def lanes_of(mask: int) -> tuple[int, ...]:
    return tuple(lane for lane in range(WARP) if mask >> lane & 1)


@dataclass
class Waiting:
    """Why a warp does not go on: `ready` says when it may, `describe` what it waits for (after "waits for")."""

    op: Op
    ready: Callable[[], bool]
    describe: Callable[[], str]
    barrier: Mbarrier | None = None  # when it is one
    named: NamedBarrier | None = None


Run = Generator["Waiting | None", None, None]  # None: the warp could go on, others may come first


@dataclass(frozen=True)
class Policy:
    """When things happen that the chip leaves open. Exactly one of the four."""

    name: str
    eager: bool = False
    lazy: bool = False
    seed: int | None = None  # random
    hostile: int | None = None  # number of the plan

    @property
    def stepwise(self) -> bool:
        """Whether others may come between any two operations of a warp, and operations in flight at any time."""
        return self.seed is not None or self.hostile is not None


@dataclass(eq=False)
class _InFlight:
    """An asynchronous operation of a warp; `run` makes its effects."""

    of: Warp
    op: Op
    run: Callable[[Any], None]
    done: bool = field(default=False, kw_only=True)
    weight: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        self.weight = self.of.cta.draw_weight()

    def complete(self) -> None:
        if not self.done:
            self.done = True
            self.run(self)

    def __str__(self) -> str:
        return f"{self.op.NAME} of warp {self.of.index}"


@dataclass(eq=False)
class Pending(_InFlight):
    """A TMA load or store."""

    lane: int = 0


@dataclass(eq=False)
class Mma(_InFlight):
    """One warp's share of a WGMMA that it has issued. It holds its registers until it is waited for."""

    accumulator: Registers
    operand: Registers | None
    future: str | None = None  # the source's name for it, once it is committed

    def release(self) -> None:
        self.accumulator.writing -= 1
        if self.operand is not None:
            self.operand.reading -= 1


TOGETHER = "WGMMAs and `setmaxnreg` are executed by all four warps of a warpgroup, in the same order"


class Warpgroup:
    """Four warps that execute WGMMAs and `setmaxnreg` together: the n-th one of each must be the same operation."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.warps: list[Warp] = []
        self._trace: deque[Op] = deque()
        self._forgotten = 0

    def issue(self, warp: Warp, op: Op) -> None:
        position = warp.issued - self._forgotten
        if position < len(self._trace):
            if self._trace[position] is not op:
                raise fault(
                    "E-5020",
                    op,
                    f"the warps of warpgroup {self.index} do not execute the same collective operations",
                    labels=[
                        (s, "another warp executed this one in its place") for s in [self._trace[position].span] if s
                    ],
                    notes=[TOGETHER],
                )
        else:
            self._trace.append(op)
        warp.issued += 1
        while self._forgotten < min(w.issued for w in self.warps):
            self._trace.popleft()
            self._forgotten += 1

    def end(self) -> None:
        """The CTA has ended: what one warp has executed, all have."""
        for op in self._trace:
            late = [str(w.index) for w in self.warps if w.issued == self._forgotten]
            who = f"warp{'s' if len(late) > 1 else ''} {', '.join(late)} of warpgroup {self.index}"
            raise fault("E-5020", op, f"`{op.NAME}` is not executed by {who}", notes=[TOGETHER])


class Warp:
    """32 lanes. `mask`: the lanes that execute the current code; `v`: their values, by the number the compiler gave."""

    def __init__(self, cta: Cta, index: int, lanes: int) -> None:
        self.cta = cta
        self.index = index
        self.base = self.mask = self.alive = lanes
        self.broken = 0  # lanes that have left the innermost loop
        self.v: list[Any] = []
        self.element_mask: Array | None = None  # inside a map: which elements are active
        self.columns: slice | None = None  # inside a map that goes column by column
        self.declared_mask: dict[int, int] = {}
        self.fragments: dict[Any, Registers] = {}
        self.local: dict[Any, Array] = {}  # local buffers, flat
        self.unfenced: set[Registers] = set()  # written by ordinary code since the last wgmma.fence
        self.fenced = False
        self.group: Warpgroup | None = None
        self.issued = 0
        self.queue: deque[Mma] = deque()  # not executed yet
        self.mmas: CommitGroups[Mma] = CommitGroups()
        self.bulk: defaultdict[int, CommitGroups[Pending]] = defaultdict(CommitGroups)  # stores, by lane
        self.steps = 0
        self.passed: dict[Mbarrier, int] = {}  # waits that are over
        self.ready_since = 0  # random schedules: the turn since when it could go on; 0: not known
        self.waiting: Waiting | None = None
        self.run: Run | None = None

    def __str__(self) -> str:
        return f"warp {self.index}"

    @property
    def threads(self) -> NDArray[np.int64]:
        return WARP * self.index + np.arange(WARP)

    # ------------------------------------------------------------------------------------------ lanes
    def active(self) -> NDArray[np.bool_] | None:
        """The active lanes; None when all 32 are."""
        return None if self.mask == ALL_LANES else lane_flags(self.mask)

    def uniform(self, value: Scalar, op: Op, what: str) -> Any:
        """The one value that all active lanes have."""
        if type(value) is not np.ndarray:
            return value
        values = value[lane_flags(self.mask)] if self.mask != ALL_LANES else value
        first = values[0]
        if not (values == first).all():
            raise fault(
                "E-5023",
                op,
                f"{what} differs between the lanes of warp {self.index}",
                notes=[f"it ranges from {values.min()} to {values.max()}"],
            )
        return first.item()

    def whole(self, op: Op, what: str) -> None:
        """A collective of the warp needs all its lanes."""
        if self.mask != self.base:
            count = self.mask.bit_count()
            raise fault(
                "E-5020",
                op,
                f"{what} is executed by {count} of the {self.base.bit_count()} lanes of warp {self.index}",
                notes=["all lanes of the warp must execute it together"],
                hint="move it out of the code that only a part of a warp runs",
            )

    def step(self, op: Op) -> None:
        self.steps += 1
        if self.steps > self.cta.limit:
            raise fault(
                "E-5011",
                op,
                f"no end after {self.cta.limit} steps of warp {self.index}",
                notes=["a step is an iteration of a loop"],
                hint="is the loop's condition ever false? The limit is an argument of the simulation",
            )

    # ------------------------------------------------------------------------------------------ watching
    def touch(self, root: Buffer | Param, index: Any, size: int, active: Array | None, op: Op, *, write: bool) -> None:
        """Tell a watcher of one element a lane (or a position of a map): `index` and `active` broadcast together."""
        watch = self.cta.watch
        if watch is not None and watch.follows(root):
            watch.touch(self, op, elements(root, index, size, active), write=write)


class Cta:
    """One block of the grid."""

    def __init__(self, program: Program, block: tuple[int, int, int], limit: int, watch: Watcher | None) -> None:
        kernel = program.kernel
        self.program = program
        self.block = block
        self.policy = program.policy
        self.limit = limit
        self.watch = watch
        self.shared = Shared(kernel.shared_bytes)
        self.barriers = Barriers(kernel.events)
        self.pending: list[Pending] = []
        self.random = Random(f"{self.policy.seed}:{block}") if self.policy.seed is not None else None
        self.threads = kernel.threads
        self.warps = [Warp(self, i, _existing(kernel.threads, i)) for i in range(-(-kernel.threads // WARP))]
        self.warpgroups: list[Warpgroup] = []
        for first in range(0, len(self.warps) - 3, 4):
            group = Warpgroup(first // 4)
            self.warpgroups.append(group)
            group.warps = self.warps[first : first + 4]
            for warp in group.warps:
                warp.group = group

    def draw_weight(self) -> float:
        return self.random.choice(WEIGHTS) if self.random is not None else 1.0

    @property
    def steps(self) -> int:
        return sum(warp.steps for warp in self.warps)


def _existing(threads: int, warp: int) -> int:
    return (1 << min(WARP, threads - warp * WARP)) - 1
