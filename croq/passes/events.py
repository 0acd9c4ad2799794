"""What each event becomes, and its numbers.

Rules (language reference section 10; PTX ISA "mbarrier"; seed document, step 4)
    V1  `trigger e after f..` -> mbarrier. A generation is one arrival and the bytes of all joined loads, out-of-range
        elements included. The thread that issues the first of the loads arrives and announces the bytes
        (`expect_tx`) before it issues it, so the phase cannot complete early however late the trigger stands.
    V2  A scalar `= ready` event whose wait and trigger sets are static, disjoint and made of whole warps, the same set
        at every wait, and that no TMA completes -> CTA named barrier: wait is `bar.sync`, trigger is `bar.arrive`, both
        counting waiters + triggers. Generation 0 is complete from the start, so a path's first wait passes without an
        instruction: an arrival that primed the barrier instead could merge with the first real trigger.
    V3  Everything else -> one mbarrier a slot.
    V4  Arrivals of an mbarrier generation: one elected arrival a warp of the union of the trigger sites' threads, after
        the warp has reconverged (hopper.md: no slower than fewer, and the only count the ISA's text covers). A site
        that does not fill its warps arrives thread by thread, and then so do all.
    V5  `e.at(order)`: slot `order % N`, parity `order / N & 1`; the waiters of a ready event start on the other parity
        (the phase before a barrier's first counts as complete).
    V6  An un-indexed event keeps its generation in a parity bit for each path (each role), flipped after every wait;
        `e[i]` keeps one bit a slot.
    V7  A load without an event (synchronous, or waited for by its future) gets an mbarrier of its own, V1 and V6.

Needs: participants. Adds: all derived fields of events. Leaves no event operation, no `tma.load`; loads are
`tma.issue`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.hw import (
    Elect,
    MbarrierArrive,
    MbarrierExpectTx,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
    Section,
)
from croq.ir.objects import Event, EventRef, Kernel, Variable, View
from croq.ir.rewrite import Builder, clone_ops, constant
from croq.ir.scalar import For, If, VarDeclare, VarGet, VarSet, While
from croq.ir.tile import DmaCopy, EventTrigger, EventWait, FutureWait, TmaIssue, TmaLoad
from croq.ir.types import BYTES, ThreadSet
from croq.passes.barriers import BarrierIds, barrier
from croq.passes.base import Pass
from croq.passes.threads import ThreadAnalysis
from croq.source import Span
from croq.target.sm90.limits import MBARRIER_MAX_TX


@dataclass(frozen=True)
class Events(Pass):
    name: ClassVar[str] = "events"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        sites = _Sites(kernel)
        sites.add_events_of_futures(sink)
        for event in kernel.events:
            _decide(kernel, event, sites, sink)
        if not sink.failed:
            _Rewrite(kernel, sites, sink).run()


# --------------------------------------------------------------------------------------------------------- analysis
@dataclass
class _Load:
    """A TMA load and what completes with it."""

    op: TmaLoad
    event: Event
    trigger: EventTrigger | None  # None: an event of its own (V7)
    leads: bool = True  # the first load of its trigger: it announces the bytes of all
    total_bytes: int = 0


@dataclass
class _Path:
    """Where an implicit generation lives: a role, or the CTA's own code."""

    section: Section | None
    loops: int = 0


@dataclass
class _Sites:
    kernel: Kernel
    waits: dict[Event, list[EventWait | FutureWait | TmaLoad]] = field(default_factory=lambda: defaultdict(list))
    triggers: dict[Event, list[EventTrigger]] = field(default_factory=lambda: defaultdict(list))
    loads: dict[TmaLoad, _Load] = field(default_factory=dict)
    producer: dict[Value, TmaLoad | DmaCopy] = field(default_factory=dict)
    own_event: dict[Value, Event] = field(default_factory=dict)  # future -> its event (V7)
    by_warp: set[Event] = field(default_factory=set)  # whose triggers arrive once a warp (V4)

    def __post_init__(self) -> None:
        for op in self.kernel.walk():
            if isinstance(op, EventWait):
                for ref in op.refs:
                    self.waits[ref.event].append(op)
            elif isinstance(op, EventTrigger):
                for ref in op.refs:
                    self.triggers[ref.event].append(op)
            elif isinstance(op, (TmaLoad, DmaCopy)) and op.future is not None:
                self.producer[op.future] = op

    def add_events_of_futures(self, sink: Sink) -> None:
        """Bind every TMA load to an event: the one that its trigger names, or one of its own."""
        for op in list(self.kernel.walk()):
            if isinstance(op, EventTrigger) and op.after:
                self._bind(op)
        waited = {f: op for op in self.kernel.walk() if isinstance(op, FutureWait) for f in op.futures}
        for op in list(self.kernel.walk()):
            if not isinstance(op, TmaLoad) or op in self.loads:
                continue
            event = Event(self.kernel.fresh(_own_name(op)), span=op.span)
            self.kernel.events.append(event)
            self.loads[op] = _Load(op, event, None, True, tile_bytes(op.dest))
            if op.future is None:
                self.waits[event].append(op)
            elif op.future in waited:
                self.own_event[op.future] = event
                self.waits[event].append(waited[op.future])
            else:
                _never_completed(op, sink)

    def _bind(self, trigger: EventTrigger) -> None:
        loads = [self.producer[f] for f in trigger.after]
        tma = [op for op in loads if isinstance(op, TmaLoad)]
        total = sum(tile_bytes(op.dest) for op in tma)
        for op in tma:
            self.loads[op] = _Load(op, trigger.refs[0].event, trigger, False, total)
        order = {op: n for n, op in enumerate(self.kernel.walk())}
        if tma:
            self.loads[min(tma, key=lambda op: order[op])].leads = True

    def wait_sets(self, event: Event) -> list[ThreadSet | None]:
        return [op.threads for op in self.waits[event]]


def _own_name(op: TmaLoad) -> str:
    return f"{op.future.name}_full" if op.future is not None and op.future.name else f"{op.dest.root.name}_full"


def tile_bytes(view: View) -> int:
    """Bytes that a transaction of the whole tile counts: out-of-range elements are counted too (and read as zero)."""
    count = BYTES[view.root.type]
    for extent in view.extents:
        count *= extent.known or 1
    return count


def _never_completed(op: TmaLoad, sink: Sink) -> None:
    sink.error(
        "E-815",
        op.span,
        "this load is never waited for and no event is triggered after it",
        hint="write `trigger EVENT after FUTURE;` or `wait FUTURE;`",
    )


# --------------------------------------------------------------------------------------------------------- decision
def _decide(kernel: Kernel, event: Event, sites: _Sites, sink: Sink) -> None:
    own = [load for load in sites.loads.values() if load.event is event and load.trigger is None]
    triggers = sites.triggers[event]
    after = [op for op in triggers if op.after]
    plain = [op for op in triggers if not op.after]
    event.waiters = _union(sites.wait_sets(event))
    event.triggers = _union([_trigger_threads(op, sites) for op in triggers] + [_leader(load.op) for load in own])

    if own:
        _by_tma(event, own[0].total_bytes, "the load has no event, so it gets one: 1 arrival + its bytes (V7)", sink)
    elif after and plain:
        sink.error(
            "E-1026",
            plain[0].span,
            f"`{event.name}` is triggered both by loads and by threads",
            labels=[(op.span, "a load completes it here") for op in after[:1] if op.span],
            notes=["loads complete a generation with one arrival, threads with one a warp: one count cannot be both"],
            hint="use two events",
        )
    elif after:
        sizes = {next(load.total_bytes for load in sites.loads.values() if load.trigger is op) for op in after}
        why = "TMA completes it: 1 arrival that announces the bytes of the joined loads (V1)"
        _by_tma(event, max(sizes), why, sink)
    elif not plain:
        event.lowering, event.arrivals, event.why = "mbarrier", 1, "nothing triggers it"
        if sites.waits[event]:
            _never_triggered(event, sites, sink)
    else:
        _by_threads(kernel, event, plain, sites, sink)


def _never_triggered(event: Event, sites: _Sites, sink: Sink) -> None:
    sink.error(
        "E-2301",
        sites.waits[event][0].span,
        f"nothing triggers `{event.name}`, so this wait "
        + ("passes once and then never" if event.ready else "never ends"),
        labels=[(event.span, "declared here")] if event.span else [],
        hint=f"add `trigger {event.name};` where its condition holds",
    )


def _by_tma(event: Event, total: int, why: str, sink: Sink) -> None:
    event.lowering, event.arrivals, event.tx_bytes, event.why = "mbarrier", 1, total, why
    if total > MBARRIER_MAX_TX:
        sink.error(
            "E-2302",
            event.span,
            f"one generation of `{event.name}` counts {total} bytes; an mbarrier counts at most {MBARRIER_MAX_TX}",
            hint="join fewer loads to one event",
        )


def _by_threads(kernel: Kernel, event: Event, plain: list[EventTrigger], sites: _Sites, sink: Sink) -> None:
    unknown = next((op for op in plain if op.threads is None), None)
    if unknown is not None or event.triggers is None:
        sink.error(
            "E-2101",
            (unknown or plain[0]).span,
            f"which threads trigger `{event.name}` here depends on run-time values that differ between threads",
            notes=["the number of arrivals of an event is fixed when its barrier is made"],
            hint="trigger it outside the `if`, or make the condition depend on thread indices and constants only",
        )
        return
    reason = _not_a_named_barrier(event, sites)
    if reason is None:
        event.barrier_id = BarrierIds.of(kernel).for_event()
        reason = None if event.barrier_id is not None else "no named barrier id is left"
    if reason is None:
        assert event.waiters is not None
        event.lowering = "named_barrier"
        event.barrier_threads = len(event.waiters) + len(event.triggers)
        event.arrivals = len(event.triggers)
        event.why = "one slot, ready, static disjoint sets of whole warps, no TMA: bar.sync / bar.arrive (V2)"
        return
    whole = all(op.threads is not None and op.threads.whole_warps() for op in plain)
    if whole:
        sites.by_warp.add(event)
    event.lowering = "mbarrier"
    counts = {slot: len(s.warps()) if whole else len(s) for slot, s in _generations(event, plain).items()}
    event.arrivals = max(counts.values())
    if len(set(counts.values())) > 1:
        _unequal_slots(event, plain, counts, sink)
    count = "one elected arrival for each triggering warp" if whole else "one arrival for each triggering thread"
    event.why = f"{reason}: mbarrier, {count} (V3, V4)"


def _generations(event: Event, plain: list[EventTrigger]) -> dict[int | None, ThreadSet]:
    """The threads that trigger a generation: of each slot, where all triggers name theirs by constants; else of all."""
    found: dict[int | None, ThreadSet] = {}
    for op in plain:
        for ref in op.refs:
            if ref.event is event:
                slot = constant(ref.slot) if ref.slot is not None else None
                if not isinstance(slot, int):
                    assert event.triggers is not None
                    return {None: event.triggers}
                found[slot] = found.get(slot, ThreadSet(())) | (op.threads or ThreadSet(()))
    return found


def _unequal_slots(event: Event, plain: list[EventTrigger], counts: dict[int | None, int], sink: Sink) -> None:
    sink.error(
        "E-2304",
        event.span,
        f"the slots of `{event.name}` are triggered by different numbers of threads",
        labels=[(op.span, f"by threads {op.threads}") for op in plain if op.span],
        notes=[f"slot {slot}: {count} arrivals" for slot, count in sorted(counts.items(), key=str)],
        hint="declare an event of its own for each slot",
    )


def _not_a_named_barrier(event: Event, sites: _Sites) -> str | None:
    """Why V2 does not apply, or None."""
    sets = sites.wait_sets(event)
    if event.slots > 1:
        return f"{event.slots} slots"
    if event.array:
        return "addressed by order"
    if not event.ready:
        return "starts pending"
    if not sets or any(s is None for s in sets):
        return "no wait" if not sets else "waiters known only at run time"
    waiters, triggers = event.waiters, event.triggers
    assert waiters is not None and triggers is not None
    if any(s != waiters for s in sets):
        return "different threads wait at different places"
    if not waiters.whole_warps() or not triggers.whole_warps():
        return "part of a warp takes part"
    return "a thread both waits and triggers" if len(waiters & triggers) else None


def _union(sets: list[ThreadSet | None]) -> ThreadSet | None:
    result = ThreadSet(())
    for s in sets:
        if s is None:
            return None
        result = result | s
    return result


def _trigger_threads(op: EventTrigger, sites: _Sites) -> ThreadSet | None:
    if not op.after:
        return op.threads
    return _union([_leader(load.op) for load in sites.loads.values() if load.trigger is op])


def _leader(op: TmaLoad) -> ThreadSet | None:
    """The elected thread: the lowest of the active set."""
    if op.threads is None or not len(op.threads):
        return None
    return ThreadSet(((op.threads.first, op.threads.first + 1),))


# ---------------------------------------------------------------------------------------------------------- rewriting
class _Rewrite:
    def __init__(self, kernel: Kernel, sites: _Sites, sink: Sink) -> None:
        self.kernel = kernel
        self.sites = sites
        self.sink = sink
        self.analysis = ThreadAnalysis(kernel)
        self.bits: dict[tuple[Section | None, Event], Variable] = {}
        self.wait_count: dict[tuple[Section | None, Event], int] = defaultdict(int)

    def run(self) -> None:
        self._count_waits(self.kernel.body, _Path(None))
        self._block(self.kernel.body, _Path(None))
        for (section, event), var in self.bits.items():
            block = self.kernel.body if section is None else section.body
            build = Builder(
                span=event.span, threads=ThreadSet.all(self.kernel.threads) if section is None else section.threads
            )
            start = build.const("u32", self._initial_bits(event))
            block.ops[:0] = [*build.take(), VarDeclare(var, start, span=event.span, threads=build.threads)]

    def _initial_bits(self, event: Event) -> int:
        if event.lowering == "named_barrier" or not event.ready:
            return 0
        return (1 << event.slots) - 1

    def _count_waits(self, block: Block, path: _Path) -> None:
        """A path with one wait of an event outside every loop needs no variable: its parity is a constant."""
        for op in block.ops:
            weight = 2 if path.loops else 1
            for event in self._waited_events(op):
                self.wait_count[path.section, event] += weight
            for region in op.regions():
                self._count_waits(region, _enter(path, op))

    def _waited_events(self, op: Op) -> Iterator[Event]:
        if isinstance(op, EventWait):
            yield from (ref.event for ref in op.refs)
        elif isinstance(op, FutureWait):
            yield from (self.sites.own_event[f] for f in op.futures if f in self.sites.own_event)
        elif isinstance(op, TmaLoad) and op.future is None:
            yield self.sites.loads[op].event

    def _block(self, block: Block, path: _Path) -> None:
        result: list[Op] = []
        for position, op in enumerate(block.ops):
            if isinstance(op, EventWait):
                for ref in op.refs:
                    result += self._wait(ref, op, path)
            elif isinstance(op, FutureWait):
                result += self._future_wait(op, path)
            elif isinstance(op, EventTrigger):
                result += [] if op.after else self._trigger(op)
            elif isinstance(op, TmaLoad):
                result += self._load(op, block, position, path)
            else:
                for region in op.regions():
                    self._block(region, _enter(path, op))
                result.append(op)
        block.ops[:] = result

    # ------------------------------------------------------------------------------------------------------------ waits
    def _wait(self, ref: EventRef, op: Op, path: _Path) -> list[Op]:
        event = ref.event
        build = Builder(span=op.span, threads=op.threads)
        if event.lowering == "named_barrier":
            return self._named_wait(event, build, path)
        if ref.order is not None:
            slot, parity = self._slot_and_parity(ref, build)
            return [*build.take(), MbarrierWait(event, slot, parity, span=op.span, threads=op.threads)]
        if self.wait_count[path.section, event] == 1:
            parity = build.const("u32", int(event.ready))
            return [*build.take(), MbarrierWait(event, ref.slot, parity, span=op.span, threads=op.threads)]
        return self._implicit_wait(ref, build, path)

    def _slot_and_parity(self, ref: EventRef, build: Builder) -> tuple[Value | None, Value]:
        """V5."""
        event = ref.event
        assert ref.order is not None
        order = build.cast(ref.order, "u32")
        slots, one = build.const("u32", event.slots), build.const("u32", 1)
        slot = build.binary("mod", order, slots) if event.slots > 1 else None
        generation = build.binary("div", order, slots) if event.slots > 1 else order
        parity = build.binary("and", generation, one)
        if event.ready:
            parity = build.binary("xor", parity, one)
        return slot, parity

    def _implicit_wait(self, ref: EventRef, build: Builder, path: _Path) -> list[Op]:
        """V6."""
        event = ref.event
        var = self._bits(event, path, "phase")
        bits, one = build.var_get(var), build.const("u32", 1)
        if ref.slot is None or event.slots == 1:
            parity, flip = bits, one
        else:
            slot = build.cast(ref.slot, "u32")
            parity = build.binary("and", build.binary("shr", bits, slot), one)
            flip = build.binary("shl", one, slot)
        wait = MbarrierWait(event, ref.slot, parity, span=build.span, threads=build.threads)
        before = build.take()
        flipped = build.binary("xor", bits, flip)
        return [*before, wait, *build.take(), VarSet(var, flipped, span=build.span, threads=build.threads)]

    def _named_wait(self, event: Event, build: Builder, path: _Path) -> list[Op]:
        """V2: a path's first wait is for generation 0, which is complete."""
        assert event.barrier_id is not None
        if self.wait_count[path.section, event] == 1:
            return []
        var = self._bits(event, path, "begun")
        begun = build.binary("ne", build.var_get(var), build.const("u32", 0))
        sync = NamedBarrierSync(event.barrier_id, event.barrier_threads, event, span=build.span, threads=build.threads)
        result = [*build.take(), If(begun, Block([sync]), None, span=build.span, threads=build.threads)]
        one = build.const("u32", 1)
        return [*result, *build.take(), VarSet(var, one, span=build.span, threads=build.threads)]

    def _bits(self, event: Event, path: _Path, what: str) -> Variable:
        key = (path.section, event)
        if key not in self.bits:
            var = Variable(self.kernel.fresh(f"{event.name}_{what}"), "u32", span=event.span)
            self.kernel.variables.append(var)
            self.bits[key] = var
        return self.bits[key]

    def _future_wait(self, op: FutureWait, path: _Path) -> list[Op]:
        result: list[Op] = []
        rest: list[Value] = []
        for future in op.futures:
            event = self.sites.own_event.get(future)
            if event is not None:
                result += self._wait(EventRef(event), op, path)
            elif not isinstance(self.sites.producer.get(future), DmaCopy):
                rest.append(future)
        if rest:
            result.append(FutureWait(tuple(rest), span=op.span, threads=op.threads))
        return result

    # -------------------------------------------------------------------------------------------------------- arrivals
    def _trigger(self, op: EventTrigger) -> list[Op]:
        result: list[Op] = []
        for ref in op.refs:
            event = ref.event
            build = Builder(span=op.span, threads=op.threads)
            if event.lowering == "named_barrier":
                assert event.barrier_id is not None
                result.append(
                    NamedBarrierArrive(event.barrier_id, event.barrier_threads, event, span=op.span, threads=op.threads)
                )
                continue
            slot = self._slot(ref, build)
            arrive = MbarrierArrive(event, slot, span=op.span, threads=op.threads)
            result += build.take()
            by_warp = event in self.sites.by_warp
            result.append(Elect("warp", None, Block([arrive]), span=op.span, threads=op.threads) if by_warp else arrive)
        return result

    def _slot(self, ref: EventRef, build: Builder) -> Value | None:
        if ref.order is None:
            return ref.slot
        if ref.event.slots == 1:
            return None
        return build.binary("mod", build.cast(ref.order, "u32"), build.const("u32", ref.event.slots))

    # ------------------------------------------------------------------------------------------------------------ loads
    def _load(self, op: TmaLoad, block: Block, position: int, path: _Path) -> list[Op]:
        load = self.sites.loads[op]
        if op.threads is None:
            self._unknown_issuer(op)
            return []
        if not len(op.threads):
            return []
        build = Builder(span=op.span, threads=op.threads)
        slot: Value | None = None
        if load.trigger is not None:
            ref = self._available(load.trigger.refs[0], load.trigger, block, position, build)
            slot = self._slot(ref, build)
        leader = _leader(op)
        body: list[Op] = []
        if load.leads:
            body.append(MbarrierExpectTx(load.event, slot, load.total_bytes, span=op.span, threads=leader))
        body.append(TmaIssue(op.source, op.dest, op.evict, load.event, slot, span=op.span, threads=leader))
        issue = Elect("set", op.threads.first, Block(body), span=op.span, threads=op.threads)
        self._one_issuer(op)
        result: list[Op] = []
        if load.trigger is None and path.loops:
            result += barrier(self.kernel, op.threads, op.span, self.sink)  # all have read what the load overwrites
        result += [*build.take(), issue]
        if op.future is None:
            result += self._wait(EventRef(load.event), op, path)
        return result

    def _one_issuer(self, op: TmaLoad) -> None:
        """One thread issues for all: the tile must be the same for all of them."""
        assert op.threads is not None
        if len(self.analysis.groups([*op.source.values(), *op.dest.values()], op.threads)) > 1:
            self.sink.error(
                "E-832",
                op.span,
                "the tile of this TMA load differs between the threads that execute it",
                notes=[f"one elected thread issues the load for threads {op.threads}"],
                hint="put the load into an `inthreads` block in which the tile is the same for all threads",
            )

    def _unknown_issuer(self, op: TmaLoad) -> None:
        self.sink.error(
            "E-2101",
            op.span,
            "which threads execute this TMA load depends on run-time values that differ between threads",
            notes=["one thread must be elected to issue it"],
            hint="move the load out of the divergent `if` or loop",
        )

    def _available(self, ref: EventRef, trigger: EventTrigger, block: Block, position: int, build: Builder) -> EventRef:
        """The trigger's slot and order as of the load, which stands before it in the same block (rule A-21)."""
        if trigger not in block.ops:
            self.sink.error(
                "E-1020",
                trigger.span,
                "this trigger is not in the same block as the load that it names",
                labels=[(block.ops[position].span, "the load")] if block.ops[position].span else [],  # type: ignore[list-item]
                hint="put `trigger .. after ..` into the block of the load",
            )
            return ref
        between = block.ops[position : block.ops.index(trigger)]
        defined = {value: op for op in between for value in op.results()}
        changed = {inner.var for op in between for inner in _self_and_nested(op) if isinstance(inner, VarSet)}
        copied: dict[Value, Value] = {}

        def bring(value: Value) -> Value:
            op = defined.get(value)
            if op is None:
                return value
            if value not in copied:
                if isinstance(op, VarGet) and op.var not in changed:
                    copied[value] = build.var_get(op.var)
                elif op.PURE:
                    clone = clone_ops([op], {v: bring(v) for v in op.operands()})[0]
                    build.add(clone)
                    copied[value] = next(clone.results())
                else:
                    self._order_changes(trigger, block.ops[position].span)
                    return value
            return copied[value]

        moved = ref.map_values(bring)
        assert isinstance(moved, EventRef)
        return moved

    def _order_changes(self, trigger: EventTrigger, load: Span | None) -> None:
        self.sink.error(
            "E-2303",
            trigger.span,
            "the order of this trigger is only known after the load that it names",
            labels=[(load, "the load needs its barrier here")] if load else [],
            notes=["the load is issued against the barrier of the generation it will complete"],
            hint="compute the order before the load, and change it after the trigger",
        )


def _enter(path: _Path, op: Op) -> _Path:
    if isinstance(op, Section) and op.role and path.section is None:
        return _Path(op, path.loops)
    return _Path(path.section, path.loops + isinstance(op, (For, While)))


def _self_and_nested(op: Op) -> Iterator[Op]:
    yield op
    for region in op.regions():
        yield from region.walk()
