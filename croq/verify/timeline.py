"""A counterexample as a table: one column a role, one line a step, the fault last.

Only what must have happened before the fault is shown, in an order that the happens-before relation allows; steps that
several warps of a role take alike are one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from croq.verify.faults import Fault, listed
from croq.verify.history import History, Moment

MOST_LINES = 28
WIDTH = 46


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
    found: dict[tuple[object, str, bool], _Line] = {}
    for step in steps:
        assert step.site is not None and step.warp is not None
        key = (step.site, step.text, step.index in marked)
        line = found.setdefault(key, _Line(step.index, step.site.role, f"{step.site.place} {step.text}"))
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
    return {role: f"{role} ({listed(sorted(warps[role]))})" if warps[role] else role for role in roles}


def _table(lines: list[_Line], columns: dict[str, str]) -> list[str]:
    if not columns:
        return [_cell(line) for line in lines]
    width = {
        role: max(len(head), *(len(_cell(x)) for x in lines if x.role == role)) + 2 for role, head in columns.items()
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
