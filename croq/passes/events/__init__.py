"""What each event becomes, and its numbers.

Rules (language reference section 10; PTX ISA "mbarrier"; seed document, step 4)
    B1  `trigger e after f..` -> mbarrier. A generation is one arrival and the bytes of all joined loads, out-of-range
        elements included. The thread that issues the first of the loads arrives and announces the bytes
        (`expect_tx`) before it issues it, so the phase cannot complete early however late the trigger stands.
    B2  A scalar `= ready` event whose wait and trigger sets are static, disjoint and made of whole warps, the same set
        at every wait, and that no TMA completes -> CTA named barrier: wait is `bar.sync`, trigger is `bar.arrive`, both
        counting waiters + triggers. Generation 0 is complete from the start, so a path's first wait passes without an
        instruction: an arrival that primed the barrier instead could merge with the first real trigger.
    B3  Everything else -> one mbarrier a slot.
    B4  Arrivals of an mbarrier generation: one elected arrival a warp of the union of the trigger sites' threads, after
        the warp has reconverged (hopper.md: no slower than fewer, and the only count the ISA's text covers). A site
        that does not fill its warps, or names another order in each lane, arrives thread by thread, and then so do all.
        Sites whose orders can never be equal take turns and do not add up (analysis/generations.py); unequal turns
        are E-2304: a barrier has one count.
    B5  `e.at(order)`: slot `order % N`, parity `order / N & 1`; the waiters of a ready event start on the other parity
        (the phase before a barrier's first counts as complete).
    B6  An un-indexed event keeps its generation in a parity bit for each path, flipped after every wait; `e[i]` keeps
        one bit a slot (E-2305 beyond 32). A path is a role, or the CTA's own code with all roles that share threads
        with it, with one another, or that a loop repeats. A path with one wait outside every loop needs no bit.
    B7  A load without an event (synchronous, or waited for by its future) gets an mbarrier of its own, B1. Its phase
        follows the load, not its waits: any number of them wait for the last load. A barrier of the threads around
        stands before the load where they have used its buffer before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.facts import BARRIERS
from croq.ir.hw import (
    CtaSync,
    Elect,
    MbarrierArrive,
    MbarrierExpectTx,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
    WarpSync,
)
from croq.ir.objects import Event, Kernel
from croq.ir.tile import EventTrigger, EventWait, TmaIssue, TmaLoad
from croq.ir.types import ThreadSet
from croq.passes.analysis.barriers import id_for_event
from croq.passes.analysis.generations import Remainders, generations
from croq.passes.analysis.threads import ThreadAnalysis
from croq.passes.base import Pass
from croq.passes.events.lowering import PHASE_BITS, EventLowering
from croq.passes.events.sites import Sites, leader, union
from croq.target.cuda import MBARRIER_MAX_TX


@dataclass(frozen=True)
class Events(Pass):
    name: ClassVar[str] = "events"
    needs = ("participants",)
    adds = (
        Elect,
        CtaSync,
        MbarrierArrive,
        MbarrierExpectTx,
        MbarrierWait,
        NamedBarrierArrive,
        NamedBarrierSync,
        WarpSync,
        TmaIssue,
        BARRIERS,
    )
    leaves_no = (EventTrigger, EventWait, TmaLoad)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        sites = Sites(kernel)
        sites.add_loads(sink)
        for event in kernel.events:
            _decide(kernel, event, sites, sink)
        if not sink.failed:
            EventLowering(kernel, sites, sink).run()


def _decide(kernel: Kernel, event: Event, sites: Sites, sink: Sink) -> None:
    own = [load for load in sites.loads.values() if load.event is event and load.trigger is None]
    triggers = sites.triggers[event]
    after = [op for op in triggers if op.after]
    plain = [op for op in triggers if not op.after]
    event.waiters = union(sites.wait_sets(event))
    event.triggers = union([_trigger_threads(op, sites) for op in triggers] + [leader(load.op) for load in own])

    _check_slots(event, sites, sink)
    if own:
        _by_tma(event, own[0].total_bytes, "the load has no event, so it gets one: 1 arrival + its bytes (B7)", sink)
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
        why = "TMA completes it: 1 arrival that announces the bytes of the joined loads (events.B1)"
        _by_tma(event, max(sizes), why, sink)
    elif not plain:
        event.lowering, event.arrivals, event.why = "mbarrier", 1, "nothing triggers it"
        if sites.waits[event] and not (event.ready and not sites.may_run_twice(event)):
            _never_triggered(event, sites, sink)
    else:
        _by_threads(kernel, event, plain, sites, sink)


def _check_slots(event: Event, sites: Sites, sink: Sink) -> None:
    """B6: a bit a slot."""
    waits = [op for op in sites.waits[event] if isinstance(op, EventWait)]
    by_slot = [op for op in waits if any(ref.event is event and ref.slot is not None for ref in op.refs)]
    if by_slot and event.slots > PHASE_BITS:
        sink.error(
            "E-2305",
            by_slot[0].span,
            f"`{event.name}` has {event.slots} slots; at most {PHASE_BITS} can be waited for by number",
            labels=[(event.span, "declared here")] if event.span else [],
            notes=["a waiter keeps the phase of every slot in one register"],
            hint=f"use `{event.name}.at(order)`, which carries the generation",
        )


def _never_triggered(event: Event, sites: Sites, sink: Sink) -> None:
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


def _by_threads(kernel: Kernel, event: Event, plain: list[EventTrigger], sites: Sites, sink: Sink) -> None:
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
        event.barrier_id = id_for_event(kernel)
        reason = None if event.barrier_id is not None else "no named barrier id is left"
    if reason is None:
        assert event.waiters is not None
        event.lowering = "named_barrier"
        event.barrier_threads = len(event.waiters) + len(event.triggers)
        event.arrivals = len(event.triggers)
        event.why = "one slot, ready, static disjoint sets of whole warps, no TMA: bar.sync / bar.arrive (events.B2)"
        return
    remainders = Remainders(kernel, ThreadAnalysis(kernel))
    whole = all(_by_warps(op, event, remainders) for op in plain)
    if whole:
        sites.by_warp.add(event)
    event.lowering = "mbarrier"
    acting = generations(event, plain, remainders)
    counts = {number: len(s.warps()) if whole else len(s) for number, s in acting.items()}
    event.arrivals = max(counts.values())
    if len(set(counts.values())) > 1:
        _unequal_generations(event, plain, counts, sink)
    count = "one elected arrival for each triggering warp" if whole else "one arrival for each triggering thread"
    event.why = f"{reason}: mbarrier, {count} (events.B3, events.B4)"


def _by_warps(op: EventTrigger, event: Event, remainders: Remainders) -> bool:
    """Whether one lane can arrive for each warp: all lanes are there and mean the same generation."""
    assert op.threads is not None
    named = [v for ref in op.refs if ref.event is event for v in (ref.order, ref.slot) if v is not None]
    return op.threads.whole_warps() and all(remainders.same_in_warps(v) for v in named)


def _unequal_generations(event: Event, plain: list[EventTrigger], counts: dict[int | None, int], sink: Sink) -> None:
    sink.error(
        "E-2304",
        event.span,
        f"generations of `{event.name}` are triggered by different numbers of threads",
        labels=[(op.span, f"by threads {op.threads}") for op in plain if op.span],
        notes=[f"order or slot {number}: {count} arrivals" for number, count in list(counts.items())[:8]],
        hint="use an event of its own for each set of threads",
    )


def _not_a_named_barrier(event: Event, sites: Sites) -> str | None:
    """Why B2 does not apply, or None."""
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


def _trigger_threads(op: EventTrigger, sites: Sites) -> ThreadSet | None:
    if not op.after:
        return op.threads
    return union([leader(load.op) for load in sites.loads.values() if load.trigger is op])
