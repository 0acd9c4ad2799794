"""Operations of the machine: what the passes leave for emission, simulation and verification.

Participation: an operation is executed by the threads in `threads`; `Elect` narrows its region. Barriers of events live
in shared memory at `event.offset + 8 * slot`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from croq.ir.core import Block, Effect, Op, Read, Update, Value, Write, operation
from croq.ir.objects import Event, FragRef, Matrix, Start, TensorMap, View


# ---------------------------------------------------------------------------------------------- who executes what
@operation("section")
class Section(Op):
    """Code of `level`'s units or of a role (`role` true): emitted as an `if` over threads only when `condition` is set.

    `label` is what the source says of it, e.g. `p == 0`.
    """

    CONTROL = "threads"
    ORDERS = False

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

    CONTROL = "threads"
    ORDERS = True

    scope: Literal["set", "warp", "warpgroup"]
    thread: int | None
    body: Block


# ------------------------------------------------------------------------------------------------------- barriers
@operation("mbarrier.init", "hw")
class MbarrierInit(Op):
    """All slots of the event, with `count` expected arrivals. By one thread, before the CTA starts."""

    event: Event
    count: int


@operation("mbarrier.init_fence", "hw")
class MbarrierInitFence(Op):
    """Make initialised barriers visible to the async proxy (and the cluster)."""


@operation("mbarrier.arrive", "hw")
class MbarrierArrive(Op):
    ARRIVES = "mbarrier"

    event: Event
    slot: Value | None


@operation("mbarrier.expect_tx", "hw")
class MbarrierExpectTx(Op):
    """One arrival, and `bytes` more to be transferred before the phase completes."""

    ENGINE = "tma"
    ARRIVES = "mbarrier"

    event: Event
    slot: Value | None
    bytes: int


@operation("mbarrier.wait", "hw")
class MbarrierWait(Op):
    """Until the phase of `parity` has completed."""

    WAITS = "mbarrier"

    event: Event
    slot: Value | None
    parity: Value


@operation("named_barrier.sync", "hw")
class NamedBarrierSync(Op):
    """bar.sync id, count: wait until `count` threads have arrived. `event` is set when it implements one."""

    WAITS = "named barrier"
    MEETS = "threads"

    barrier: int
    count: int
    event: Event | None


@operation("named_barrier.arrive", "hw")
class NamedBarrierArrive(Op):
    ARRIVES = "named barrier"

    barrier: int
    count: int
    event: Event | None


@operation("cta.sync")
class CtaSync(Op):
    """bar.sync 0 over the whole CTA."""

    MEETS = "threads"
    ORDERS = True


@operation("warp.sync")
class WarpSync(Op):
    MEETS = "warp"
    ORDERS = True


@operation("fence.proxy_async", "hw")
class ProxyFence(Op):
    """Ordinary accesses to shared memory before it are ordered before the async proxy's after it."""


# ------------------------------------------------------------------------------------------------------ copy engine
@operation("bulk_tensor.load", "hw")
class BulkTensorLoad(Op):
    """One TMA instruction: box of `map` at `coords` (innermost first) to `dest`; its bytes count on event[slot].

    The box lies at consecutive bytes from `start` on, permuted by the map's swizzle: that must be `dest`.
    """

    NOUN = "a TMA load"
    ENGINE = "tma"
    UNTIL = "mbarrier"

    map: Read[TensorMap]
    coords: tuple[Value, ...]
    dest: Write[View]
    start: Start
    event: Event
    slot: Value | None
    evict: Literal["evict_first", "evict_last"] | None


@operation("bulk_tensor.store", "hw")
class BulkTensorStore(Op):
    """`source` lies from `start` on, as the destination of a load does."""

    NOUN = "a TMA store"
    ENGINE = "tma"
    UNTIL = "bulk group"

    map: Write[TensorMap]
    coords: tuple[Value, ...]
    source: Read[View]
    start: Start


@operation("bulk.commit", "hw")
class BulkCommit(Op):
    ENGINE = "tma"


@operation("bulk.wait", "hw")
class BulkWait(Op):
    """Until at most `depth` of this thread's bulk groups are pending; `read`: pending only in reading their source."""

    ENGINE = "tma"
    WAITS = "bulk group"

    depth: int
    read: bool


@operation("copy_tile", "hw")
class CopyTile(Op):
    """The threads of the operation copy `source` to `dest` together, `vector` bytes a step, zeros where source ends.

    `rank_base`: linear index of the first participating thread; `count` threads take part. `source_checked`,
    `dest_checked`: the dimensions of the roots along which a step may begin beyond the extents. `asynchronous`: by
    `cp.async`, waited for at the end. `unroll`: steps of a thread in one piece of code.
    """

    NOUN = "a cooperative copy"
    COLLECTIVE = "threads"

    source: Read[View]
    source_checked: tuple[int, ...]
    dest: Write[View]
    dest_checked: tuple[int, ...]
    vector: int
    rank_base: int
    count: int
    asynchronous: bool
    unroll: int


@operation("fill_tile", "hw")
class FillTile(Op):
    """`vector` bytes a step; without a slot all slots of an array, and what lies between them."""

    NOUN = "a fill"
    COLLECTIVE = "threads"

    dest: Write[View]
    value: Value
    vector: int
    rank_base: int
    count: int


# ----------------------------------------------------------------------------------------------------- tensor cores
@operation("wgmma.fence", "hw")
class WgmmaFence(Op):
    """Orders register accesses before it with the WGMMAs after it. `frags`: what ordinary code touched."""

    ENGINE = "wgmma"
    COLLECTIVE = "warpgroup"

    frags: tuple[FragRef, ...]


@operation("wgmma.issue", "hw")
class WgmmaIssue(Op):
    """All instructions of acc (+)= a * b: for each 64-row block and each step of `k_step` along K one m64nNk.

    a: [M, K] view (or packed fragment), b: [N, K] view, or [K, N] with `b_transposed`; `a_transposed`: a is [K, M].
    `a_matrix`, `b_matrix`: how the instructions address these views (the operands pass); none for a fragment.
    `accumulate` False: the first K-step of each row block overwrites acc.
    """

    NOUN = "an MMA"
    ENGINE = "wgmma"
    UNTIL = "commit group"
    COLLECTIVE = "warpgroup"

    acc: Update[FragRef]
    a: Read[View | FragRef]
    a_matrix: Matrix | None
    b: Read[View]
    b_matrix: Matrix | None
    m: int
    n: int
    k: int
    k_step: int
    a_transposed: bool
    b_transposed: bool
    accumulate: bool

    def own_effects(self) -> Iterator[Effect]:
        for effect in super().own_effects():
            if self.accumulate or effect.kind == "write" or effect.target is not self.acc:
                yield effect


@operation("wgmma.commit", "hw")
class WgmmaCommit(Op):
    """Closes a commit group; `future` names it, where the source does."""

    ENGINE = "wgmma"
    COLLECTIVE = "warpgroup"

    future: Value | None


@operation("wgmma.wait", "hw")
class WgmmaWait(Op):
    """Until at most `depth` commit groups are pending. `frags`: whose registers are safe from here on."""

    ENGINE = "wgmma"
    WAITS = "commit group"
    COLLECTIVE = "warpgroup"

    depth: int
    futures: tuple[Value, ...]
    frags: tuple[FragRef, ...]


# --------------------------------------------------------------------------------------------------------- registers
@operation("setmaxnreg", "hw")
class SetMaxNReg(Op):
    COLLECTIVE = "warpgroup"

    direction: Literal["inc", "dec"]
    count: int


@operation("reg.fill", "hw")
class RegFill(Op):
    """Every register of the fragment (value is converted already)."""

    REGISTERS = True

    frag: Write[FragRef]
    value: Value


@operation("reg.copy", "hw")
class RegCopy(Op):
    """Same layout and type."""

    REGISTERS = True

    dest: Write[FragRef]
    source: Read[FragRef]


@operation("reg.map", "hw")
class RegMap(Op):
    """`row_body` for each row register of the domain (2-D domains only), then `body` for each register.

    Iterator values are the logical coordinates of the register. A 2-D fragment is accessed at (i, j), a 1-D one at (i).
    `row_iterators` are the iterators of `row_body`. `guard`: the layout has registers that hold nothing.
    """

    CONTROL = "map"
    REGISTERS = True

    domain: FragRef
    row_iterators: tuple[Value, ...]
    row_body: Block | None
    iterators: tuple[Value, ...]
    body: Block
    guard: bool


@operation("reg.reduce_row", "hw")
class RegReduceRow(Op):
    """dest's row register = max or sum over this thread's registers of the row."""

    REGISTERS = True

    kind: Literal["max", "sum"]
    dest: Write[FragRef]
    source: Read[FragRef]


@operation("reg.shuffle_reduce", "hw")
class RegShuffleReduce(Op):
    """Each register becomes the max or sum over the `lanes` neighbouring lanes (a power of two) that hold the row."""

    REGISTERS = True
    COLLECTIVE = "warp"

    kind: Literal["max", "sum"]
    frag: Update[FragRef]
    lanes: int


@operation("reg.load", "hw")
class RegLoad(Op):
    """A 16-bit shared tile to a packed fragment of its shape and type, by `ldmatrix`.

    Synchronous: the values are in the registers when it is over, before the warp does anything else. So an arrival
    behind it gives the tile back with no read of it in flight, to the copy engine as well.
    """

    NOUN = "a load of a fragment"
    REGISTERS = True

    frag: Write[FragRef]
    source: Read[View]

    @property
    def collective(self) -> str | None:
        return "warp"


@operation("reg.store", "hw")
class RegStore(Op):
    """The fragment to a view, converted. `method`: `stmatrix` for 16-bit shared tiles, else element stores.

    `checked`: the dimensions of the root along which elements may lie beyond its extents; those are not written.
    `pairs`: columns 2i and 2i + 1 are written at once, and checked by the first.
    """

    NOUN = "a store of a fragment"
    REGISTERS = True

    frag: Read[FragRef]
    dest: Write[View]
    method: Literal["stmatrix", "store"]
    checked: tuple[int, ...]
    pairs: bool

    @property
    def collective(self) -> str | None:
        return "warp" if self.method == "stmatrix" else None
