"""WGMMA: each warp computes its rows of the product, at a time that the schedule chooses.

The four warps of a warpgroup issue the same WGMMAs; a warp's own commit groups complete in order. Each warp's share is
a separate operation, because nothing promises that the other warps have read their operands when one warp's wait is
over.
Register use is checked under every schedule: between issue and wait the accumulator may not be touched and a register
operand may not be overwritten. PTX ISA, wgmma.mma_async, wgmma.fence, wgmma.wait_group.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.ir import hw
from croq.ir.core import Op
from croq.ir.objects import FragRef, View
from croq.simulate.compiler import Code, Compiler, handles
from croq.simulate.dtypes import to_f32
from croq.simulate.faults import fault
from croq.simulate.machine import Mma, Run, Waiting, Warp, Warpgroup
from croq.simulate.matrices import Located, SharedOperand
from croq.simulate.registers import Registers
from croq.simulate.watch import Place
from croq.target.fragments import ROWS

WARP_ROWS = 16  # rows of each 64-row block that one warp has
F32 = NDArray[np.float32]


def rows_to_registers(product: F32) -> F32:
    """[16 * blocks, n] of one warp to [32 lanes, 2 * blocks rows, n / 4] (target/fragments.py has the map)."""
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
    shared_a = SharedOperand(c, op, "a") if isinstance(op.a, View) else None
    shared_b = SharedOperand(c, op, "b")
    a_type = c.shape(op.a.frag).type if isinstance(op.a, FragRef) else ""
    accumulate, dtype = op.accumulate, c.shape(op.acc.frag).dtype
    eager = c.policy.eager
    # operands are addressed at issue and read when the MMA runs

    def run(warp: Warp) -> None:
        acc = accumulator(warp)
        operand = a_fragment(warp) if a_fragment is not None else None
        group_of(warp, op).issue(warp, op)
        _check_registers(acc, operand, warp, op)
        at_b = shared_b.locate(warp)
        at_a = shared_a.locate(warp) if shared_a is not None else None

        def compute(mma: Mma) -> None:
            if shared_a is not None and at_a is not None:
                a = shared_a.values(warp, _own_rows(shared_a, op, warp, at_a))
            else:
                assert operand is not None
                a = to_f32(registers_to_rows(operand.data), a_type)
            product = rows_to_registers(a @ shared_b.values(warp, at_b.chunks).T)
            total = acc.data.astype(np.float32) + product if accumulate else product
            acc.data = total.astype(dtype, copy=False)

        mma = Mma(warp, op, compute, acc, operand)
        if warp.cta.watch is not None:
            _watch(mma, [at.place for at in (at_a, at_b) if at is not None], accumulate)
        acc.writing += 1
        acc.user = mma
        if operand is not None:
            operand.reading += 1
            operand.user = mma
        warp.mmas.open.append(mma)
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
def _own_rows(operand: SharedOperand, op: hw.WgmmaIssue, warp: Warp, at: Located) -> Any:
    """The chunks of A that hold the warp's rows of each 64-row block."""
    first = warp.index % 4 * WARP_ROWS
    per = operand.box.tile.per_chunk if operand.transposed else 1
    blocks = [slice((n + first) // per, (n + first + WARP_ROWS) // per) for n in range(0, op.m, ROWS)]
    if operand.transposed:
        return np.concatenate([at.chunks[:, block] for block in blocks], axis=1)
    return np.concatenate([at.chunks[block] for block in blocks])


def _watch(mma: Mma, places: list[Place], accumulate: bool) -> None:
    """Tell a watcher what a warp's share of an MMA reads: all of B, and (as it is not said which rows) all of A."""
    warp, watch = mma.of, mma.of.cta.watch
    assert watch is not None
    for registers in [mma.operand, mma.accumulator if accumulate else None]:
        if registers is not None and registers.data is registers.shape.undefined and not registers.writing:
            watch.undefined(warp, mma.op, registers.shape.fragment)
    watch.multiply(warp, mma, places, warp.mmas.committed + 1)


# ----------------------------------------------------------------------------------------------------- commit and wait
@handles(hw.WgmmaCommit)
def _commit(c: Compiler, op: hw.WgmmaCommit) -> Code:
    future = op.future.name if op.future is not None else None

    def run(warp: Warp) -> None:
        group_of(warp, op)
        for mma in warp.mmas.open:
            mma.future = future
        warp.mmas.commit()

    return c.preemptible(Code(run))


@handles(hw.WgmmaWait)
def _wait(c: Compiler, op: hw.WgmmaWait) -> Code:
    depth, lazy = op.depth, c.policy.lazy

    def run(warp: Warp) -> Run:
        group = group_of(warp, op)
        due = warp.mmas.committed - depth  # groups with a smaller number must be complete
        if due > 0 and any(w.mmas.committed < due for w in group.warps):
            yield Waiting(op, lambda: all(w.mmas.committed >= due for w in group.warps), lambda: _behind(group, due))
        if lazy and due > 0 and warp.queue:
            yield None  # whoever else can go on does so first
        for mmas in warp.mmas.due(depth):
            for mma in mmas:
                while lazy and not mma.done:
                    warp.queue.popleft().complete()
                if not mma.done:
                    yield Waiting(op, partial(_done, mma), lambda: "an MMA")
                mma.release()
        if warp.cta.watch is not None and due > 0:
            warp.cta.watch.multiplied(warp, op, due)

    return c.preemptible(Code(blocking=run))


def _done(mma: Mma) -> bool:
    return mma.done


def _behind(group: Warpgroup, due: int) -> str:
    late = [str(w.index) for w in group.warps if w.mmas.committed < due]
    return f"its warpgroup's MMAs, which warps {', '.join(late)} have not issued"
