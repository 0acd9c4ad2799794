"""Roles that only feed the copy engine are run by the threads that feed it.

Rules
    N1  In a role, the last statements that consist of nothing but waits for mbarriers, moves issued by one elected
        thread, and scalar work are executed by that thread alone. The others would wait for the same phases with no
        part in what completes them, so nothing would keep them within one phase: a thread that falls two phases behind
        sees the parity of the phase it waits for come round again, and waits for ever (PTX ISA, "mbarrier.try_wait": a
        parity tells the current phase from the one before it only).
    N2  Where the whole role does nothing else but wait at named barriers, N1 holds for every block in it (a role of two
        warps, say, that feed two rings): nothing that the other threads do could have relied on the wait. Their warp
        meets again behind such a block.
    N3  A block that counts in a variable which the role uses elsewhere stays with all threads: they need the count.
    N4  Register requests stay with the whole warpgroup (PTX ISA, "setmaxnreg").
    N5  In a role of N2 no wait needs to stand at the end of a block: wherever one issues for all who wait, that thread
        alone waits, and what counts or computes stays with all. Its warp meets again before what comes next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Effect, Op
from croq.ir.hw import Elect, MbarrierWait, Section, WarpSync
from croq.ir.objects import Buffer, Fragment, Kernel, Variable
from croq.ir.rewrite import Builder, rewrite_blocks
from croq.ir.scalar import LoadElement, VarGet, VarSet
from croq.ir.tile import SetReg
from croq.ir.types import ThreadSet
from croq.passes.base import Pass


@dataclass(frozen=True)
class Narrow(Pass):
    name: ClassVar[str] = "narrow"
    needs = ("moves",)
    adds = (WarpSync, Elect)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _visit(kernel, kernel.body, in_loop=False)


def _visit(kernel: Kernel, block: Block, in_loop: bool) -> None:
    for op in list(block.ops):
        if isinstance(op, Section) and op.role and op.threads is not None and len(op.threads) > 1:
            if all(_feeds(inner) or _harmless(inner) for inner in op.body.walk()):
                _narrow_blocks(kernel, op, op.body)
                if not any(_reads_shared(inner) for inner in op.body.walk()):
                    _wait_alone(op, op.body)
            elif not in_loop:
                _narrow(kernel, op, op.body)
        else:
            for region in op.regions():
                _visit(kernel, region, in_loop or op.CONTROL == "loop")


def _narrow_blocks(kernel: Kernel, role: Section, block: Block) -> None:
    """N2."""
    before = block.ops
    if _narrow(kernel, role, block):
        if block is not role.body:
            block.ops.append(WarpSync(threads=block.ops[0].threads, rule="narrow.N2"))
        before = block.ops[: next(n for n, op in enumerate(block.ops) if op not in before)]
    for op in before:
        for region in op.regions():
            _narrow_blocks(kernel, role, region)


def _reads_shared(op: Op) -> bool:
    """By several threads: each of them must have waited for what it reads."""
    shared = isinstance(op, LoadElement) and isinstance(op.view.root, Buffer)
    return shared and (op.threads is None or len(op.threads) > 1)


def _wait_alone(role: Section, block: Block) -> None:
    """N5: the block's waits for the one who issues, gathered with what that thread does next."""
    for op in block.ops:
        for region in () if isinstance(op, Elect) else op.regions():
            _wait_alone(role, region)
    issuers = _issuers(role)
    result: list[Op] = []
    alone: Elect | None = None  # run by the issuer, with a wait in it
    for op in block.ops:
        thread = _issuer_of(op, issuers)
        if thread is not None and isinstance(op, MbarrierWait) and alone is None:
            alone = Elect("set", thread, Block([]), span=op.span, threads=op.threads, rule="narrow.N5")
            result.append(alone)
            _note(op, thread)
        if alone is None:
            result.append(op)
        elif thread is not None and thread == alone.thread:
            alone.body.ops += _of_one(op, thread)
        elif op.PURE or isinstance(op, VarGet):
            result.insert(len(result) - 1, op)  # it depends on nothing that the issuer does
        else:
            result += [_meet(alone), op]
            alone = None
    block.ops = result if alone is None else [*result, _meet(alone)]


def _meet(alone: Elect) -> WarpSync:
    return WarpSync(threads=alone.threads, rule="narrow.N5")


def _issuer_of(op: Op, issuers: set[int]) -> int | None:
    """Who issues for the threads that wait here, where it is one of several; or who is elected here."""
    if isinstance(op, Elect):
        return op.thread
    if not isinstance(op, MbarrierWait) or op.threads is None or len(op.threads) == 1:
        return None
    own = [thread for thread in issuers if thread in op.threads]
    return own[0] if len(own) == 1 else None


def _of_one(op: Op, thread: int) -> list[Op]:
    if isinstance(op, Elect):
        return op.body.ops
    op.threads = ThreadSet(((thread, thread + 1),))
    return [op]


def _note(op: MbarrierWait, thread: int) -> None:
    """In the plan."""
    line = f" at line {op.span.line}" if op.span is not None else ""
    op.event.why += f"; the wait{line} is for thread {thread} alone, which issues for its role (narrow.N5)"


def _narrow(kernel: Kernel, role: Section, block: Block) -> bool:
    """N1: wrap the end of the block, if it is of that kind."""
    ops = block.ops
    start = len(ops)
    issuers: set[int] = set()
    while start and len(issuers | _issuers(ops[start - 1])) <= 1 and _only_feeds(ops[start - 1]):
        issuers |= _issuers(ops[start - 1])
        start -= 1
    tail = ops[start:]
    if len(issuers) != 1 or not any(isinstance(inner, MbarrierWait) for op in tail for inner in op.walk()):
        return False
    (thread,) = issuers
    if tail[0].threads is None or len(tail[0].threads) == 1 or _counts_for_others(kernel, tail):
        return False
    build = Builder(threads=tail[0].threads)
    is_issuer = build.binary("eq", build.thread_index(kernel.threads), build.const("s32", thread))
    alone = ThreadSet(((thread, thread + 1),))
    body = Block(tail)
    rewrite_blocks(body, lambda op: op.body.ops if isinstance(op, Elect) else None)
    for op in body.walk():
        op.threads = alone
    narrow = Section("one thread issues", role.level, False, is_issuer, body, threads=alone, rule="narrow.N1")
    block.ops = [*ops[:start], *build.take(), narrow]
    return True


def _counts_for_others(kernel: Kernel, tail: list[Op]) -> bool:
    """N3: whether a variable that the tail changes is used elsewhere: there every thread must see the change."""
    inside = {inner for op in tail for inner in op.walk()}
    changed = {inner.var for inner in inside if isinstance(inner, VarSet)}
    return any(isinstance(op, (VarGet, VarSet)) and op.var in changed and op not in inside for op in kernel.walk())


def _issuers(op: Op) -> set[int]:
    return {inner.thread for inner in op.walk() if isinstance(inner, Elect) and inner.thread is not None}


def _only_feeds(op: Op) -> bool:
    return all(_feeds(inner) for inner in op.walk())


def _feeds(op: Op) -> bool:
    """Waits, scalar work, and what elected threads issue."""
    if isinstance(op, Elect):
        return op.scope == "set"
    return op.WAITS == "mbarrier" or op.ENGINE == "tma" or (op.ORDINARY and all(map(_scalar, op.own_effects())))


def _scalar(effect: Effect) -> bool:
    return isinstance(effect.root, Variable) or (effect.kind == "read" and not isinstance(effect.root, Fragment))


def _harmless(op: Op) -> bool:
    """N4, and no arrival: who arrives without a wait may rely on others."""
    return op.MEETS is not None or isinstance(op, SetReg)
