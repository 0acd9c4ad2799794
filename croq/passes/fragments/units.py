"""Which threads share a fragment: the unit of the code that declares or uses it (rule F7 of pass `fragments`)."""

from __future__ import annotations

from dataclasses import dataclass

from croq.ir.core import Op
from croq.ir.hw import Section
from croq.ir.rewrite import ancestors
from croq.ir.tile import Scope
from croq.ir.types import ThreadSet
from croq.target.cuda import UNITS, WARPGROUP


@dataclass(frozen=True)
class Unit:
    """The threads that one fragment is spread over: `count` of each `width` threads, None where it is not known."""

    width: int | None  # threads of the enclosing warpgroup or warp level; None: the CTA
    count: int | None
    warpgroup: bool  # exactly the threads of one warpgroup


def unit_of(op: Op, parents: dict[Op, Op | None]) -> Unit:
    """The unit of collective operations where `op` stands: the innermost warp or warpgroup level, else the CTA.

    A `thread` level inside `group-4` keeps the warpgroup as the unit.
    """
    levels = (around.level for around in ancestors(op, parents) if isinstance(around, Scope | Section))
    width = next((UNITS[level] for level in levels if level in ("group-4", "group")), None)
    count = _per_unit(op.threads, width)
    whole = op.threads is None or op.threads.whole_warpgroups()
    return Unit(width, count, whole and count == WARPGROUP)


def described(unit: Unit) -> str:
    return f"{unit.count} threads" if unit.count is not None else "threads that are not known"


def _per_unit(threads: ThreadSet | None, width: int | None) -> int | None:
    """Threads of each unit, when each unit has one contiguous range and all ranges have one length."""
    if threads is None:
        return width
    if width is None:
        return len(threads) if len(threads.ranges) == 1 else None
    pieces: dict[int, list[int]] = {}
    for thread in threads:
        pieces.setdefault(thread // width, []).append(thread)
    counts = {len(piece) for piece in pieces.values()}
    contiguous = all(piece[-1] - piece[0] == len(piece) - 1 for piece in pieces.values())
    return counts.pop() if len(counts) == 1 and contiguous else None
