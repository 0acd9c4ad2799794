"""Operations on tiles: what a `.co` program says, before anything is decided about barriers, layouts or registers."""

from __future__ import annotations

from typing import Literal

from croq.ir.core import Block, Op, Read, Update, Value, Write, operation
from croq.ir.objects import Event, EventRef, FragRef, View


@operation("scope", "tile")
class Scope(Op):
    """Code of an inner `parallel`: executed by every unit of `level`; collective operations inside act per unit.

    Code outside any scope is at CTA level. `thread` scopes directly inside `group-4` keep the warpgroup as the unit of
    collective operations.
    """

    CONTROL = "threads"

    level: Literal["group-4", "group", "thread"]
    body: Block


@operation("role", "tile")
class Role(Op):
    """`inthreads`: the body runs on the threads that satisfy the condition; not `is_async`: all join afterwards.

    `label` is the condition in the source's words.
    """

    CONTROL = "threads"

    label: str
    condition: Value
    is_async: bool
    body: Block


@operation("tma.load", "tile")
class TmaLoad(Op):
    """Global to shared by the copy engine. Without `future` (synchronous) it is complete when the statement ends."""

    NOUN = "a TMA load"
    ENGINE = "tma"
    UNTIL = "future"

    source: Read[View]
    dest: Write[View]
    evict: Literal["evict_first", "evict_last"] | None
    future: Value | None


@operation("tma.store", "tile")
class TmaStore(Op):
    """Shared to global by the copy engine; `source` may be reused when the statement ends (no `future`)."""

    NOUN = "a TMA store"
    ENGINE = "tma"
    UNTIL = "future"

    source: Read[View]
    dest: Write[View]
    future: Value | None


@operation("dma.copy", "tile")
class DmaCopy(Op):
    """Cooperative copy by all threads of the unit; with `future`, completion is a wait away."""

    NOUN = "a cooperative copy"
    UNTIL = "future"
    COLLECTIVE = "threads"

    source: Read[View]
    dest: Write[View]
    future: Value | None


Move = TmaLoad | TmaStore | DmaCopy


@operation("mma", "tile")
class Mma(Op):
    """acc += a * b. b is [N, K] for `b_layout` "row" (K contiguous), [K, N] for "col". No `future`: synchronous."""

    NOUN = "an MMA"
    ENGINE = "wgmma"
    UNTIL = "future"
    COLLECTIVE = "warpgroup"

    a_layout: Literal["row", "col"]
    b_layout: Literal["row", "col"]
    acc: Update[FragRef]
    a: Read[View | FragRef]
    b: Read[View]
    future: Value | None


@operation("frag.fill", "tile")
class FragFill(Op):
    REGISTERS = True

    frag: Write[FragRef]
    value: Value


@operation("frag.map", "tile")
class FragMap(Op):
    """`apply`: the body runs once for each element of `domain`, by the thread that owns it."""

    CONTROL = "map"
    REGISTERS = True

    domain: FragRef
    iterators: tuple[Value, ...]
    body: Block


@operation("frag.reduce", "tile")
class FragReduce(Op):
    """dest[i] = max or sum over j of source[i, j], complete and in every thread that holds row i."""

    REGISTERS = True
    COLLECTIVE = "warp"

    kind: Literal["max", "sum"]
    dest: Write[FragRef]
    source: Read[FragRef]


@operation("frag.all_reduce", "tile")
class FragAllReduce(Op):
    """Combine the partial values that the threads holding a row have of it; all get the result."""

    REGISTERS = True
    COLLECTIVE = "warp"

    kind: Literal["max", "sum"]
    frag: Update[FragRef]


@operation("frag.copy", "tile")
class FragCopy(Op):
    REGISTERS = True

    dest: Write[FragRef]
    source: Read[FragRef]


@operation("frag.store", "tile")
class FragStore(Op):
    """`mma.store`: the fragment to a shared or global view, converted to its element type."""

    NOUN = "a store of a fragment"
    REGISTERS = True

    frag: Read[FragRef]
    dest: Write[View]


@operation("buffer.fill", "tile")
class BufferFill(Op):
    """All elements of a buffer (every slot) get `value`, by the threads of the unit."""

    NOUN = "a fill"
    COLLECTIVE = "threads"

    dest: Write[View]
    value: Value


@operation("event.wait", "tile")
class EventWait(Op):
    WAITS = "event"

    refs: tuple[EventRef, ...]


@operation("event.trigger", "tile")
class EventTrigger(Op):
    """With `after`, the completion of those TMA loads is the only arrival."""

    ARRIVES = "event"

    refs: tuple[EventRef, ...]
    after: tuple[Value, ...]


@operation("future.wait", "tile")
class FutureWait(Op):
    WAITS = "future"

    futures: tuple[Value, ...]


@operation("setreg", "tile")
class SetReg(Op):
    COLLECTIVE = "warpgroup"

    direction: Literal["inc", "dec"]
    count: int


@operation("sync", "tile")
class Sync(Op):
    """A barrier of the threads of the unit."""

    MEETS = "unit"

    level: Literal["block", "group-4", "group"]


@operation("tma.issue", "tile")
class TmaIssue(Op):
    """A TMA load whose completion is bound to a barrier: what the events pass leaves for the moves pass."""

    ENGINE = "tma"
    UNTIL = "mbarrier"

    source: Read[View]
    dest: Write[View]
    evict: Literal["evict_first", "evict_last"] | None
    event: Event
    slot: Value | None
