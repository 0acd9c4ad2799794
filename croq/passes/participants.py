"""Who executes what: turns scopes and roles into sections, and gives every operation its set of CTA threads.

Rules
    P1  At CTA level and inside inner parallels every thread of the CTA executes.
    P2  `inthreads (c)` and `if (c)` narrow the set to the threads for which `c` holds, where `c` follows from the
        thread index and constants (any affine or other condition: it is evaluated for each thread).
    P3  A condition that is the same in all threads leaves the set alone: they all run the branch, or none does.
    P4  Any other condition makes the set unknown (`threads` None); operations that need to know it report E-2101.
    P5  An effect at CTA level of a kernel that has inner parallels is one thread's (language reference 7.2).
    P6  A role that is not `.async` ends with a barrier of the threads around it; an inner parallel that follows or
        repeats ordinary accesses to shared memory is ordered against them by a CTA barrier on entry and on exit.

Needs: tile IR from the builder. Adds: `threads` on every operation; no `scope` and no `role` is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import CtaSync, Elect, RegMap, Section
from croq.ir.objects import Buffer, Kernel, View
from croq.ir.scalar import Call, For, If, StoreElement, While
from croq.ir.tile import BufferFill, DmaCopy, EventTrigger, FragMap, Role, Scope, Sync, TmaLoad, TmaStore
from croq.ir.types import ThreadSet
from croq.passes.base import Pass
from croq.passes.threads import ThreadAnalysis

Level = Literal["block", "group-4", "group", "thread"]


@dataclass(frozen=True)
class Participants(Pass):
    name: ClassVar[str] = "participants"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _Walk(kernel, sink).run()


class _Walk:
    def __init__(self, kernel: Kernel, sink: Sink) -> None:
        self.kernel = kernel
        self.sink = sink
        self.analysis = ThreadAnalysis(kernel)
        self.has_scopes = any(isinstance(op, Scope) for op in kernel.walk())

    def run(self) -> None:
        everyone = ThreadSet.all(self.kernel.threads)
        self._block(self.kernel.body, everyone, level="block", in_loop=False)

    def _block(self, block: Block, threads: ThreadSet | None, level: Level, in_loop: bool) -> None:
        result: list[Op] = []
        for position, op in enumerate(block.ops):
            op.threads = threads
            if isinstance(op, Scope):
                result += self._scope(op, block, position, threads, level, in_loop)
            elif isinstance(op, Role):
                result += self._role(op, threads, level, in_loop)
            elif level == "block" and self.has_scopes and isinstance(op, (StoreElement, Call, EventTrigger)):
                op.threads = ThreadSet.all(1)
                result.append(Elect("set", 0, Block([op]), span=op.span, threads=threads))
            else:
                self._regions(op, threads, level, in_loop)
                result.append(op)
        block.ops[:] = result

    def _regions(self, op: Op, threads: ThreadSet | None, level: Level, in_loop: bool) -> None:
        if isinstance(op, If):
            self._block(op.then, self._narrow(op, threads, True), level, in_loop)
            if op.otherwise is not None:
                self._block(op.otherwise, self._narrow(op, threads, False), level, in_loop)
        elif isinstance(op, For):
            inner = None if self.analysis.varies(op.count) else threads
            self._block(op.body, inner, level, True)
        elif isinstance(op, While):
            inner = None if self.analysis.varies(op.condition) else threads
            self._block(op.head, inner, level, True)
            self._block(op.body, inner, level, True)
        elif isinstance(op, (FragMap, RegMap)):
            for region in op.regions():
                self._map_body(region, threads)
        else:
            for region in op.regions():
                self._block(region, threads, level, in_loop)

    def _map_body(self, block: Block, threads: ThreadSet | None) -> None:
        """Inside `apply` threads work each on their own elements: nothing collective may stand there."""
        for op in block.walk():
            op.threads = threads

    def _narrow(self, op: If, threads: ThreadSet | None, sense: bool) -> ThreadSet | None:
        if threads is None:
            return None
        known = self.analysis.static(op.condition)
        if known is not None:
            return ThreadSet.of(t for t in threads if bool(known[t]) == sense)
        return None if self.analysis.varies(op.condition) else threads

    def _role(self, op: Role, threads: ThreadSet | None, level: Level, in_loop: bool) -> list[Op]:
        known = self.analysis.static(op.condition)
        inner: ThreadSet | None
        if threads is None or (known is None and self.analysis.varies(op.condition)):
            inner = None
        elif known is None:
            inner = threads
        else:
            inner = ThreadSet.of(t for t in threads if known[t])
            if not len(inner):
                self.sink.warning(
                    "W-2102", op.span, "no thread runs this block", notes=["the condition is false in every thread"]
                )
        self._block(op.body, inner, level, in_loop)
        label = _condition_text(op)
        section = Section(label, level, True, op.condition, op.body, span=op.span, threads=inner)
        if op.is_async:
            return [section]
        return [section, Sync("block" if level == "thread" else level, span=op.span, threads=threads)]

    def _scope(
        self, op: Scope, block: Block, position: int, threads: ThreadSet | None, level: Level, in_loop: bool
    ) -> list[Op]:
        self._block(op.body, threads, op.level, in_loop)
        section = Section("", op.level, False, None, op.body, span=op.span, threads=threads)
        if level != "block" or not self.has_scopes:
            return [section]
        before = any(_touches_shared(other) for other in block.ops[:position])
        after = any(
            _touches_shared(other) or isinstance(other, (Scope, Section)) for other in block.ops[position + 1 :]
        )
        result: list[Op] = []
        if before:
            result.append(CtaSync(span=op.span, threads=threads))
        result.append(section)
        if in_loop or after:
            result.append(CtaSync(span=op.span, threads=threads))
        return result


def _touches_shared(op: Op) -> bool:
    """Ordinary accesses that are not ordered already by what they stand for (moves synchronise themselves)."""
    for inner in [op, *(o for region in op.regions() for o in region.walk())]:
        if isinstance(inner, (DmaCopy, TmaLoad, TmaStore)):
            continue
        if isinstance(inner, BufferFill):
            return True
        for effect in inner.effects():
            if isinstance(effect.target, View) and isinstance(effect.target.root, Buffer):
                return True
    return False


def _condition_text(op: Role) -> str:
    """The condition as the source has it: what stands between the first `(` and its match."""
    if op.span is None:
        return ""
    text = op.span.text
    start = text.find("(")
    depth = 0
    for position in range(max(start, 0), len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return " ".join(text[start + 1 : position].split())
    return ""
