"""Words for what the machines find at barriers and events: phases that mix, that are missed, that never complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from croq.diagnostics import Diagnostic, make
from croq.ir.core import Op
from croq.ir.types import warps_in_words
from croq.verify.faults import Fault
from croq.verify.sites import Site

if TYPE_CHECKING:
    from croq.verify.barriers import Bar, Barriers, Named, Slot
    from croq.verify.state import Warp
    from croq.verify.tile_machine import Generations


def _at(code: str, slot: Slot, message: str, site: Site, warp: Warp | None, moments: list[int], **more: Any) -> Fault:
    of = warp.index if warp is not None else None
    return Fault(code, message, site, moments=moments, about={slot.event}, warp=of, **more)


def partial(warp: Warp, site: Site, why: str, moment: int = -1) -> Fault:
    op: Op = site.op
    return Fault(
        "E-6011",
        f"a part of warp {warp.index} executes `{op.NAME}`, which takes the whole warp",
        site,
        notes=[why],
        hint="move it out of the code that only some lanes run",
        moments=[moment],
        warp=warp.index,
    )


def unborn(state: Barriers, bar: Bar, site: Site, warp: Warp) -> Fault:
    return _at(
        "E-6009",
        bar,
        f"the barrier of `{bar.name}` may be used before it is initialised",
        site,
        warp,
        [state.note(warp, site, f"use {bar.name}", (), {bar.event})],
        labels=[(bar.event.span, "the event is declared here")],
        notes=["initialisation and a barrier of the CTA must come before every use. PTX ISA, mbarrier.init"],
    )


def born_twice(bar: Bar, site: Site, warp: Warp) -> Fault:
    message = f"the barrier of `{bar.name}` is initialised more than once"
    return _at(
        "E-6005", bar, message, site, warp, [], notes=["one thread initialises a barrier, once. PTX ISA, mbarrier.init"]
    )


def unfenced_init(bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
    message = f"the copy engine may see `{bar.name}` before it is initialised"
    note = "the initialisation needs `fence.mbarrier_init` and a barrier behind it. PTX ISA, fence.mbarrier_init"
    return _at("E-6004", bar, message, site, warp, [moment], notes=[note])


def mixed(bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
    return _again(
        bar,
        site,
        warp,
        moment,
        f"nothing makes this arrival of warp {warp.index} come after completion {bar.done} of {bar.name}, so it "
        f"may count as a second arrival of the same generation",
        f"a generation of `{bar.event.name}` has {bar.state.expected} arrival{'s' if bar.state.expected != 1 else ''}",
    )


def again(state: Generations, site: Site, warp: Warp, moment: int) -> Fault:
    """The same of a trigger in the source."""
    note = f"nothing makes this trigger of warp {warp.index} come after completion {state.done} of {state.name}"
    return _again(state, site, warp, moment, note)


def _again(at: Slot, site: Site, warp: Warp, moment: int, *notes: str) -> Fault:
    return _at(
        "E-6005",
        at,
        f"`{at.event.name}` is triggered again before everybody is past its last generation",
        site,
        warp,
        [moment, at.moment],
        notes=list(notes),
        hint=f"let it wait for something that follows completion {at.done} of `{at.event.name}`",
        ending=f"may count for generation {at.done} or {at.done + 1} of {at.name}",
    )


def too_many(bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
    message = f"a generation of `{bar.event.name}` gets more arrivals than the {bar.state.expected} it has"
    return _at("E-6005", bar, message, site, warp, [moment], ending=f"{bar.state.pending} arrivals are left")


def surplus(state: Generations, site: Site, warp: Warp, moment: int) -> Fault:
    """The same of triggers in the source."""
    message = f"a generation of `{state.event.name}` is triggered by more threads than the {state.required} that it has"
    return _at("E-6005", state, message, site, warp, [moment])


def late_bytes(bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
    return _at(
        "E-6007",
        bar,
        f"bytes of this load may count for generation {bar.done} of `{bar.event.name}`, which does not expect them",
        site,
        warp,
        [moment, bar.moment],
        notes=[f"nothing makes the load come after completion {bar.done} of {bar.name}"],
        hint="announce the bytes of all loads of a generation with its arrival, and wait before the next one",
        ending=f"lands in generation {bar.done} or {bar.done + 1} of {bar.name}",
    )


def mismatch(bar: Bar, site: Site, warp: Warp | None) -> Fault:
    early = bar.landed > bar.announced
    return _at(
        "E-6007",
        bar,
        f"a generation of `{bar.event.name}` expects {bar.announced} bytes, and its loads bring {bar.landed}",
        site,
        warp,
        [m for *_, m in bar.arrivals],
        labels=[(s.span, "part of this generation") for s in dict.fromkeys(s for _, s, _ in bar.arrivals)][:4],
        notes=[
            "with more bytes than announced the phase completes while a load is in flight"
            if early
            else "the phase never completes"
        ],
        hint="announce exactly the bytes of the loads that count on the barrier",
        ending=f"{bar.name} expects {bar.announced} bytes and gets {bar.landed}",
    )


def ran_ahead(state: Generations, target: int, site: Site, warp: Warp, moment: int) -> Fault:
    """A generation completes while nobody of those who wait for the one before is known to have seen it."""
    event = state.event.name
    return _at(
        "E-6006",
        state,
        f"`{event}` may be triggered twice while `{site.role}` waits for it once",
        site,
        warp,
        [moment, state.moment],
        labels=[(s.span, "the next generation completes here") for _, s, _ in state.arrivals[:1]],
        notes=[
            f"completion {target + 1} of {state.name} does not depend on anybody's return from this wait for "
            f"completion {target}",
            "an event holds one generation for those who wait: a second one takes the place of the first",
        ],
        hint=f"give each generation back by another event (`= ready`), which is waited for before `trigger {event}`",
        ending=f"{state.name} #{target + 1} completes, and #{target} may not have been seen",
    )


def other_generation(state: Generations, generation: int, site: Site) -> Diagnostic:
    """Right all the same, where the protocol is: an arrival has a slot and no generation."""
    return make(
        "W-6005",
        site.span,
        f"the order of this trigger names generation {generation} of `{state.name}`, and generation {state.done} is "
        "the current one",
        severity="warning",
        notes=["an arrival has a slot and no generation: it counts for the current one"],
        hint=f"an order that is larger by {state.event.slots} names it",
    )


def lapped(state: Barriers, bar: Bar, waiter: Site, agent: int, moment: int, over: Site | None) -> Fault:
    """`over`: whose arrival completes the next phase; None when the waiter comes too late in this very run."""
    target = bar.done if over is not None else bar.done - 1
    ends = [m for *_, m in bar.arrivals] if over is not None else [bar.moment]
    who = state.who(agent)
    return _at(
        "E-6006",
        bar,
        f"{who} can miss a generation of `{bar.event.name}` and wait for ever",
        waiter,
        state.owner[agent],
        [*ends, *([moment] if over is None else [])],
        labels=[(over.span, "the next generation completes here without it")] if over is not None else [],
        notes=[
            f"completion {target + 1} of {bar.name} does not depend on this wait for completion {target}: a thread "
            "that comes here too late finds a parity that means another generation",
            "an mbarrier shows one bit of its phase. PTX ISA, mbarrier.test_wait, phaseParity",
        ],
        hint=f"let only threads wait for `{bar.event.name}` whose work the next trigger depends on, or keep the others "
        "in step with a barrier",
        ending=f"{bar.name} #{target + 1} completes, and {who} may not have seen #{target}",
    )


def named_mixed(barrier: Named, site: Site, warp: Warp, moment: int) -> Fault:
    return Fault(
        "E-6005",
        f"warp {warp.index} may arrive twice in one generation of {barrier.name}",
        site,
        labels=[(barrier.warps[warp.index][0].span, "it has arrived here")] if warp.index in barrier.warps else [],
        notes=["a named barrier counts arrivals only, it does not tell generations apart. PTX ISA, barrier"],
        hint="let it wait for something that follows the last generation",
        moments=[moment, barrier.moment],
        ending=f"second arrival at {barrier.name}",
        about={barrier.event or barrier.number},
        warp=warp.index,
    )


def named_count(barrier: Named, site: Site, warp: Warp, moment: int, count: int) -> Fault:
    return Fault(
        "E-6005",
        f"{barrier.name} is used with {count} threads, and {barrier.state.arrived} of {barrier.state.count or count} "
        "are there",
        site,
        labels=[(s.span, f"warp {w} arrived here") for w, (s, _) in list(barrier.warps.items())[:2]],
        moments=[moment, *(m for _, m in barrier.warps.values())],
        about={barrier.event or barrier.number},
        warp=warp.index,
    )


def deadlock(state: Barriers) -> Fault:
    """What every warp that is left waits for. Mismatched bytes and missing arrivals are the causes worth naming."""
    for bars in state.bars.values():
        for bar in bars:
            if bar.asleep and not bar.state.pending and bar.state.tx > 0:
                return mismatch(bar, bar.arrivals[-1][1], None)
    stuck: dict[tuple[Site, str], list[Warp]] = {}
    for warp in state.warps:
        if not warp.done and warp.blocked is not None:
            stuck.setdefault(warp.blocked, []).append(warp)
    (site, _), *others = stuck
    notes = [f"{_wait(stuck[key])} for {key[1]}" for key in stuck]
    ended = [w.index for w in state.warps if w.done]
    if ended:
        notes.append(f"{warps_in_words(ended)} {'has' if len(ended) == 1 else 'have'} ended")
    notes += list(_missing(state))
    return Fault(
        "E-6008",
        f"deadlock: {warps_in_words([w.index for group in stuck.values() for w in group])} can never go on",
        site,
        labels=[(s.span, f"{_wait(stuck[s, t])} here") for s, t in others if s is not site],
        notes=notes,
        hint="an event is waited for more often than it is triggered, or the handshakes wait for one another",
        moments=[state.history.last[w.index] for w in state.warps if state.history and w.index in state.history.last],
        ending="all that are left wait",
        about={s.objects.get("event") for s, _ in stuck} - {None},
    )


def _wait(warps: list[Warp]) -> str:
    return f"{warps_in_words([w.index for w in warps])} {'waits' if len(warps) == 1 else 'wait'}"


def _missing(state: Barriers) -> list[str]:
    found = []
    for bars in state.bars.values():
        for bar in bars:
            if bar.asleep:
                there = sorted({w for w, *_ in bar.arrivals})
                have = f"{warps_in_words(there)} arrived" if there else "nobody arrived"
                found.append(
                    f"{bar.name} lacks {bar.state.pending} of {bar.state.expected} arrivals: {have} in this generation"
                )
    return found
