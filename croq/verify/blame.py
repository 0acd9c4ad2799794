"""Whose fault a fault is: the program's, or that of what croq made of it."""

from __future__ import annotations

from dataclasses import replace

from croq.verify.verdict import Verdict

CROQ = (
    "the program itself orders this (its own protocol is proved): croq's lowering does not keep the order. "
    "This is a fault of croq; please report it with the program"
)


def blame(lowered: Verdict, source: Verdict) -> Verdict:
    """The verdict on lowered IR with the culprit named, by the verdict on the tile IR of the same kernel."""
    if lowered.outcome != "fault" or not lowered.found:
        return lowered
    if source.proved:
        note = CROQ
    elif source.outcome == "fault":
        first = source.found[0]
        place = f" at line {first.span.line}" if first.span is not None else ""
        note = f"the program itself does not order it: {first.code}{place}, {first.message}"
    else:
        return lowered
    found = tuple(replace(d, notes=(*d.notes, note)) for d in lowered.found)
    return replace(lowered, found=found)
