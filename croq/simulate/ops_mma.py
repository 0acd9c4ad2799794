"""WGMMA: each warp computes its rows of the product, at a time that the schedule chooses.

The four warps of a warpgroup issue the same WGMMAs; a warp's own commit groups complete in order. Each warp's share is
a separate operation, because nothing promises that the other warps have read their operands when one warp's wait is
over.
Register use is checked under every schedule: between issue and wait the accumulator may not be touched and a register
operand may not be overwritten. PTX ISA, wgmma.mma_async, wgmma.fence, wgmma.wait_group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.ir import hw
from croq.ir.core import Op
from croq.ir.objects import Buffer, FragRef, View
from croq.simulate.compiler import Code, Compiler, handles
from croq.simulate.dtypes import to_f32
from croq.simulate.faults import fault
from croq.simulate.machine import Mma, Run, Waiting, Warp, Warpgroup
from croq.simulate.registers import Registers
from croq.simulate.views import Box
from croq.target.sm90.limits import WGMMA_M

WARP_ROWS = 16  # rows of each 64-row block that one warp has
F32 = NDArray[np.float32]


def rows_to_registers(product: F32) -> F32:
    """[16 * blocks, n] of one warp to [32 lanes, 2 * blocks rows, n / 4] (target/sm90/fragments.py has the map)."""
    blocks, n = len(product) // WARP_ROWS, product.shape[1]
    return product.reshape(blocks, 2, 8, n // 8, 4, 2).transpose(2, 4, 0, 1, 3, 5).reshape(32, 2 * blocks, n // 4)


def registers_to_rows(registers: Any) -> Any:
    """The inverse of `rows_to_registers`, of any element type."""
    blocks, quarter = registers.shape[1] // 2, registers.shape[2]
    parts = registers.reshape(8, 4, blocks, 2, quarter // 2, 2).transpose(2, 3, 0, 4, 1, 5)
    return parts.reshape(WARP_ROWS * blocks, 4 * quarter)


@handles(hw.WgmmaFence)
def _fence(c: Compiler, op: hw.WgmmaFence) -> Code:
    def run(warp: Warp) -> None:
        warp.whole(op, "wgmma.fence")
        warp.unfenced.clear()
        warp.fenced = True

    return Code(run)


@handles(hw.WgmmaIssue)
def _issue(c: Compiler, op: hw.WgmmaIssue) -> Code:
    accumulator = c.fragment(op.acc)
    a_fragment = c.fragment(op.a) if isinstance(op.a, FragRef) else None
    read_a = _operand_a(c, op)
    read_b = _operand_b(c, op)
    a_box = _shared_operand(c, op.a, op) if isinstance(op.a, View) else None
    b_box = _shared_operand(c, op.b, op)
    accumulate, dtype = op.accumulate, c.shape(op.acc.frag).dtype
    eager = c.policy.eager
    # operands are addressed at issue and read when the MMA runs

    def run(warp: Warp) -> None:
        acc = accumulator(warp)
        operand = a_fragment(warp) if a_fragment is not None else None
        group_of(warp, op).issue(warp, op)
        _check_registers(acc, operand, warp, op)
        a, b = read_a(warp, operand), read_b(warp)

        def compute(mma: Mma) -> None:
            product = rows_to_registers(a(mma) @ b(mma))
            total = acc.data.astype(np.float32) + product if accumulate else product
            acc.data = total.astype(dtype, copy=False)

        mma = Mma(warp, op, compute, acc, operand)
        if warp.cta.watch is not None:
            _watch(mma, [box for box in (a_box, b_box) if box is not None], accumulate)
        acc.writing += 1
        acc.user = mma
        if operand is not None:
            operand.reading += 1
            operand.user = mma
        warp.open.append(mma)
        if eager:
            mma.complete()
        else:
            warp.queue.append(mma)

    return c.preemptible(Code(run))


def group_of(warp: Warp, op: Op) -> Warpgroup:
    warp.whole(op, op.NAME)
    if warp.group is None:
        raise fault(
            "E-5020",
            op,
            f"warp {warp.index} executes `{op.NAME}` but belongs to no whole warpgroup",
            notes=["a warpgroup is four consecutive warps, the first of them a multiple of four"],
        )
    return warp.group


def _check_registers(acc: Registers, operand: Registers | None, warp: Warp, op: Op) -> None:
    if not warp.fenced:
        raise _unfenced("the first MMA of a warp", op)
    if acc.reading:
        raise acc.busy("overwritten by an MMA", "reads", op)
    if operand is not None and operand.writing:
        raise operand.busy("read by an MMA", "writes", op)
    for registers in (acc, operand):
        if registers is not None and registers in warp.unfenced:
            raise _unfenced(
                f"an MMA on fragment `{registers.shape.fragment.name}`, which ordinary code has written", op
            )


def _unfenced(what: str, op: Op) -> Exception:
    return fault(
        "E-5019",
        op,
        f"{what} is issued without a wgmma.fence before it",
        notes=["the fence orders accesses of registers before it with the MMAs after it. PTX ISA, wgmma.fence"],
    )


# ---------------------------------------------------------------------------------------------------------- operands
def _operand_a(c: Compiler, op: hw.WgmmaIssue) -> Callable[[Warp, Registers | None], Callable[[Mma], F32]]:
    """[16 * blocks, k] of a warp, as f32."""
    if isinstance(op.a, FragRef):
        type_ = c.shape(op.a.frag).type

        def from_registers(warp: Warp, operand: Registers | None) -> Callable[[Mma], F32]:
            assert operand is not None
            return lambda mma: to_f32(registers_to_rows(operand.data), type_)

        return from_registers
    box = _shared_operand(c, op.a, op)
    blocks, transposed, type_ = op.m // WGMMA_M, op.a_transposed, op.a.root.type

    def from_shared(warp: Warp, operand: Registers | None) -> Callable[[Mma], F32]:
        start, row, col = box.place(warp, op)
        box.check_pattern(warp, op)
        first = warp.index % 4 * WARP_ROWS

        def read(mma: Mma) -> F32:
            parts = []
            for block in range(blocks):
                at = 64 * block + first
                if transposed:
                    parts.append(box.read(warp, start, row, col + at, box.rows, WARP_ROWS).T)
                else:
                    parts.append(box.read(warp, start, row + at, col, WARP_ROWS, box.cols))
            return to_f32(parts[0] if blocks == 1 else np.concatenate(parts), type_)

        return read

    return from_shared


def _operand_b(c: Compiler, op: hw.WgmmaIssue) -> Callable[[Warp], Callable[[Mma], F32]]:
    """[k, n] as f32."""
    box = _shared_operand(c, op.b, op)
    transposed, type_ = op.b_transposed, op.b.root.type

    def from_shared(warp: Warp) -> Callable[[Mma], F32]:
        start, row, col = box.place(warp, op)
        box.check_pattern(warp, op)

        def read(mma: Mma) -> F32:
            values = to_f32(box.read(warp, start, row, col, box.rows, box.cols), type_)
            return values if transposed else values.T

        return read

    return from_shared


def _shared_operand(c: Compiler, view: View, op: Op) -> Box:
    box = Box(c, view, op)
    buffer = view.root
    assert isinstance(buffer, Buffer)
    if not buffer.swizzle and buffer.cols * box.tile.size > 16:
        raise fault(
            "E-5024",
            op,
            f"a WGMMA reads `{buffer.name}`, which is plain row-major",
            notes=["matrix descriptors describe 8 x 16-byte core matrices or swizzled rows. PTX ISA, wgmma"],
        )
    if not box.contiguous:
        raise fault("E-5030", op, f"the simulator cannot read a WGMMA operand in separate rows of `{buffer.name}`")
    return box


def _watch(mma: Mma, boxes: list[Box], accumulate: bool) -> None:
    """Tell a watcher what a warp's share of an MMA reads: all of B, and (as it is not said which rows) all of A."""
    warp, watch = mma.of, mma.of.cta.watch
    assert watch is not None
    for registers in [mma.operand, mma.accumulator if accumulate else None]:
        if registers is not None and registers.data is registers.shape.undefined and not registers.writing:
            watch.undefined(warp, mma.op, registers.shape.fragment)
    watch.multiply(warp, mma, [box.watched(*box.place(warp, mma.op)) for box in boxes], warp.committed + 1)


# ----------------------------------------------------------------------------------------------------- commit and wait
@handles(hw.WgmmaCommit)
def _commit(c: Compiler, op: hw.WgmmaCommit) -> Code:
    future = op.future.name if op.future is not None else None

    def run(warp: Warp) -> None:
        group_of(warp, op)
        for mma in warp.open:
            mma.future = future
        warp.commits.append((warp.committed, warp.open))
        warp.open = []
        warp.committed += 1

    return c.preemptible(Code(run))


@handles(hw.WgmmaWait)
def _wait(c: Compiler, op: hw.WgmmaWait) -> Code:
    depth, lazy = op.depth, c.policy.lazy

    def run(warp: Warp) -> Run:
        group = group_of(warp, op)
        due = warp.committed - depth  # groups with a smaller number must be complete
        if due > 0 and any(w.committed < due for w in group.warps):
            yield Waiting(op, lambda: all(w.committed >= due for w in group.warps), lambda: _behind(group, due))
        if lazy and due > 0 and warp.queue:
            yield None  # whoever else can go on does so first
        while warp.commits and warp.commits[0][0] < due:
            for mma in warp.commits[0][1]:
                while lazy and not mma.done:
                    warp.queue.popleft().complete()
                if not mma.done:
                    yield Waiting(op, partial(_done, mma), lambda: "an MMA")
                mma.release()
            warp.commits.popleft()
        if warp.cta.watch is not None and due > 0:
            warp.cta.watch.multiplied(warp, op, due)

    return c.preemptible(Code(blocking=run))


def _done(mma: Mma) -> bool:
    return mma.done


def _behind(group: Warpgroup, due: int) -> str:
    late = [str(w.index) for w in group.warps if w.committed < due]
    return f"its warpgroup's MMAs, which warps {', '.join(late)} have not issued"
