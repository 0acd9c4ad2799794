"""Named objects of a kernel and the references that operations hold to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from croq.ir.core import Block, Composite, Effect, Object, Value
from croq.ir.types import BYTES, ThreadSet
from croq.sema.symbolic import COMPARE, Dim
from croq.source import SourceFile
from croq.target import DEFAULT, TARGETS, Target
from croq.target.cuda import VECTOR, WARP

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# ------------------------------------------------------------------------------------------------------- objects
@dataclass(eq=False)
class Param(Object):
    """A parameter of the function: data (`shape` given) or a scalar (`shape` None), in declaration order.

    `access` is filled by the moves pass: how the device reaches the data ("pointer", "tma").
    """

    type: str
    shape: tuple[Dim, ...] | None
    is_global: bool = True  # False: host data, copied around the launch
    access: set[str] = field(default_factory=set)

    @property
    def storage(self) -> str:
        return "global"


@dataclass(eq=False)
class Buffer(Object):
    """Shared (or local) data: `slots` tiles of one `shape`. Layout fields are filled by the shared-memory pass.

    A tile [..., rows, cols] is stored as column slabs of `swizzle` bytes, each slab all rows x `swizzle` bytes, 16-byte
    chunks XOR-permuted inside it; with `swizzle` 0 it is plain row-major (target/swizzle.py).
    """

    type: str
    shape: tuple[int, ...]
    slots: int = 1
    storage: Literal["shared", "local"] = "shared"
    requested_swizzle: int | None = None  # bytes, where the source asked for one
    array: bool = False  # declared with [slots], so references carry a slot
    swizzle: int = 0
    offset: int | None = None  # bytes from the start of the CTA's shared memory
    alignment: int = VECTOR
    why: str = ""

    @property
    def tile_bytes(self) -> int:
        count = BYTES[self.type]
        for extent in self.shape:
            count *= extent
        return count

    @property
    def slot_stride(self) -> int:
        """Bytes between consecutive slots."""
        return -(-self.tile_bytes // self.alignment) * self.alignment

    @property
    def rows(self) -> int:
        """All leading dimensions taken together."""
        count = 1
        for extent in self.shape[:-1]:
            count *= extent
        return count

    @property
    def cols(self) -> int:
        return self.shape[-1]


class Layout(Protocol):
    """Where a fragment's elements live: `registers` elements in each thread of a group of `threads` threads."""

    @property
    def kind(self) -> str: ...  # "accumulator" | "row" | "uniform"

    @property
    def registers(self) -> int:
        """Elements a thread holds."""

    @property
    def threads(self) -> int:
        """Threads over which one fragment is spread."""

    def coordinates(self, thread: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Logical coordinates [len(thread), registers], one array a dimension, of what each thread's registers hold.

        `thread` is the index inside the group. A coordinate beyond the shape marks a register that holds nothing.
        """


@dataclass(eq=False)
class Fragment(Object):
    """Register data of logical `shape`, spread over the threads of its unit. `layout` comes from the fragments pass.

    `packed`: 16-bit elements kept as pairs in 32-bit registers, as an MMA's A operand wants them.
    """

    type: str | None  # None until inferred
    shape: tuple[int, ...] | None
    layout: Layout | None = None
    packed: bool = False
    init: Value | None = None  # unused after build: a fill operation carries it
    why: str = ""

    @property
    def registers(self) -> int:
        """32-bit registers a thread needs for it."""
        assert self.layout is not None and self.type is not None
        size = BYTES[self.type]
        return -(-self.layout.registers * size // 4) if self.packed or size > 4 else self.layout.registers


@dataclass(eq=False)
class Event(Object):
    """A sequence of generations in `slots` slots. Everything below `ready` is filled by the events pass."""

    slots: int = 1
    ready: bool = False
    array: bool = False
    lowering: Literal["mbarrier", "named_barrier"] | None = None
    arrivals: int = 0  # arrivals that complete a generation
    tx_bytes: int = 0  # bytes that complete a generation, where TMA does
    barrier_id: int | None = None
    barrier_threads: int = 0
    waiters: ThreadSet | None = None
    triggers: ThreadSet | None = None
    offset: int | None = None  # of its first barrier, bytes from the start of the CTA's shared memory
    why: str = ""


def slot_name(owner: Buffer | Event, slot: int) -> str:
    """One of several slots, in words for the source's reader."""
    return f"{owner.name}[{slot}]" if owner.array or owner.slots > 1 else owner.name


@dataclass(eq=False)
class Variable(Object):
    """A mutable scalar of a thread."""

    type: str


@dataclass(eq=False)
class TensorMap(Object):
    """What the host encodes for one (tensor, box, swizzle). Dimensions innermost first.

    Map dimension k walks tensor dimension `axes[k]`; where the innermost tensor dimension is split into slabs, it
    appears twice: `split` elements fastest, then the slabs. `dims`/`strides` are in elements of the tensor.
    """

    param: Param
    box: tuple[int, ...]
    axes: tuple[int, ...]
    split: int | None  # elements a slab, when the innermost dimension is split in two
    dims: tuple[Dim, ...]
    swizzle: int
    loads_per_tile: int = 1
    why: str = ""

    @property
    def root(self) -> Param:
        return self.param


@dataclass(eq=False)
class Requirement(Object):
    """`left op right` over dimensions and integer parameters: what arguments of a launch must satisfy."""

    op: str  # == != < <= > >=
    left: Dim
    right: Dim
    message: str = ""

    def holds(self, bindings: Mapping[str, int]) -> bool:
        return COMPARE[self.op](self.left.evaluate(bindings), self.right.evaluate(bindings))

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(eq=False)
class Wait(Object):
    """A wait of the source for MMAs, and how many younger ones it leaves in flight."""

    futures: tuple[str, ...]
    depth: int
    why: str = ""


OBJECTS = (Param, Buffer, Fragment, Event, Variable, TensorMap, Requirement, Wait)


# ---------------------------------------------------------------------------------------------------- references
@dataclass(eq=False)
class View(Composite):
    """A box of a parameter's or buffer's data: along each dimension of the root `offsets[d]` .. `+ extents[d]`.

    `kept` lists the root dimensions that are dimensions of the view; the others have extent 1 and were squeezed. `slot`
    picks the tile of an array of buffers. Offsets are in elements of the root and may be int (known) or a Value.
    """

    root: Param | Buffer
    slot: Value | int | None
    offsets: tuple[Value | int, ...]
    extents: tuple[Dim, ...]
    kept: tuple[int, ...]

    @property
    def element(self) -> str:
        return self.root.type

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(self.extents[d] for d in self.kept)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        known = [extent.known for extent in self.shape]
        return None if any(k is None for k in known) else tuple(k for k in known if k is not None)

    @property
    def whole(self) -> bool:
        """Covers the whole tile (of a buffer)."""
        return isinstance(self.root, Buffer) and all(
            extent.known == full for extent, full in zip(self.extents, self.root.shape, strict=True)
        )


@dataclass(eq=False)
class EventRef(Composite):
    """`e` (no slot, no order: the path's implicit generation), `e[i]` (slot) or `e.at(order)`."""

    event: Event
    slot: Value | None = None
    order: Value | None = None


@dataclass(eq=False)
class FragRef(Composite):
    """A fragment, or one of an array of fragments."""

    frag: Fragment
    slot: Value | int | None = None

    @property
    def root(self) -> Fragment:
        return self.frag

    @property
    def element(self) -> str:
        assert self.frag.type is not None
        return self.frag.type


@dataclass(frozen=True)
class Start(Composite):
    """Where something in shared memory starts: `offset + terms[0] * scales[0] + ..` bytes behind its slot's start."""

    offset: int = 0
    terms: tuple[Value, ...] = ()
    scales: tuple[int, ...] = ()


@dataclass(eq=False)
class Matrix(Composite):
    """What the tensor core is given for an MMA's operand in shared memory: one matrix descriptor for each instruction.

    All of them have `lbo` and `sbo` (bytes), `layout` (bits 62-63) and `base` (the base offset, bits 49-51). That of
    row block i and K step k starts at byte

        start + i * block + (first + k) / wrap * jump + (first + k) % wrap * step

    PTX ISA, wgmma, "Matrix descriptor" and "Strides".
    """

    lbo: int
    sbo: int
    layout: int
    start: Start = Start()
    base: int = 0
    block: int = 0
    first: Value | int = 0
    wrap: int = 1
    jump: int = 0
    step: int = 0

    def advance(self, block: int, k: int, first: int) -> int:
        """Bytes from the first instruction's operand at `first` 0 to that of row block `block` and K step `k`."""
        far, near = divmod(first + k, self.wrap)
        return block * self.block + far * self.jump + near * self.step


# --------------------------------------------------------------------------------------------------------- kernel
@dataclass(eq=False)
class Kernel:
    """One `parallel` at host level: one launch. `symbols` are the dimensions and integer scalars it may mention."""

    name: str
    file: SourceFile
    params: list[Param]
    grid: tuple[Dim, Dim, Dim]
    threads: int
    body: Block
    grid_rank: int = 1
    min_blocks: int | None = None  # second argument of launch_bounds
    max_threads: int | None = None  # first argument, where it is not `_`
    is_async: bool = False
    function: str = ""  # the `__co__` function that launches it
    barrier_sets: tuple[ThreadSet, ...] = ()  # those with a named barrier of their own (passes/barriers.py)
    buffers: list[Buffer] = field(default_factory=list)
    fragments: list[Fragment] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    tensor_maps: list[TensorMap] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    device_text: tuple[str, ...] = ()  # C++ of the file's `__device__` functions and what they need, in order
    entry: str = ""  # what the emitted function is called, where that cannot be `name`
    shared_bytes: int = 0
    arch: str = DEFAULT.name
    known_threads: bool = False  # who executes each operation has been found out

    @property
    def target(self) -> Target:
        return TARGETS[self.arch]

    @property
    def everyone(self) -> ThreadSet | None:
        """Who executes code at CTA level; None before that has been found out."""
        return ThreadSet.all(self.threads) if self.known_threads else None

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP)

    @property
    def entry_name(self) -> str:
        """The name that the launch looks up in the cubin."""
        return self.entry or self.name

    def symbols(self) -> list[str]:
        """Symbolic dimensions in order of first appearance in the parameters."""
        found: dict[str, None] = {}
        for param in self.params:
            for dim in param.shape or ():
                for name in sorted(dim.symbols()):
                    found[name] = None
        return list(found)

    def fresh(self, name: str) -> str:
        """A name that no object of the kernel has."""
        taken = {o.name for group in (self.buffers, self.fragments, self.events, self.variables) for o in group}
        taken |= {p.name for p in self.params}
        candidate, n = name, 1
        while candidate in taken:
            n += 1
            candidate = f"{name}_{n}"
        return candidate

    def walk(self) -> Iterator[Any]:
        return self.body.walk()

    def effects(self) -> Iterator[Effect]:
        return self.body.effects()


@dataclass(eq=False)
class Module:
    """What one `.co` file became."""

    file: SourceFile
    kernels: list[Kernel]
