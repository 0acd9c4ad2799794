"""Whose fault a fault is: the program's, or that of what croq made of it."""

from __future__ import annotations

from dataclasses import replace

from croq.diagnostics import Diagnostic
from croq.ir.objects import Kernel
from croq.verify.remedies import remedy
from croq.verify.verdict import Verdict

CROQ = (
    "the program itself orders this (its own protocol is proved): croq's lowering does not keep the order. "
    "This is a fault of croq; please report it with the program"
)


def blame(lowered: Verdict, source: Verdict, written: Kernel | None = None) -> Verdict:
    """The verdict on lowered IR with the culprit named, by the verdict on the tile IR of the same kernel.

    With the tile IR itself (`written`) the help of a wrong program is what makes it right, where that is found.
    """
    if lowered.outcome != "fault" or not lowered.found:
        return lowered
    notes = [_at(remark) for remark in source.remarks]
    if source.proved:
        notes.append(CROQ)
    elif source.outcome == "fault":
        first = source.found[0]
        place = f" at line {first.span.line}" if first.span is not None else ""
        notes.append(f"the program itself does not order it: {first.code}{place}, {first.message}")
    else:
        return lowered
    help = remedy(written) if written is not None and source.outcome == "fault" else None
    found = tuple(replace(d, notes=(*d.notes, *notes), hint=help or d.hint) for d in lowered.found)
    return replace(lowered, found=found)


def _at(remark: Diagnostic) -> str:
    line = f"line {remark.span.line}: " if remark.span is not None else ""
    return f"{line}{remark.message}"
