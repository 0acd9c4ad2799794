"""Operations on tiles: what a `.co` program says, before anything is decided about barriers, layouts or registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from croq.ir.core import Block, Effect, Op, Value, operation
from croq.ir.objects import Event, EventRef, FragRef, View


@operation("scope", tile=True)
class Scope(Op):
    """Code of an inner `parallel`: executed by every unit of `level`; collective operations inside act per unit.

    Code outside any scope is at CTA level. `thread` scopes directly inside `group-4` keep the warpgroup as the unit of
    collective operations.
    """

    level: Literal["group-4", "group", "thread"]
    body: Block


@operation("role", tile=True)
class Role(Op):
    """`inthreads`: the body runs on the threads that satisfy the condition; not `is_async`: all join afterwards.

    `label` is the condition in the source's words.
    """

    label: str
    condition: Value
    is_async: bool
    body: Block


@operation("tma.load", tile=True)
class TmaLoad(Op):
    """Global to shared by the copy engine. Without `future` (synchronous) it is complete when the statement ends."""

    source: View
    dest: View
    evict: Literal["evict_first", "evict_last"] | None
    future: Value | None

    def effects(self) -> Iterable[Effect]:
        later = self.future is not None
        return (Effect("read", self.source, later), Effect("write", self.dest, later))


@operation("tma.store", tile=True)
class TmaStore(Op):
    """Shared to global by the copy engine; `source` may be reused when the statement ends (no `future`)."""

    source: View
    dest: View
    future: Value | None

    def effects(self) -> Iterable[Effect]:
        later = self.future is not None
        return (Effect("read", self.source, later), Effect("write", self.dest, later))


@operation("dma.copy", tile=True)
class DmaCopy(Op):
    """Cooperative copy by all threads of the unit; with `future`, completion is a wait away."""

    source: View
    dest: View
    future: Value | None

    def effects(self) -> Iterable[Effect]:
        later = self.future is not None
        return (Effect("read", self.source, later), Effect("write", self.dest, later))


@operation("mma", tile=True)
class Mma(Op):
    """acc += a * b. b is [N, K] for `b_layout` "row" (K contiguous), [K, N] for "col". No `future`: synchronous."""

    a_layout: Literal["row", "col"]
    b_layout: Literal["row", "col"]
    acc: FragRef
    a: View | FragRef
    b: View
    future: Value | None

    def effects(self) -> Iterable[Effect]:
        later = self.future is not None
        return (
            Effect("read", self.a, later),
            Effect("read", self.b, later),
            Effect("read", self.acc, later),
            Effect("write", self.acc, later),
        )


@operation("frag.fill", tile=True)
class FragFill(Op):
    frag: FragRef
    value: Value

    def effects(self) -> Iterable[Effect]:
        return (Effect("write", self.frag),)


@operation("frag.map", tile=True)
class FragMap(Op):
    """`apply`: the body runs once for each element of `domain`, by the thread that owns it."""

    domain: FragRef
    iterators: tuple[Value, ...]
    body: Block


@operation("frag.reduce", tile=True)
class FragReduce(Op):
    """dest[i] = max or sum over j of source[i, j], complete and in every thread that holds row i."""

    kind: Literal["max", "sum"]
    dest: FragRef
    source: FragRef

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.source), Effect("write", self.dest))


@operation("frag.all_reduce", tile=True)
class FragAllReduce(Op):
    """Combine the partial values that the threads holding a row have of it; all get the result."""

    kind: Literal["max", "sum"]
    frag: FragRef

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.frag), Effect("write", self.frag))


@operation("frag.copy", tile=True)
class FragCopy(Op):
    dest: FragRef
    source: FragRef

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.source), Effect("write", self.dest))


@operation("frag.store", tile=True)
class FragStore(Op):
    """`mma.store`: the fragment to a shared or global view, converted to its element type."""

    frag: FragRef
    dest: View

    def effects(self) -> Iterable[Effect]:
        return (Effect("read", self.frag), Effect("write", self.dest))


@operation("buffer.fill", tile=True)
class BufferFill(Op):
    """All elements of a buffer (every slot) get `value`, by the threads of the unit."""

    dest: View
    value: Value

    def effects(self) -> Iterable[Effect]:
        return (Effect("write", self.dest),)


@operation("event.wait", tile=True)
class EventWait(Op):
    refs: tuple[EventRef, ...]


@operation("event.trigger", tile=True)
class EventTrigger(Op):
    """With `after`, the completion of those TMA loads is the only arrival."""

    refs: tuple[EventRef, ...]
    after: tuple[Value, ...]


@operation("future.wait", tile=True)
class FutureWait(Op):
    futures: tuple[Value, ...]


@operation("setreg", tile=True)
class SetReg(Op):
    direction: Literal["inc", "dec"]
    count: int


@operation("sync", tile=True)
class Sync(Op):
    """A barrier of the threads of the unit."""

    level: Literal["block", "group-4", "group"]


@operation("tma.issue", tile=True)
class TmaIssue(Op):
    """A TMA load whose completion is bound to a barrier: what the events pass leaves for the moves pass."""

    source: View
    dest: View
    evict: Literal["evict_first", "evict_last"] | None
    event: Event
    slot: Value | None

    def effects(self) -> Iterable[Effect]:
        return (Effect("write", self.dest, True),)
