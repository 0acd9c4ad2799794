"""cp.async: copies of 4, 8 or 16 bytes that each thread starts for itself. PTX ISA, "cp.async" and its groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from croq.ptx.asynchrony import Flight
from croq.ptx.build import Builder
from croq.ptx.lanes import Lanes, Mask
from croq.ptx.ops.access import address_of, pieces
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.syntax import Imm
from croq.ptx.units import async_copy
from croq.ptx.units.fault import require

_HINTS = "L2::cache_hint L2::64B L2::128B L2::256B"


@instruction("cp.async", flags=f"ca cg shared shared::cta global {_HINTS}")
def copy(builder: Builder, form: Form) -> Step:
    """Bytes beyond the source size are zeros."""
    target, source, size, *more = form.operands
    if not isinstance(size, Imm):
        raise form.refuse("the size of the copy")
    width, cache = int(size.value), form.one_of("ca", "cg")
    to, start = address_of(builder, target), address_of(builder, source)
    given = builder.source(more[0], "u32") if more and "L2::cache_hint" not in form.flags else None
    memory, machine, place = builder.memory, builder.machine, form.instruction.place
    shared: Any = memory.shared
    unit = min(width, 8)

    def step(lanes: Lanes) -> None:
        addresses = start(lanes)
        offsets = shared.offsets(to(lanes), width, lanes)
        octets = offsets[:, None] + np.arange(width)
        sizes = given[lanes.sel].astype(np.int64) if given is not None else np.full(lanes.count, width)
        used = np.where(sizes > 0, addresses, 0)  # an address that is not read may be anything
        async_copy.check(cache, offsets, used, width, sizes)
        shared.begin_write(octets.reshape(-1))

        def land(mask: Mask) -> None:
            data = np.zeros((lanes.count, width), np.uint8)
            reads = mask & (sizes > 0)
            if reads.any():
                some = lanes.where(reads)
                data[reads] = _fetched(memory, addresses[reads], sizes[reads], some, width, unit)
            shared.end_write(octets[mask].reshape(-1), data[mask].reshape(-1), ordinary=True)

        flight = Flight("a cp.async", place, lanes.index, land)
        machine.copies.add(flight)
        machine.issue(flight)

    return step


def _fetched(memory: Any, addresses: Any, sizes: Any, lanes: Lanes, width: int, unit: int) -> Any:
    """[n, width] bytes of global memory, zeros behind the size of each; nothing behind it is touched."""
    data = np.zeros((lanes.count, width), np.uint8)
    whole = sizes == width
    if whole.any():
        some = lanes.where(whole)
        for segment, offsets, _, which in pieces(memory, "global", addresses[whole], width, some):
            for at in range(0, width, unit):
                part = segment.load(offsets + at, unit, some).reshape(-1, 1).view(np.uint8)
                rows = np.flatnonzero(whole)[which]
                data[rows, at : at + unit] = part
    for row in np.flatnonzero(~whole).tolist():
        one = Lanes(lanes.index[row : row + 1], lanes.threads)
        for at in range(int(sizes[row])):
            ((segment, offsets, _, _),) = pieces(memory, "global", addresses[row : row + 1] + at, 1, one)
            data[row, at] = segment.load(offsets, 1, one)[0]
    return data


@instruction("cp.async.commit_group")
def commit(builder: Builder, form: Form) -> Step:
    machine = builder.machine
    return lambda lanes: machine.copies.commit(lanes)


def groups_left(form: Form) -> int:
    """How many groups a `wait_group` may leave."""
    pending = int(form.operands[0].value)
    require(pending >= 0, "cp-groups", f"`{form.instruction.opcode}` leaves {pending} groups")
    return pending


@instruction("cp.async.wait_group cp.async.wait_all")
def wait(builder: Builder, form: Form) -> Step:
    machine = builder.machine
    if form.name.endswith("wait_all"):
        return lambda lanes: machine.wait_copies(machine.copies, lanes, 0, True)
    pending = groups_left(form)
    return lambda lanes: machine.wait_copies(machine.copies, lanes, pending, False)
