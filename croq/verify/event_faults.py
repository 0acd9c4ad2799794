"""Words for what the source's machine finds at events: generations that mix, that nobody can wait for any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.diagnostics import Diagnostic, make
from croq.verify.faults import Fault
from croq.verify.sites import Site

if TYPE_CHECKING:
    from croq.verify.state import Warp
    from croq.verify.tile_machine import Generations


def again(state: Generations, site: Site, warp: Warp, moment: int) -> Fault:
    return Fault(
        "E-6005",
        f"`{state.event.name}` is triggered again before everybody is past its last generation",
        site,
        notes=[f"nothing makes this trigger of warp {warp.index} come after completion {state.done} of {state.name}"],
        hint=f"let it wait for something that follows completion {state.done} of `{state.event.name}`",
        moments=[moment, state.moment],
        ending=f"may count for generation {state.done} or {state.done + 1} of {state.name}",
        about={state.event},
        warp=warp.index,
    )


def surplus(state: Generations, site: Site, warp: Warp, moment: int) -> Fault:
    return Fault(
        "E-6005",
        f"a generation of `{state.event.name}` is triggered by more threads than the {state.required} that it has",
        site,
        moments=[moment],
        about={state.event},
        warp=warp.index,
    )


def ran_ahead(state: Generations, target: int, site: Site, warp: Warp, moment: int) -> Fault:
    """A generation completes while nobody of those who wait for the one before is known to have seen it."""
    event = state.event.name
    return Fault(
        "E-6006",
        f"`{event}` may be triggered twice while `{site.role}` waits for it once",
        site,
        labels=[(s.span, "the next generation completes here") for _, s, _ in state.arrivals[:1]],
        notes=[
            f"completion {target + 1} of {state.name} does not depend on anybody's return from this wait for "
            f"completion {target}",
            "an event holds one generation for those who wait: a second one takes the place of the first",
        ],
        hint=f"give each generation back by another event (`= ready`), which is waited for before `trigger {event}`",
        moments=[moment, state.moment],
        ending=f"{state.name} #{target + 1} completes, and #{target} may not have been seen",
        about={state.event},
        warp=warp.index,
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
