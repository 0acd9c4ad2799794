"""A counterexample as a table: one column a role, one line a step, the fault last.

Only what must have happened before the fault is shown, in an order that the happens-before relation allows; steps that
several warps of a role take alike are one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from croq.ir.types import warps_in_words
from croq.verify.faults import Fault
from croq.verify.history import History, Moment
from croq.verify.sites import Site

MOST_LINES = 28


@dataclass
class _Line:
    order: int
    role: str
    text: str
    warps: set[int] = field(default_factory=set)
    marked: bool = False


def timeline(fault: Fault, history: History) -> list[str]:
    """Lines of text; empty when there is nothing to show."""
    kept = [history.moments[i] for i in sorted(history.ancestors(fault.moments))]
    steps = [m for m in kept if m.warp is not None and m.site is not None and _matters(m, fault)]
    if not steps:
        return []
    lines = _merge(steps, set(fault.moments))
    if fault.site is not None and fault.ending:
        warps = {fault.warp} if fault.warp is not None else set()
        lines.append(_Line(len(history.moments), fault.site.role, f"{fault.site.place} {fault.ending}", warps, True))
    return _table(_shorten(lines), _columns(lines))


def _matters(moment: Moment, fault: Fault) -> bool:
    """Everything that orders, and what touches the objects at fault."""
    assert moment.site is not None
    if moment.index in fault.moments or moment.site.kind in ("wait", "arrive", "load", "sync"):
        return moment.site.kind != "sync" or moment.site.span is not None
    return bool(moment.about & fault.about)


def _merge(steps: Sequence[Moment], marked: set[int]) -> list[_Line]:
    """Steps that warps of a role take alike are one line; a warp at fault stands alone beside another of its role."""
    faults = {(m.site.role, m.warp, m.site) for m in steps if m.index in marked and m.site is not None}
    focus = {(role, warp) for role, warp, _ in faults}
    crowded = {
        role
        for role, _ in focus
        if len({w for r, w, _ in faults if r == role}) > 1 and len({s for r, _, s in faults if r == role}) > 1
    }
    found: dict[tuple[object, str, int | None, int], _Line] = {}
    runs: dict[
        tuple[int, Site], int
    ] = {}  # how often a warp has come to an operation, loops over elements taken as one
    last: dict[int, Site] = {}
    for step in steps:
        assert step.site is not None and step.warp is not None
        if last.get(step.warp) is not step.site:
            runs[step.warp, step.site] = runs.get((step.warp, step.site), 0) + 1
        last[step.warp] = step.site
        role = step.site.role
        alone = step.warp if role in crowded and (role, step.warp) in focus else None
        text = f"{step.site.place} {step.text}{f' (warp {alone})' if alone is not None else ''}"
        line = found.setdefault(
            (step.site, step.text, alone, runs[step.warp, step.site]), _Line(step.index, role, text)
        )
        line.order = step.index
        line.warps.add(step.warp)
        line.marked = line.marked or step.index in marked
    return sorted(found.values(), key=lambda line: line.order)


def _shorten(lines: list[_Line]) -> list[_Line]:
    if len(lines) <= MOST_LINES:
        return lines
    head, tail = lines[:3], lines[-(MOST_LINES - 4) :]
    left = len(lines) - len(head) - len(tail)
    return [*head, _Line(head[-1].order, "", f".. {left} more steps"), *tail]


def _columns(lines: list[_Line]) -> dict[str, str]:
    """Role -> heading, in order of the warps that have it."""
    warps: dict[str, set[int]] = {}
    for line in lines:
        warps.setdefault(line.role, set()).update(line.warps)
    roles = sorted((r for r in warps if r), key=lambda r: (min(warps[r], default=0), r))
    return {role: f"{role} ({warps_in_words(warps[role])})" if warps[role] else role for role in roles}


def _table(lines: list[_Line], columns: dict[str, str]) -> list[str]:
    if not columns:
        return [_cell(line) for line in lines]
    width = {
        role: max([len(head), *(len(_cell(x)) for x in lines if x.role == role)]) + 2 for role, head in columns.items()
    }
    order = list(columns)
    rows = ["".join(columns[role].ljust(width[role]) for role in order).rstrip()]
    for line in lines:
        before = order.index(line.role) if line.role in order else 0
        rows.append((" " * sum(width[role] for role in order[:before]) + _cell(line)).rstrip())
    return rows


def _cell(line: _Line) -> str:
    count = f" x{len(line.warps)}" if len(line.warps) > 1 else ""
    return f"{'> ' if line.marked else '  '}{line.text}{count}"
