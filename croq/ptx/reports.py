"""Where in PTX and source something happened, who waits for what, and which loop does not end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from croq.ptx.faults import PtxFault
from croq.ptx.groups import Group
from croq.ptx.syntax import Instruction, Place

if TYPE_CHECKING:
    from croq.ptx.machine import Machine

LOOP_SHOWN = 6  # lines of a loop that a report lists


def where(place: Place) -> str:
    """`v4.co:57 (line 312 of the PTX)`."""
    name = place.file.rpartition("/")[2]
    return f"{name}:{place.source_line} (line {place.line} of the PTX)" if name else f"line {place.line} of the PTX"


def located(machine: Machine, fault: PtxFault, ins: Instruction, group: Group) -> PtxFault:
    """The fault with its place, its instruction and the threads that were at it."""
    place = fault.place or ins.place
    text = machine.module.text(place.line)
    block = tuple(int(machine.specials.rows[f"%ctaid.{axis}"][0]) for axis in "xyz")
    notes = [
        f"at {where(place)}: `{text}`",
        f"block {block}, schedule `{machine.schedule.name}`; {group.lanes} were here",
    ]
    return fault.with_notes(*notes).at(place)


def deadlock(machine: Machine) -> PtxFault:
    """Every group that is left, where it is and what it waits for."""
    notes = []
    for group in sorted(machine.groups, key=lambda g: g.lanes.first):
        wait = group.wait
        if wait is not None:
            verb = "wait" if group.lanes.count > 1 else "waits"
            what = wait.what().replace("waits", verb, 1)
            notes.append(f"{group.lanes} {what}, at {where(wait.instruction.place)}")
    if machine.exited.any():
        notes.append(f"{int(machine.exited.sum())} of {machine.threads} threads have ended")
    block = tuple(int(machine.specials.rows[f"%ctaid.{axis}"][0]) for axis in "xyz")
    notes.append(f"block {block}, schedule `{machine.schedule.name}`")
    stuck = [g for g in machine.groups if g.wait is not None and g.wait.converging]
    first = min(machine.groups, key=lambda g: g.lanes.first)
    place = first.wait.instruction.place if first.wait is not None else None
    if len(stuck) == len(machine.groups):
        return PtxFault(
            "E-7017", "an instruction of a whole warp or warpgroup is reached by a part of it only", place, notes
        )
    return PtxFault("E-7010", "deadlock: every thread that is left waits", place, notes)


def endless(machine: Machine, group: Group) -> PtxFault:
    """The blocks that ran most often are the loop."""
    often = np.flatnonzero(machine.visits > machine.visits.max() // 2)
    lines = sorted({ins.place for number in often for ins in machine.blocks[int(number)].places})
    shown = [where(place) for place in lines[:LOOP_SHOWN]]
    notes = [f"the loop: {', '.join(shown)}" + (" .." if len(lines) > LOOP_SHOWN else "")]
    notes.append(f"{group.lanes} were in it after {machine.steps} blocks of instructions")
    place = lines[0] if lines else None
    return PtxFault("E-7011", "a loop does not end", place, notes, "if it does end, raise the limit of steps")
