"""Roles that only feed the copy engine are run by the thread that feeds it.

Rules
    N1  In a role, the last statements that consist of nothing but waits for mbarriers, moves issued by one elected
        thread, and scalar work are executed by that thread alone. The others would wait for the same phases with no
        part in what completes them, so nothing would keep them within one phase: a warp that falls two phases behind
        sees the parity of the phase it waits for come round again, and waits for ever (PTX ISA, "mbarrier.try_wait": a
        parity tells the current phase from the one before it only).
    N2  Register requests stay with the whole warpgroup (PTX ISA, "setmaxnreg"), and so does everything before the first
        statement that the rest of the role needs to be narrow from. Variables that others read stay with all threads,
        and the statements that assign them.

Needs: moves (who issues is decided). Changes participation only: `threads` of what it narrows; the elections inside
fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import (
    BulkCommit,
    BulkTensorLoad,
    BulkTensorStore,
    BulkWait,
    Elect,
    MbarrierExpectTx,
    MbarrierWait,
    Section,
)
from croq.ir.objects import Kernel, Variable
from croq.ir.rewrite import Builder, rewrite_blocks
from croq.ir.scalar import Break, Continue, For, If, LoadElement, VarDeclare, VarGet, VarSet, While
from croq.ir.types import ThreadSet
from croq.passes.base import Pass

_ISSUE = (BulkTensorLoad, BulkTensorStore, BulkCommit, BulkWait, MbarrierExpectTx)
_SCALAR = (VarDeclare, VarGet, VarSet, LoadElement, Break, Continue, For, If, While)


@dataclass(frozen=True)
class Narrow(Pass):
    name: ClassVar[str] = "narrow"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        for op in list(kernel.walk()):
            if isinstance(op, Section) and op.role and op.threads is not None and len(op.threads) > 1:
                _narrow(kernel, op)


def _narrow(kernel: Kernel, section: Section) -> None:
    ops = section.body.ops
    start = len(ops)
    issuers: set[int] = set()
    while start and len(issuers | (found := _issuers(ops[start - 1]) or set())) <= 1 and _only_feeds(ops[start - 1]):
        issuers |= found
        start -= 1
    tail = ops[start:]
    if len(issuers) != 1 or not any(isinstance(inner, MbarrierWait) for op in tail for inner in _tree(op)):
        return
    if _assigned(tail) & _read_elsewhere(kernel, tail):
        return
    (thread,) = issuers
    alone = ThreadSet(((thread, thread + 1),))
    build = Builder(threads=section.threads)
    is_issuer = build.binary("eq", build.thread_index(kernel.threads), build.const("s32", thread))
    body = Block(tail)
    rewrite_blocks(body, lambda op: op.body.ops if isinstance(op, Elect) else None)
    for op in body.walk():
        op.threads = alone
    narrow = Section("one thread issues", section.level, False, is_issuer, body, threads=alone)
    section.body.ops = [*ops[:start], *build.take(), narrow]


def _tree(op: Op) -> list[Op]:
    return [op, *(inner for region in op.regions() for inner in region.walk())]


def _assigned(tail: list[Op]) -> set[Variable]:
    """Variables that the statements change and that were there before."""
    ops = [inner for op in tail for inner in _tree(op)]
    own = {op.var for op in ops if isinstance(op, VarDeclare)}
    return {op.var for op in ops if isinstance(op, VarSet)} - own


def _read_elsewhere(kernel: Kernel, tail: list[Op]) -> set[Variable]:
    inside = {inner for op in tail for inner in _tree(op)}
    return {op.var for op in kernel.walk() if isinstance(op, VarGet) and op not in inside}


def _issuers(op: Op) -> set[int]:
    return {inner.thread for inner in _tree(op) if isinstance(inner, Elect) and inner.thread is not None}


def _only_feeds(op: Op) -> bool:
    """N1: waits, scalar work, and what one elected thread issues."""
    return all(
        inner.PURE or isinstance(inner, (MbarrierWait, *_SCALAR, *_ISSUE)) or _is_election(inner) for inner in _tree(op)
    )


def _is_election(op: Op) -> bool:
    return isinstance(op, Elect) and op.scope == "set"
