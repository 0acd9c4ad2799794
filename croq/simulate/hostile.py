"""Schedules that are chosen to break things: somebody is always late, or always first.

`hostile:K` is one plan. The first ones of a kernel, which `hostile` runs one after the other, are

    everything in flight completes as late as it can; who issues loads goes first, then the others
    the same with the warps in the opposite order, the last operation issued completing first
    one asynchronous operation of the kernel is late, all others are prompt; for each of them
    one warp goes only when no other can; for each of them
    one warp goes whenever it can, and everything in flight is late; for each of them

Every larger K is drawn at random (and is the same in every run): warps by priorities that change now and then, some
operations late. After M. Musuvathi's probabilistic concurrency testing: few changes of priority find most mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from croq.ir.core import Op
from croq.ir.hw import BulkTensorLoad
from croq.ir.objects import Kernel


@dataclass(frozen=True)
class Plan:
    """`late`: the operations that complete only when nothing else can go on. `order`: warps, the most urgent first."""

    what: str
    late: frozenset[Op]
    order: tuple[int, ...]
    newest_first: bool = False
    changes: int = 0  # in a thousand steps: how often the most urgent warp becomes the least urgent one


def plans(kernel: Kernel) -> list[Plan]:
    """The plans that `hostile` runs."""
    sites = [op for op in kernel.walk() if op.UNTIL is not None]
    everything = frozenset[Op](sites)
    order = issuers_first(kernel, sites)
    found = [
        Plan("everything late, who issues loads first", everything, order),
        Plan("everything late, the other way round", everything, order[::-1], newest_first=True),
    ]
    found += [Plan(f"{op.NAME}{_line(op)} late", frozenset([op]), order) for op in sites]
    if len(order) > 1:
        none: frozenset[Op] = frozenset()
        found += [Plan(f"warp {w} last", none, (*(o for o in order if o != w), w)) for w in order]
        found += [
            Plan(f"warp {w} first, everything late", everything, (w, *(o for o in order if o != w))) for w in order
        ]
    return found


def plan(kernel: Kernel, number: int) -> Plan:
    """The plan of `hostile:number`."""
    known = plans(kernel)
    if number < len(known):
        return known[number]
    random = Random(f"hostile:{number}")
    sites = [op for op in kernel.walk() if op.UNTIL is not None]
    order = list(range(kernel.warps))
    random.shuffle(order)
    late = frozenset[Op](op for op in sites if random.random() < 0.5)
    return Plan("drawn at random", late, tuple(order), random.random() < 0.5, random.choice((2, 10, 50)))


def issuers_first(kernel: Kernel, sites: Sequence[Op]) -> tuple[int, ...]:
    """All warps, those first that issue loads: they overwrite what others read."""
    warps = range(kernel.warps)
    loads = [op for op in sites if isinstance(op, BulkTensorLoad) and op.threads is not None]
    first = {w for op in loads if op.threads is not None for w in op.threads.warps()}
    return (*(w for w in warps if w in first), *(w for w in warps if w not in first))


def _line(op: Op) -> str:
    return f" at line {op.span.line}" if op.span is not None else ""
