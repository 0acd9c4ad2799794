"""Tile MMAs to WGMMA batches.

Rules (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; hopper.md sections 3 and 4)
    A1  An MMA is one batch: `wgmma.fence`, its m64nNk instructions, one commit group of its own. The fence stands
        directly before the batch, after any wait loop (hopper.md 3.1).
    A2  A synchronous MMA is an asynchronous one that is waited for at once.
    A3  `acc = fill 0` whose accumulator nothing touches before the MMA of the same block, and with no way out of the
        block in between: the first K-step overwrites instead (scale-d = 0), and no register is zeroed.
    A4  M is a multiple of 64 (row blocks are issued one after the other), N a multiple of 8 up to 256, K a multiple of
        the step of 32 bytes (croq/target/sm90/wgmma.py; the fragments pass has asked); all four warps of a warpgroup
        execute it (E-1113).
    A5  An MMA of a unit larger than a warpgroup is executed by each warpgroup of it, and each computes all its rows.
        That is what the program says where tiles or accumulator are chosen by the thread index; where nothing tells
        the warpgroups apart, it would have them compute one accumulator several times (E-1113).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.hw import RegFill, Section, WgmmaCommit, WgmmaFence, WgmmaIssue
from croq.ir.objects import Fragment, FragRef, Kernel, View
from croq.ir.rewrite import by, constant
from croq.ir.tile import FutureWait, Mma
from croq.ir.types import BYTES, FUTURE
from croq.passes.base import Pass
from croq.passes.mma.apart import Apart
from croq.target.cuda import WARPGROUP
from croq.target.sm90.wgmma import K_BYTES


@dataclass(frozen=True)
class MmaLowering(Pass):
    name: ClassVar[str] = "mma"
    needs = ("participants", "fragments")
    adds = (FutureWait, WgmmaCommit, WgmmaFence, WgmmaIssue)
    leaves_no = (Mma,)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _block(kernel.body, sink, None if _one_warpgroup(kernel) else Apart(kernel))


def _one_warpgroup(kernel: Kernel) -> bool:
    return kernel.threads <= WARPGROUP


def _block(block: Block, sink: Sink, several: Apart | None) -> None:
    """`several`: what tells threads apart, where the code is not that of one warpgroup."""
    overwrites = _foldable_fills(block)
    dropped = set(overwrites.values())
    result: list[Op] = []
    for op in block.ops:
        for region in op.regions():
            _block(region, sink, None if isinstance(op, Section) and op.level == "group-4" else several)
        if isinstance(op, Mma):
            result += _lower(op, accumulate=op not in overwrites, several=several, sink=sink)
        elif op not in dropped:
            result.append(op)
    block.ops[:] = result


def _foldable_fills(block: Block) -> dict[Op, Op]:
    """A3: MMA -> the fill that it makes unnecessary."""
    pending: dict[Fragment, Op] = {}
    found: dict[Op, Op] = {}
    for op in block.ops:
        if isinstance(op, RegFill) and op.frag.slot is None and constant(op.value) == 0:
            pending[op.frag.frag] = op
            continue
        if isinstance(op, Mma) and op.acc.frag in pending:
            found[op] = pending.pop(op.acc.frag)
        for frag in touched_fragments(op):
            pending.pop(frag, None)
        if _may_leave(op):
            pending.clear()
    return found


def _may_leave(op: Op) -> bool:
    """Whether the operation may end the block that it stands in early."""
    if op.CONTROL == "loop":
        return False
    return op.CONTROL == "exit" or any(_may_leave(inner) for r in op.regions() for inner in r.ops)


def touched_fragments(op: Op) -> set[Fragment]:
    """Every fragment that the operation or its regions read or write."""
    return {effect.root for effect in op.effects() if isinstance(effect.root, Fragment)}


def _lower(op: Mma, accumulate: bool, several: Apart | None, sink: Sink) -> list[Op]:
    if not _executable(op, several, sink):
        return []
    a_type = op.a.element
    assert op.acc.frag.shape is not None
    m, n = op.acc.frag.shape
    k = _k_extent(op)
    touched = (op.acc, op.a) if isinstance(op.a, FragRef) else (op.acc,)
    issue = WgmmaIssue(
        op.acc,
        op.a,
        None,
        op.b,
        None,
        m,
        n,
        k,
        K_BYTES // BYTES[a_type],
        op.a_layout == "col",
        op.b_layout == "col",
        accumulate,
    )
    future = op.future or Value(FUTURE)
    result: list[Op] = [WgmmaFence(touched), issue, WgmmaCommit(future)]
    if op.future is None:  # A2
        result.append(FutureWait((future,)))
    for made in result:
        made.span, made.threads = op.span, op.threads
    return by("mma.A1", result)


def _shape(operand: View | FragRef) -> tuple[int, ...] | None:
    return operand.frag.shape if isinstance(operand, FragRef) else operand.static_shape


def _k_extent(op: Mma) -> int:
    shape = _shape(op.a)
    assert shape is not None
    return shape[0] if op.a_layout == "col" else shape[1]


def _executable(op: Mma, several: Apart | None, sink: Sink) -> bool:
    problem = _participation(op, several)
    if problem is None:
        return True
    message, note, hint = problem
    sink.error("E-1113", op.span, message, notes=[note], hint=hint)
    return False


def _participation(op: Mma, several: Apart | None) -> tuple[str, str, str] | None:
    """Who executes it, of A4; and A5."""
    if op.threads is None or not op.threads.whole_warpgroups():
        who = "threads known only at run time" if op.threads is None else f"threads {op.threads}"
        narrow = "move it out of the block that narrows the threads, or let a warpgroup compute: `t by 128 : thread`"
        return f"this MMA is executed by {who}, not by whole warpgroups", "WGMMA is a collective of 128 threads", narrow
    count = len(op.threads) // WARPGROUP
    if several is None or count == 1 or several.mma(op):
        return None
    return (
        f"this MMA is executed by {count} warpgroups, and nothing tells them apart",
        "an MMA is one warpgroup's; each of them would compute all its rows",
        f"let each compute its own rows: `parallel p by {count} : group-4, t by 128 : thread`, with tiles `.at(p, ..)`",
    )
