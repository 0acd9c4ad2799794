"""Matrix instructions. PTX ISA, "wgmma", "stmatrix", "ldmatrix", "movmatrix", "mma".

A `wgmma.mma_async` computes at its issue: programs may not touch its registers before they have waited for it. Its
operands in shared memory count as being read until then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from croq.ptx.asynchrony import WARPS
from croq.ptx.build import Builder
from croq.ptx.faults import PtxFault
from croq.ptx.lanes import Lanes
from croq.ptx.memory import PAD
from croq.ptx.ops.access import address_of, items
from croq.ptx.registers import Array
from croq.ptx.registry import End, Form, instruction
from croq.ptx.syntax import Vec
from croq.ptx.units import matrix_moves
from croq.ptx.units.fault import require
from croq.ptx.units.mma_sync import MmaSync
from croq.ptx.units.wgmma import WARP_ROWS, Wgmma
from croq.target.cuda import WARP, WARPGROUP

_ELEMENTS = "f16 bf16 tf32 f32 s32 e4m3 e5m2 s8 u8 b1 s4 u4"
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
MOST_PENDING = 7  # groups that a wait may leave. ptxas refuses others


def after(builder: Builder, form: Form, unit: int, work: Callable[[Lanes], None]) -> End:
    """`work` once whole warps or warpgroups are here."""

    def run(machine: Any, group: Any) -> bool:
        if not machine.converge(group, form.instruction, unit):
            return False
        work(group.lanes)
        group.at += 1
        return True

    return run


def aligned(builder: Builder, form: Form, work: Callable[[Lanes], None]) -> End:
    """`work` of an instruction that all warps of a warpgroup must execute."""

    def noted(lanes: Lanes) -> None:
        builder.machine.alignment.note(lanes, form.instruction)
        work(lanes)

    return after(builder, form, _together(builder), noted)


# -------------------------------------------------------------------------------------------------------------- wgmma
def _uniform(row: Array, threads: Any, what: str) -> int:
    values = row[threads]
    if (values != values[0]).any():
        raise PtxFault("E-7024", f"{what} of a wgmma differs between threads of its warpgroup")
    return int(values[0])


def _columns(rows: list[Array], threads: Any) -> Array:
    return np.stack([row[threads] for row in rows], axis=1)


def _static(form: Form, from_registers: bool, constants: list[int]) -> Wgmma:
    """The instruction's types, shape and immediates. PTX ISA, wgmma.mma_async, "Syntax"."""
    names = [m for m in form.instruction.modifiers[1:] if m not in ("sync", "aligned", "satfinite")]
    shape = _SHAPE.fullmatch(names[0])
    if shape is None or len(names) != 4 or shape[1] != "64":
        raise form.refuse()
    scales = constants[:2] if len(constants) >= 2 else [1, 1]
    require(set(constants[2:]) <= {0, 1}, "wgmma-modifier", f"imm-trans is {tuple(constants[2:])}, not 0 or 1")
    trans = [bool(c) for c in constants[2:]]
    trans_a, trans_b = (False, *trans) if from_registers and len(trans) == 1 else (*trans, False, False)[:2]
    d, a, b = names[1:]
    made = Wgmma(int(shape[2]), d, a, b, "satfinite" in form.flags, scales[0], scales[1], trans_a, trans_b)
    if made.k != int(shape[3]):
        raise form.refuse(f"k is {made.k} for {a}")
    return made


_SHAPES = " ".join(f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16, 32, 256))


@instruction("wgmma.mma_async", flags=f"sync aligned satfinite {_SHAPES} {_ELEMENTS} and popc", ends=True)
def mma_async(builder: Builder, form: Form) -> End:
    target, first, second, scale, *constants = form.operands
    from_registers = isinstance(first, Vec)
    unit = _static(form, from_registers, [int(c.value) for c in constants])
    outs = [builder.target(item, "b32") for item in items(target)]
    accumulators = [builder.source(item, "b32") for item in items(target)]
    if len(outs) != unit.accumulator_registers:
        raise form.refuse(f"{len(outs)} accumulator registers")
    a_rows = [builder.source(item, "b32") for item in items(first)] if from_registers else []
    a_row = None if from_registers else builder.source(first, "b64")
    b_row = builder.source(second, "b64")
    accumulates, negated = builder.predicate(scale)
    machine, place = builder.machine, form.instruction.place
    missing = builder.tracking.accumulators(builder, form.instruction)
    accumulator_slots = builder.mma_slots(target)
    a_slots = builder.mma_slots(first) if from_registers else ()

    def one(lanes: Lanes) -> None:
        threads, warps = lanes.sel, lanes.warps.tolist()
        memory = machine.memory.shared
        b_descriptor = _uniform(b_row, threads, "the descriptor of B")
        adds = bool(_uniform(accumulates, threads, "scale-d")) != negated
        chunks = [unit.b_chunks(b_descriptor).reshape(-1)]
        a_descriptor = _uniform(a_row, threads, "the descriptor of A") if a_row is not None else 0
        if a_row is not None:
            chunks.append(unit.a_chunks(a_descriptor).reshape(-1))
        machine.alignment.note(lanes, form.instruction, (a_descriptor, b_descriptor, adds))
        over = machine.mma_registers.issue(accumulator_slots, a_slots, warps, form.instruction)
        machine.mmas.issue(warps, np.concatenate(chunks) // PAD * PAD, place, over)
        if a_row is not None:
            a = unit.a_from_shared(memory.data, a_descriptor)[_own_rows(warps)]
        else:
            a = unit.a_from_registers(_columns(a_rows, threads))
        b = unit.b_from_shared(memory.data, b_descriptor)
        if adds and missing:
            builder.tracking.require(form.instruction, missing, lanes)
        result = unit.compute(a, b, _columns(accumulators, threads), adds)
        for at, out in enumerate(outs):
            out[threads] = result[:, at]

    def work(lanes: Lanes) -> None:
        for part in machine.alignment.parts(lanes):
            one(part)

    return after(builder, form, _together(builder), work)


def _together(builder: Builder) -> int:
    """The threads that an instruction of a warpgroup waits for.

    PTX ISA, ".sync": those of a warp. Where warps run in random order each executes it when it comes; else they come
    together, which saves time.
    """
    return WARPGROUP if builder.machine.schedule.random is None else WARP


def _own_rows(warps: list[int]) -> slice | list[int]:
    """Those of a tile of 64 that warps of one warpgroup have."""
    if len(warps) == WARPS:
        return slice(None)
    return [w % WARPS * WARP_ROWS + row for w in warps for row in range(WARP_ROWS)]


@instruction("wgmma.fence", flags="sync aligned", ends=True)
def fence(builder: Builder, form: Form) -> End:
    registers = builder.machine.mma_registers
    return aligned(builder, form, lambda lanes: registers.fence(lanes.warps.tolist()))


@instruction("wgmma.commit_group", flags="sync aligned", ends=True)
def commit(builder: Builder, form: Form) -> End:
    machine = builder.machine
    return aligned(builder, form, lambda lanes: machine.mmas.commit(lanes))


@instruction("wgmma.wait_group", flags="sync aligned", ends=True)
def wait(builder: Builder, form: Form) -> End:
    machine, pending = builder.machine, int(form.operands[0].value)
    require(0 <= pending <= MOST_PENDING, "wgmma-groups", f"a wait that leaves {pending} groups, not 0..{MOST_PENDING}")
    return aligned(builder, form, lambda lanes: machine.mmas.wait(lanes, pending))


@instruction("setmaxnreg", flags="inc dec sync aligned", types="u32", ends=True)
def setmaxnreg(builder: Builder, form: Form) -> End:
    count = int(form.operands[0].value)
    allowed = builder.machine.target.register_requests
    which = f"{allowed[0]}..{allowed[-1]} in steps of {allowed.step}"
    require(count in allowed, "setmaxnreg-count", f"setmaxnreg to {count} registers, not {which}")
    return aligned(builder, form, lambda lanes: None)


# ------------------------------------------------------------------------------------------------------ moves of warps
_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_MOVE_FLAGS = "sync aligned m8n8 x1 x2 x4 trans shared shared::cta"


def _by_warp(lanes: Lanes) -> Any:
    for warp in lanes.warps.tolist():
        yield slice(warp * WARP, (warp + 1) * WARP)


def _rows(addresses: Array, count: int) -> Array:
    """[count, 8, 16] byte addresses."""
    return matrix_moves.row_addresses(addresses, count)[..., None] + np.arange(matrix_moves.ROW_BYTES)


@instruction("stmatrix", flags=_MOVE_FLAGS, types="b16", ends=True)
def stmatrix(builder: Builder, form: Form) -> End:
    place, values = form.operands
    rows = [builder.source(item, "b32") for item in items(values)]
    count, trans = _counted(form, rows), "trans" in form.flags
    address = address_of(builder, place)
    shared: Any = builder.memory.shared

    def work(lanes: Lanes) -> None:
        addresses = address(lanes)
        for at, threads in enumerate(_by_warp(lanes)):
            octets = _rows(addresses[at * WARP : (at + 1) * WARP], count)
            words = octets[..., ::4].reshape(-1)
            shared.offsets(words, 4, _repeated(threads, len(words), lanes))
            data = matrix_moves.from_registers(_columns(rows, threads), trans)
            shared.store(words, 4, np.ascontiguousarray(data).view(np.uint32).reshape(-1))

    return after(builder, form, WARP, work)


@instruction("ldmatrix", flags=_MOVE_FLAGS, types="b16", ends=True)
def ldmatrix(builder: Builder, form: Form) -> End:
    values, place = form.operands
    outs = [builder.target(item, "b32") for item in items(values)]
    count, trans = _counted(form, outs), "trans" in form.flags
    address = address_of(builder, place)
    shared: Any = builder.memory.shared

    def work(lanes: Lanes) -> None:
        addresses = address(lanes)
        for at, threads in enumerate(_by_warp(lanes)):
            octets = _rows(addresses[at * WARP : (at + 1) * WARP], count)
            words = octets[..., ::4].reshape(-1)
            some = _repeated(threads, len(words), lanes)
            found = shared.load(shared.offsets(words, 4, some), 4, some)
            registers = matrix_moves.to_registers(found.view(np.uint8).reshape(count, 8, matrix_moves.ROW_BYTES), trans)
            for column, out in enumerate(outs):
                out[threads] = registers[:, column]

    return after(builder, form, WARP, work)


def _repeated(threads: slice, count: int, lanes: Lanes) -> Lanes:
    """For reports: which lane's row each of `count` words is of."""
    return Lanes(threads.start + np.arange(count) // (matrix_moves.ROW_BYTES // 4), lanes.threads)


def _counted(form: Form, rows: list[Array]) -> int:
    count = _COUNTS[form.one_of(*_COUNTS, default="x1")]
    if len(rows) != count or "m8n8" not in form.flags:
        raise form.refuse()
    return count


@instruction("movmatrix", flags="sync aligned m8n8 trans", types="b16", ends=True)
def movmatrix(builder: Builder, form: Form) -> End:
    target, value = form.operands
    out, row = builder.target(target, "b32"), builder.source(value, "b32")

    def work(lanes: Lanes) -> None:
        for threads in _by_warp(lanes):
            out[threads] = matrix_moves.transposed(np.ascontiguousarray(row[threads]))

    return after(builder, form, WARP, work)


# ---------------------------------------------------------------------------------------------------------- mma.sync
_MMA_SHAPES = " ".join(f"m16n8k{k}" for k in (4, 8, 16, 32, 64, 128, 256))


@instruction("mma", flags=f"sync aligned row col satfinite and xor popc {_MMA_SHAPES} {_ELEMENTS}", ends=True)
def mma_sync(builder: Builder, form: Form) -> End:
    names = [m for m in form.instruction.modifiers if m in _ELEMENTS.split()]
    shape = _SHAPE.fullmatch(form.one_of(*_MMA_SHAPES.split()))
    if shape is None or len(names) != 4 or "row" not in form.flags or "col" not in form.flags:
        raise form.refuse()
    unit = MmaSync(int(shape[3]), names[0], names[1], names[2], "satfinite" in form.flags, form.one_of("and", "xor"))
    target, *operands = form.operands
    outs = [builder.target(item, "b32") for item in items(target)]
    rows = [[builder.source(item, "b32") for item in items(o)] for o in operands]

    def work(lanes: Lanes) -> None:
        for threads in _by_warp(lanes):
            result = unit.compute(*(_columns(part, threads) for part in rows))
            for at, out in enumerate(outs):
                out[threads] = result[:, at]

    return after(builder, form, WARP, work)
