"""Waits, triggers and loads as operations on the barriers that their events became. The rules are in `events`."""

from __future__ import annotations

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
from croq.ir.rewrite import Builder, by, clone_ops
from croq.ir.scalar import If, VarDeclare, VarGet, VarSet
from croq.ir.tile import EventTrigger, EventWait, FutureWait, TmaIssue, TmaLoad
from croq.ir.types import ThreadSet
from croq.passes.analysis.barriers import barrier
from croq.passes.analysis.threads import ThreadAnalysis
from croq.passes.events.sites import Paths, Place, Sites, leader
from croq.source import Span

PHASE_BITS = 32  # slots whose phases one variable holds


class EventLowering:
    """Of one kernel whose events are decided."""

    def __init__(self, kernel: Kernel, sites: Sites, sink: Sink) -> None:
        self.kernel = kernel
        self.sites = sites
        self.sink = sink
        self.analysis = ThreadAnalysis(kernel)
        self.paths = Paths(sites)
        self.used_before = _used_before(kernel, sites)
        self.bits: dict[tuple[Section | None, Event], Variable] = {}

    def run(self) -> None:
        self._block(self.kernel.body, Place())
        for (section, event), var in self.bits.items():
            block = self.kernel.body if section is None else section.body
            everyone = ThreadSet.all(self.kernel.threads)
            build = Builder(span=event.span, threads=everyone if section is None else section.threads)
            start = build.const("u32", self._initial_bits(event))
            block.ops[:0] = [*build.take(), VarDeclare(var, start, span=event.span, threads=build.threads)]

    def _initial_bits(self, event: Event) -> int:
        if event in self.sites.own_load:
            return 1  # the first load turns it to 0, the parity of generation 0
        if event.lowering == "named_barrier" or not event.ready:
            return 0
        return (1 << event.slots) - 1

    def _block(self, block: Block, place: Place) -> None:
        result: list[Op] = []
        for position, op in enumerate(block.ops):
            if isinstance(op, EventWait):
                for ref in op.refs:
                    result += self._wait(ref, op, place)
            elif isinstance(op, FutureWait):
                result += self._future_wait(op)
            elif isinstance(op, EventTrigger):
                result += [] if op.after else self._trigger(op)
            elif isinstance(op, TmaLoad):
                result += self._load(op, block, position)
            else:
                for region in op.regions():
                    self._block(region, place.enter(op))
                result.append(op)
        block.ops[:] = result

    # ------------------------------------------------------------------------------------------------------------ waits
    def _wait(self, ref: EventRef, op: Op, place: Place) -> list[Op]:
        event = ref.event
        build = Builder(span=op.span, threads=op.threads)
        if event.lowering == "named_barrier":
            return self._named_wait(event, build, place)
        if ref.order is not None:
            slot, parity = self._slot_and_parity(ref, build)
            build.add(MbarrierWait(event, slot, parity, rule="events.B5"))
            return build.take()
        if self.paths.waits_once(event, place):
            return self._only_wait(ref, build)
        return self._implicit_wait(ref, build, place)

    def _only_wait(self, ref: EventRef, build: Builder) -> list[Op]:
        """B6: for generation 0. That of a ready event is complete from the start, and needs no instruction."""
        if ref.event.ready:
            return []
        parity = build.const("u32", 0)
        build.add(MbarrierWait(ref.event, ref.slot, parity, rule="events.B6"))
        return build.take()

    def _slot_and_parity(self, ref: EventRef, build: Builder) -> tuple[Value | None, Value]:
        """B5."""
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

    def _implicit_wait(self, ref: EventRef, build: Builder, place: Place) -> list[Op]:
        """B6."""
        event = ref.event
        var = self._bits(event, self.paths.home(event, place), "phase")
        bits, one = build.var_get(var), build.const("u32", 1)
        if ref.slot is None or event.slots == 1:
            parity, flip = bits, one
        else:
            slot = build.cast(ref.slot, "u32")
            parity = build.binary("and", build.binary("shr", bits, slot), one)
            flip = build.binary("shl", one, slot)
        build.add(MbarrierWait(event, ref.slot, parity, rule="events.B6"))
        build.var_set(var, build.binary("xor", bits, flip))
        return build.take()

    def _named_wait(self, event: Event, build: Builder, place: Place) -> list[Op]:
        """B2: a path's first wait is for generation 0, which is complete."""
        assert event.barrier_id is not None
        if self.paths.waits_once(event, place):
            return []
        var = self._bits(event, self.paths.home(event, place), "begun")
        begun = build.binary("ne", build.var_get(var), build.const("u32", 0))
        sync = NamedBarrierSync(event.barrier_id, event.barrier_threads, event, span=build.span, threads=build.threads)
        build.add(If(begun, Block(by("events.B2", [sync])), None))
        build.var_set(var, build.const("u32", 1))
        return build.take()

    def _bits(self, event: Event, home: Section | None, what: str) -> Variable:
        key = (home, event)
        if key not in self.bits:
            var = Variable(self.kernel.fresh(f"{event.name}_{what}"), "u32", span=event.span)
            self.kernel.variables.append(var)
            self.bits[key] = var
        return self.bits[key]

    def _future_wait(self, op: FutureWait) -> list[Op]:
        """Waits for loads; what else is not an MMA's future was complete when its statement ended."""
        result: list[Op] = []
        for future in op.futures:
            event = self.sites.own_event.get(future)
            if event is not None:
                result += self._wait_for_load(event, op)
        rest = tuple(future for future in op.futures if future not in self.sites.producer)
        if rest:
            result.append(FutureWait(rest, span=op.span, threads=op.threads))
        return result

    def _wait_for_load(self, event: Event, op: Op) -> list[Op]:
        """B7."""
        build = Builder(span=op.span, threads=op.threads)
        var = self._load_phase(event)
        parity = build.const("u32", 0) if var is None else build.var_get(var)
        build.add(MbarrierWait(event, None, parity, rule="events.B7"))
        return build.take()

    def _load_phase(self, event: Event) -> Variable | None:
        """The parity of the load's last generation; None where there is only one."""
        place = self.sites.places[self.sites.own_load[event]]
        return self._bits(event, place.section, "phase") if place.in_loop else None

    # -------------------------------------------------------------------------------------------------------- arrivals
    def _trigger(self, op: EventTrigger) -> list[Op]:
        result: list[Op] = []
        for ref in op.refs:
            event = ref.event
            build = Builder(span=op.span, threads=op.threads)
            if event.lowering == "named_barrier":
                assert event.barrier_id is not None
                build.add(NamedBarrierArrive(event.barrier_id, event.barrier_threads, event, rule="events.B2"))
            else:
                arrive = MbarrierArrive(event, self._slot(ref, build), span=op.span, threads=op.threads)
                build.add(Elect("warp", None, Block([arrive])) if event in self.sites.by_warp else arrive)
            result += by("events.B4", build.take())
        return result

    def _slot(self, ref: EventRef, build: Builder) -> Value | None:
        if ref.order is None:
            return ref.slot
        if ref.event.slots == 1:
            return None
        return build.binary("mod", build.cast(ref.order, "u32"), build.const("u32", ref.event.slots))

    # ------------------------------------------------------------------------------------------------------------ loads
    def _load(self, op: TmaLoad, block: Block, position: int) -> list[Op]:
        load = self.sites.loads[op]
        if op.threads is None:
            self._unknown_issuer(op)
            return []
        self._one_issuer(op)
        build = Builder(span=op.span, threads=op.threads)
        slot: Value | None = None
        if load.trigger is not None:
            ref = self._available(load.trigger.refs[0], load.trigger, block, position, build)
            slot = self._slot(ref, build)
        elif op in self.used_before:
            build.ops += by("events.B7", barrier(self.kernel, op.threads, op.span, self.sink))
        if load.trigger is None:
            self._next_generation(load.event, build)
        body: list[Op] = []
        if load.leads:
            body.append(MbarrierExpectTx(load.event, slot, load.total_bytes, span=op.span, threads=leader(op)))
        body.append(TmaIssue(op.source, op.dest, op.evict, load.event, slot, span=op.span, threads=leader(op)))
        build.add(Elect("set", op.threads.first, Block(body)))
        done = self._wait_for_load(load.event, op) if op.future is None else []
        return by("events.B1" if load.trigger is not None else "events.B7", [*build.take(), *done])

    def _next_generation(self, event: Event, build: Builder) -> None:
        var = self._load_phase(event)
        if var is not None:
            build.var_set(var, build.binary("xor", build.var_get(var), build.const("u32", 1)))

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
        between = block.ops[position : block.ops.index(trigger)]
        defined = {value: op for op in between for value in op.results()}
        changed = {inner.var for op in between for inner in op.walk() if isinstance(inner, VarSet)}
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


def _used_before(kernel: Kernel, sites: Sites) -> set[TmaLoad]:
    """B7: loads without an event that the threads around may still have a use of the buffer in front of."""
    found = {op for op in sites.own_load.values() if sites.places[op].in_loop}
    touched: dict[object, list[Op]] = {}
    for op in kernel.walk():
        views = {effect.root for effect in op.own_effects() if isinstance(effect.target, View)}
        if isinstance(op, TmaLoad) and sites.loads[op].trigger is None:
            earlier = touched.get(op.dest.root, [])
            if any(o.threads is None or op.threads is None or len(o.threads & op.threads) for o in earlier):
                found.add(op)
        for root in views:
            touched.setdefault(root, []).append(op)
    return found
