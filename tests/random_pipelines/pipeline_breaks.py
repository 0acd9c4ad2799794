"""One fault at a time, put into the text of a correct pipeline.

Each breakage is offered only where it certainly changes what some input and schedule can see. Where another rule of the
same program still keeps everything apart, the change would be equivalent, so it is not offered:

  * A producer that does not wait for a slot of ring x is still held back where it waits, in the same loop, for a slot
    of another ring y whose release tells that the consumers are past the step that used x: when y's reach is no longer
    than x's (`Ring.reach`). `_alone` asks that x's reach be the shortest of its producer's rings; a relay couples the
    rings of all producers, so there all are compared.
  * The tile Q is asked for once a unit, and asking for it means that the unit before is over. If a unit also has a
    bounded trip count, no ring may ever be full: a missing wait for a slot then shows nothing.
  * Ordinary copies of one role are over in program order: who waits for the last one need not wait for the others.
  * MMAs complete in the order of their issue: behind the wait for a younger one, an older one's shows nothing.
  * A step that is written out before the loop, in a launch that has one unit, knows no generation but the first.
  * What is given back after the last use of everything is waited for by nobody (`Line.vital`), and what is used once in
    a launch need not be waited for before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.random_pipelines.pipeline_plans import Plan, Ring
from tests.random_pipelines.pipeline_text import Line

Lines = list[Line]


@dataclass(frozen=True)
class Breakage:
    name: str  # what was done, for the report
    lines: tuple[Line, ...]


def breakages(plan: Plan, lines: Lines) -> list[Breakage]:
    """All single faults of a program, in a fixed order."""
    found = [Breakage(name, tuple(broken)) for make in _MAKERS for name, broken in make(plan, lines)]
    return [b for b in found if list(b.lines) != lines]


Maker = Callable[[Plan, Lines], Iterator[tuple[str, Lines]]]


# ------------------------------------------------------------------------------------------------------------ removed
def _removed_waits(plan: Plan, lines: Lines) -> Iterator[tuple[str, Lines]]:
    for at, line in enumerate(lines):
        matters = line.kind == "future" or (line.kind == "wait full" and _tile_matters(plan, line.about))
        if matters or (line.kind == "wait empty" and _slot_matters(plan, line.about)):
            yield f"removed: {line.text}", _without(lines, at)


def _removed_triggers(plan: Plan, lines: Lines) -> Iterator[tuple[str, Lines]]:
    for at, line in enumerate(lines):
        if line.kind == "trigger full":
            yield f"removed: {line.text}", _without(lines, at)
        if line.kind == "release" and line.vital and _released_again(plan, line.about):
            yield f"removed: {line.text}", _without(lines, at)


def _without(lines: Lines, at: int) -> Lines:
    """The statement goes; one that an `if` stands before leaves an empty one."""
    guarded = lines[at - 1].text.startswith("if ") and not lines[at - 1].text.endswith("{")
    return [*lines[:at], *([Line(";")] if guarded else []), *lines[at + 1 :]]


# -------------------------------------------------------------------------------------------------------- wrong order
def _early_releases(plan: Plan, lines: Lines) -> Iterator[tuple[str, Lines]]:
    """A slot is given back before the statement that reads it."""
    for at, line in enumerate(lines):
        vital = line.kind == "release" and line.vital and _slot_matters(plan, line.about)
        if not vital or lines[at - 1].text.startswith("if "):
            continue
        start = next((i for i in range(at, -1, -1) if lines[i].kind in ("steps", "units") or lines[i].text == "{"), 0)
        uses = [i for i in range(start, at) if lines[i].kind == "use" and line.about in lines[i].about.split()]
        if uses:
            yield f"before its use: {line.text}", _moved(lines, at, uses[0])
        if uses and plan.asynchronous and lines[uses[-1]].text.startswith("f"):
            yield f"before the wait for the MMA: {line.text}", _moved(lines, at, uses[-1] + 1)


def _late_waits(plan: Plan, lines: Lines) -> Iterator[tuple[str, Lines]]:
    """A wait stands behind what it should come before."""
    for at, line in enumerate(lines):
        about = line.about
        if line.kind == "wait full" and about != "o" and _tile_matters(plan, about):
            use = _next(lines, at, "use", about)
            if use is not None and not lines[use].text.endswith("{"):
                yield f"behind the use: {line.text}", _moved(lines, at, use + 1)
        if line.kind == "wait empty" and about not in ("q", "o") and _slot_matters(plan, about):
            load = _next(lines, at, "load", about)
            if load is not None:
                yield f"behind the load: {line.text}", _moved(lines, at, load + 1)
        if line.kind == "future" and _wait_matters(plan, int(about)):
            bump = _next(lines, at, "bump", about)
            if bump is not None:
                yield f"behind the use: {line.text}", _moved(lines, at, bump + 2)


def _next(lines: Lines, at: int, kind: str, about: str) -> int | None:
    """The first line behind `at` of that kind that concerns `about`."""
    return next(
        (i for i in range(at + 1, len(lines)) if lines[i].kind == kind and about in lines[i].about.split()), None
    )


def _moved(lines: Lines, at: int, to: int) -> Lines:
    rest = [*lines[:at], *lines[at + 1 :]]
    to -= to > at
    return [*rest[:to], lines[at], *rest[to:]]


# -------------------------------------------------------------------------------------------------- depths and phases
def _depths(plan: Plan, lines: Lines) -> Iterator[tuple[str, Lines]]:
    for ring in plan.rings:
        if _slot_matters(plan, ring.name):
            yield (
                f"events of {ring.name} have one slot more than its tiles",
                [
                    replace(line, text=line.text.replace(f"[{ring.depth}]", f"[{ring.depth + 1}]"))
                    if line.kind in ("full event", "empty event") and line.about == ring.name
                    else line
                    for line in lines
                ],
            )
        if ring.depth > 1:
            yield from _next_slot(ring, lines)


def _next_slot(ring: Ring, lines: Lines) -> Iterator[tuple[str, Lines]]:
    for at, line in enumerate(lines):
        tile = next((t for t in ring.tiles if f"{t.name}_buf[" in line.text), None)
        if line.kind == "use" and tile is not None:
            before, _, rest = line.text.partition(f"{tile.name}_buf[")
            index, _, tail = rest.partition("]")
            index = index.removesuffix(f" % {ring.depth}")
            text = f"{before}{tile.name}_buf[({index} + 1) % {ring.depth}]{tail}"
            yield f"next slot: {line.text}", [*lines[:at], replace(line, text=text), *lines[at + 1 :]]


def _generations(plan: Plan, lines: Lines) -> Iterator[tuple[str, Lines]]:
    """The order of a wait loses its generation, or a role counts from 0 again in each unit."""
    for at, line in enumerate(lines):
        ring = next((r for r in plan.rings if r.name == line.about), None)
        if line.kind == "wait full" and ring is not None and line.vital and _tile_matters(plan, ring.name):
            text = line.text.replace(");", f" % {ring.depth});")
            yield f"generation lost: {text}", [*lines[:at], replace(line, text=text), *lines[at + 1 :]]
        if line.kind == "counter" and plan.outer != "none":
            units = next(i for i in range(at, len(lines)) if lines[i].kind == "units")
            opening = units + (2 if plan.outer == "lists" else 1)
            reset = Line(line.text.removeprefix("mutable u32 "))
            yield f"not carried over: {line.text}", [*lines[:opening], reset, *lines[opening:]]


def _initial(plan: Plan, lines: Lines) -> Iterator[tuple[str, Lines]]:
    for at, line in enumerate(lines):
        if line.kind == "empty event":
            text = line.text.replace(" = ready", "")
            yield f"not ready: {text}", [*lines[:at], replace(line, text=text), *lines[at + 1 :]]
        if line.kind == "full event":
            text = line.text.replace(";", " = ready;")
            yield f"ready: {text}", [*lines[:at], replace(line, text=text), *lines[at + 1 :]]


def _one_of_two(plan: Plan, lines: Lines) -> Iterator[tuple[str, Lines]]:
    """Of two consumers one gives a slot back for both."""
    if plan.consumers < 2:
        return
    for at, line in enumerate(lines):
        other = ("raw", "o", *(["a"] if plan.relay else []))
        vital = line.kind == "release" and line.vital and not lines[at - 1].text.startswith("if ")
        if vital and line.about not in other and _slot_matters(plan, line.about):
            yield f"by one consumer: {line.text}", [*lines[:at], Line("if (cid == 0)"), *lines[at:]]


_MAKERS: tuple[Maker, ...] = (
    _removed_waits,
    _removed_triggers,
    _early_releases,
    _late_waits,
    _depths,
    _generations,
    _initial,
    _one_of_two,
)


# ------------------------------------------------------------------------------------------------------------ reasons
def _slot_matters(plan: Plan, name: str) -> bool:
    """Whether only its own empty event keeps a loader from overwriting a slot of the ring (or Q, or the output)."""
    if name == "q":
        return plan.outer != "none"
    if name == "o":
        return plan.outer != "none" or len(plan.mmas) > 1
    if plan.stationary and plan.bounded:
        return False
    return _alone(plan, plan.ring(name))


def _alone(plan: Plan, ring: Ring) -> bool:
    others = [r for r in plan.rings if r is not ring and (plan.relay or r.producer == ring.producer)]
    return all(ring.depth - ring.lag < other.reach for other in others)


def _tile_matters(plan: Plan, name: str) -> bool:
    """Whether only its own full event tells that a tile of the ring has come."""
    return name in ("q", "o") or plan.ring(name).filled_by != "copy" or len(plan.rings) == 1


def _wait_matters(plan: Plan, number: int) -> bool:
    """Whether no wait before the one for this MMA covers it."""
    earlier = plan.wait_order[: plan.wait_order.index(number)]
    return all(plan.issue_order.index(other) < plan.issue_order.index(number) for other in earlier)


def _released_again(plan: Plan, name: str) -> bool:
    """Whether somebody will wait for the release."""
    return _slot_matters(plan, name) if name in ("q", "o") else True
