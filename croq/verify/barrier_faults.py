"""Words for what the machine finds at barriers: phases that mix, that are missed, that never complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.ir.core import Op
from croq.verify.faults import Fault, listed
from croq.verify.sites import Site

if TYPE_CHECKING:
    from croq.verify.barriers import Bar, Barriers, Named
    from croq.verify.state import Warp


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
    return Fault(
        "E-6009",
        f"the barrier of `{bar.name}` may be used before it is initialised",
        site,
        labels=[(bar.event.span, "the event is declared here")],
        notes=["initialisation and a barrier of the CTA must come before every use. PTX ISA, mbarrier.init"],
        moments=[state.note(warp, site, f"use {bar.name}", (), {bar.event})],
        about={bar.event},
        warp=warp.index,
    )


def born_twice(bar: Bar, site: Site, warp: Warp) -> Fault:
    return Fault(
        "E-6005",
        f"the barrier of `{bar.name}` is initialised more than once",
        site,
        notes=["one thread initialises a barrier, once. PTX ISA, mbarrier.init"],
        about={bar.event},
        warp=warp.index,
    )


def unfenced_init(bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
    return Fault(
        "E-6004",
        f"the copy engine may see `{bar.name}` before it is initialised",
        site,
        notes=["the initialisation needs `fence.mbarrier_init` and a barrier behind it. PTX ISA, fence.mbarrier_init"],
        moments=[moment],
        about={bar.event},
        warp=warp.index,
    )


def mixed(bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
    return Fault(
        "E-6005",
        f"`{bar.event.name}` is triggered again before everybody is past its last generation",
        site,
        notes=[
            f"nothing makes this arrival of warp {warp.index} come after completion {bar.done} of {bar.name}, so it "
            f"may count as a second arrival of the same generation",
            f"a generation of `{bar.event.name}` has {bar.count} arrival{'s' if bar.count != 1 else ''}",
        ],
        hint=f"let it wait for something that follows completion {bar.done} of `{bar.event.name}`",
        moments=[moment, bar.moment],
        ending=f"may count for generation {bar.done} or {bar.done + 1} of {bar.name}",
        about={bar.event},
        warp=warp.index,
    )


def too_many(bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
    return Fault(
        "E-6005",
        f"a generation of `{bar.event.name}` gets more arrivals than the {bar.count} it has",
        site,
        moments=[moment],
        ending=f"{bar.pending} arrivals are left",
        about={bar.event},
        warp=warp.index,
    )


def late_bytes(bar: Bar, site: Site, warp: Warp, moment: int) -> Fault:
    return Fault(
        "E-6007",
        f"bytes of this load may count for generation {bar.done} of `{bar.event.name}`, which does not expect them",
        site,
        notes=[f"nothing makes the load come after completion {bar.done} of {bar.name}"],
        hint="announce the bytes of all loads of a generation with its arrival, and wait before the next one",
        moments=[moment, bar.moment],
        ending=f"lands in generation {bar.done} or {bar.done + 1} of {bar.name}",
        about={bar.event},
        warp=warp.index,
    )


def mismatch(bar: Bar, site: Site, warp: Warp | None) -> Fault:
    moments = [m for *_, m in bar.arrivals]
    more = "more" if bar.landed > bar.expected else "fewer"
    return Fault(
        "E-6007",
        f"a generation of `{bar.event.name}` expects {bar.expected} bytes, and its loads bring {bar.landed}",
        site,
        labels=[(s.span, "part of this generation") for s in dict.fromkeys(s for _, s, _ in bar.arrivals)][:4],
        notes=[
            "with more bytes than announced the phase completes while a load is in flight"
            if more == "more"
            else "the phase never completes"
        ],
        hint="announce exactly the bytes of the loads that count on the barrier",
        moments=moments,
        ending=f"{bar.name} expects {bar.expected} bytes and gets {bar.landed}",
        about={bar.event},
        warp=warp.index if warp else None,
    )


def lapped(state: Barriers, bar: Bar, waiter: Site, agent: int, moment: int, over: Site | None) -> Fault:
    """`over`: whose arrival completes the next phase; None when the waiter comes too late in this very run."""
    target = bar.done if over is not None else bar.done - 1
    ends = [m for *_, m in bar.arrivals] if over is not None else [bar.moment]
    who = state.who(agent)
    return Fault(
        "E-6006",
        f"{who} can miss a generation of `{bar.event.name}` and wait for ever",
        waiter,
        labels=[(over.span, "the next generation completes here without it")] if over is not None else [],
        notes=[
            f"completion {target + 1} of {bar.name} does not depend on this wait for completion {target}: a thread "
            "that comes here too late finds a parity that means another generation",
            "an mbarrier shows one bit of its phase. PTX ISA, mbarrier.test_wait, phaseParity",
        ],
        hint=f"let only threads wait for `{bar.event.name}` whose work the next trigger depends on, or keep the others "
        "in step with a barrier",
        moments=[*ends, *([moment] if over is None else [])],
        ending=f"{bar.name} #{target + 1} completes, and {who} may not have seen #{target}",
        about={bar.event},
        warp=state.owner[agent].index,
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
        f"{barrier.name} is used with {count} threads, and {barrier.threads} of {barrier.count or count} are there",
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
            if bar.asleep and not bar.pending and bar.tx > 0:
                return mismatch(bar, bar.arrivals[-1][1], None)
    stuck: dict[tuple[Site, str], list[Warp]] = {}
    for warp in state.warps:
        if not warp.done and warp.blocked is not None:
            stuck.setdefault(warp.blocked, []).append(warp)
    (site, _), *others = stuck
    notes = [f"{_wait(stuck[key])} for {key[1]}" for key in stuck]
    ended = [w.index for w in state.warps if w.done]
    if ended:
        notes.append(f"{listed(ended)} {'has' if len(ended) == 1 else 'have'} ended")
    notes += list(_missing(state))
    return Fault(
        "E-6008",
        f"deadlock: {listed([w.index for group in stuck.values() for w in group])} can never go on",
        site,
        labels=[(s.span, f"{_wait(stuck[s, t])} here") for s, t in others if s is not site],
        notes=notes,
        hint="an event is waited for more often than it is triggered, or the handshakes wait for one another",
        moments=[state.history.last[w.index] for w in state.warps if state.history and w.index in state.history.last],
        ending="all that are left wait",
        about={s.objects.get("event") for s, _ in stuck} - {None},
    )


def _wait(warps: list[Warp]) -> str:
    return f"{listed([w.index for w in warps])} {'waits' if len(warps) == 1 else 'wait'}"


def _missing(state: Barriers) -> list[str]:
    found = []
    for bars in state.bars.values():
        for bar in bars:
            if bar.asleep:
                there = sorted({w for w, *_ in bar.arrivals})
                have = f"{listed(there)} arrived" if there else "nobody arrived"
                found.append(f"{bar.name} lacks {bar.pending} of {bar.count} arrivals: {have} in this generation")
    return found
