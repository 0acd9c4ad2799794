"""Operations of the machine: what the passes leave for emission, simulation and verification.

Participation: an operation is executed by the threads in `threads`; `Elect` narrows its region. Barriers of events live
in shared memory at `event.offset + 8 * slot`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from croq.ir.core import Block, Effect, Op, Value, operation
from croq.ir.objects import Event, FragRef, Matrix, Start, TensorMap, View


# ---------------------------------------------------------------------------------------------- who executes what
@operation("section")
class Section(Op):
    """Code of `level`'s units or of a role (`role` true): emitted as an `if` over threads only when `condition` is set.

    `label` is what the source says of it, e.g. `p == 0`.
    """

    label: str
    level: Literal["block", "group-4", "group", "thread"]
    role: bool
    condition: Value | None
    body: Block


@operation("elect")
class Elect(Op):
    """The body is run by one thread.

    `set`: by thread `thread` (linear index) alone, of all that arrive. `warp`: by lane 0 of each participating warp,
    after the warp has reconverged. `warpgroup`: by the first thread of each participating warpgroup.
    """

    scope: Literal["set", "warp", "warpgroup"]
    thread: int | None
    body: Block


# ------------------------------------------------------------------------------------------------------- barriers
@operation("mbarrier.init")
class MbarrierInit(Op):
    """All slots of the event, with `count` expected arrivals. By one thread, before the CTA starts."""

    event: Event
    count: int


@operation("mbarrier.init_fence")
class MbarrierInitFence(Op):
    """Make initialised barriers visible to the async proxy (and the cluster)."""


@operation("mbarrier.arrive")
class MbarrierArrive(Op):
    event: Event
    slot: Value | None


@operation("mbarrier.expect_tx")
class MbarrierExpectTx(Op):
    """One arrival, and `bytes` more to be transferred before the phase completes."""

    event: Event
    slot: Value | None
    bytes: int


@operation("mbarrier.wait")
class MbarrierWait(Op):
    """Until the phase of `parity` has completed."""

    event: Event
    slot: Value | None
    parity: Value


@operation("named_barrier.sync")
class NamedBarrierSync(Op):
    """bar.sync id, count: wait until `count` threads have arrived. `event` is set when it implements one."""

    barrier: int
    count: int
    event: Event | None


@operation("named_barrier.arrive")
class NamedBarrierArrive(Op):
    barrier: int
    count: int
    event: Event | None


@operation("cta.sync")
class CtaSync(Op):
    """bar.sync 0 over the whole CTA."""


@operation("warp.sync")
class WarpSync(Op):
    pass


@operation("fence.proxy_async")
class ProxyFence(Op):
    """Ordinary accesses to shared memory before it are ordered before the async proxy's after it."""


# ------------------------------------------------------------------------------------------------------ copy engine
@operation("bulk_tensor.load")
class BulkTensorLoad(Op):
    """One TMA instruction: box of `map` at `coords` (innermost first) to `dest`; its bytes count on event[slot].

    The box lies at consecutive bytes from `start` on, permuted by the map's swizzle: that must be `dest`.
    """

    map: TensorMap
    coords: tuple[Value, ...]
    dest: View
    start: Start
    event: Event
    slot: Value | None
    evict: Literal["evict_first", "evict_last"] | None

    def effects(self) -> Iterable[Effect]:
        return (Effect("write", self.dest, True),)


@operation("bulk_tensor.store")
class BulkTensorStore(Op):
    """`source` lies from `start` on, as the destination of a load does."""

    map: TensorMap
    coords: tuple[Value, ...]
    source: View
    start: Start

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.source, True),)


@operation("bulk.commit")
class BulkCommit(Op):
    pass


@operation("bulk.wait")
class BulkWait(Op):
    """Until at most `depth` of this thread's bulk groups are pending; `read`: pending only in reading their source."""

    depth: int
    read: bool


@operation("copy_tile")
class CopyTile(Op):
    """The threads of the operation copy `source` to `dest` together, `vector` bytes a step, zeros where source ends.

    `rank_base`: linear index of the first participating thread; `count` threads take part. `source_checked`,
    `dest_checked`: the dimensions of the roots along which a step may begin beyond the extents. `asynchronous`: by
    `cp.async`, waited for at the end. `unroll`: steps of a thread in one piece of code.
    """

    source: View
    source_checked: tuple[int, ...]
    dest: View
    dest_checked: tuple[int, ...]
    vector: int
    rank_base: int
    count: int
    asynchronous: bool
    unroll: int

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.source), Effect("write", self.dest))


@operation("fill_tile")
class FillTile(Op):
    """`vector` bytes a step; without a slot all slots of an array, and what lies between them."""

    dest: View
    value: Value
    vector: int
    rank_base: int
    count: int

    def effects(self) -> Iterable[Effect]:
        return (Effect("write", self.dest),)


# ----------------------------------------------------------------------------------------------------- tensor cores
@operation("wgmma.fence")
class WgmmaFence(Op):
    """Orders register accesses before it with the WGMMAs after it. `frags`: what ordinary code touched."""

    frags: tuple[FragRef, ...]


@operation("wgmma.issue")
class WgmmaIssue(Op):
    """All instructions of acc (+)= a * b: for each 64-row block and each step of `k_step` along K one m64nNk.

    a: [M, K] view (or packed fragment), b: [N, K] view, or [K, N] with `b_transposed`; `a_transposed`: a is [K, M].
    `a_matrix`, `b_matrix`: how the instructions address these views (the operands pass); none for a fragment.
    `accumulate` False: the first K-step of each row block overwrites acc.
    """

    acc: FragRef
    a: View | FragRef
    a_matrix: Matrix | None
    b: View
    b_matrix: Matrix | None
    m: int
    n: int
    k: int
    k_step: int
    a_transposed: bool
    b_transposed: bool
    accumulate: bool

    def effects(self) -> Iterable[Effect]:
        yield Effect("read", self.a, True)
        yield Effect("read", self.b, True)
        if self.accumulate:
            yield Effect("read", self.acc, True)
        yield Effect("write", self.acc, True)


@operation("wgmma.commit")
class WgmmaCommit(Op):
    """Closes a commit group; `future` names it, where the source does."""

    future: Value | None


@operation("wgmma.wait")
class WgmmaWait(Op):
    """Until at most `depth` commit groups are pending. `frags`: whose registers are safe from here on."""

    depth: int
    futures: tuple[Value, ...]
    frags: tuple[FragRef, ...]


# --------------------------------------------------------------------------------------------------------- registers
@operation("setmaxnreg")
class SetMaxNReg(Op):
    direction: Literal["inc", "dec"]
    count: int


@operation("reg.fill")
class RegFill(Op):
    """Every register of the fragment (value is converted already)."""

    frag: FragRef
    value: Value

    def effects(self) -> Iterable[Effect]:
        return (Effect("write", self.frag),)


@operation("reg.copy")
class RegCopy(Op):
    """Same layout and type."""

    dest: FragRef
    source: FragRef

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.source), Effect("write", self.dest))


@operation("reg.map")
class RegMap(Op):
    """`row_body` for each row register of the domain (2-D domains only), then `body` for each register.

    Iterator values are the logical coordinates of the register. A 2-D fragment is accessed at (i, j), a 1-D one at (i).
    `row_iterators` are the iterators of `row_body`. `guard`: the layout has registers that hold nothing.
    """

    domain: FragRef
    row_iterators: tuple[Value, ...]
    row_body: Block | None
    iterators: tuple[Value, ...]
    body: Block
    guard: bool


@operation("reg.reduce_row")
class RegReduceRow(Op):
    """dest's row register = max or sum over this thread's registers of the row."""

    kind: Literal["max", "sum"]
    dest: FragRef
    source: FragRef

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.source), Effect("write", self.dest))


@operation("reg.shuffle_reduce")
class RegShuffleReduce(Op):
    """Each register becomes the max or sum over the `lanes` neighbouring lanes (a power of two) that hold the row."""

    kind: Literal["max", "sum"]
    frag: FragRef
    lanes: int

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.frag), Effect("write", self.frag))


@operation("reg.store")
class RegStore(Op):
    """The fragment to a view, converted. `method`: `stmatrix` for 16-bit shared tiles, else element stores.

    `checked`: the dimensions of the root along which elements may lie beyond its extents; those are not written.
    `pairs`: columns 2i and 2i + 1 are written at once, and checked by the first.
    """

    frag: FragRef
    dest: View
    method: Literal["stmatrix", "store"]
    checked: tuple[int, ...]
    pairs: bool

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.frag), Effect("write", self.dest))


REGISTER_OPS = (RegFill, RegCopy, RegMap, RegReduceRow, RegShuffleReduce, RegStore)
