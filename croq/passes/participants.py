"""Who executes what: turns scopes and roles into sections, and gives every operation its set of CTA threads.

Rules
    P1  At CTA level and inside inner parallels every thread of the CTA executes.
    P2  `inthreads (c)` and `if (c)` narrow the set to the threads for which `c` holds, where `c` follows from the
        thread index and constants (any affine or other condition: it is evaluated for each thread).
    P3  A condition that is the same in all threads leaves the set alone: they all run the branch, or none does.
    P4  Any other condition makes the set unknown (`threads` None); operations that need to know it report E-2101.
    P5  A role that is not `.async` ends with a barrier of the threads around it.
    P6  A loop that threads may leave, or cut an iteration of, at different times (`break`, `continue` under a condition
        that varies) has a body of unknown threads, as one has whose count varies.
    P7  At warpgroup or warp level all threads of the unit execute a store; one that updates what it reads is E-2107.
    P8  What no thread executes is dropped; a role of no thread is worth a warning (W-2102).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.hw import CtaSync, Elect, Section
from croq.ir.objects import Kernel
from croq.ir.scalar import FragDeclare, If, LoadElement, StoreElement
from croq.ir.tile import Role, Scope, Sync
from croq.ir.types import ThreadSet
from croq.passes.analysis.threads import ThreadAnalysis
from croq.passes.base import Pass
from croq.passes.cta_level import is_private

Level = Literal["block", "group-4", "group", "thread"]


@dataclass(frozen=True)
class Participants(Pass):
    name: ClassVar[str] = "participants"
    needs = ("cta-level",)
    adds = (Section, Sync)
    leaves_no = (Scope, Role)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _Walk(kernel, sink).run()


class _Walk:
    def __init__(self, kernel: Kernel, sink: Sink) -> None:
        self.kernel = kernel
        self.sink = sink
        self.analysis = ThreadAnalysis(kernel)

    def run(self) -> None:
        self._block(self.kernel.body, ThreadSet.all(self.kernel.threads), "block")  # P1
        self.kernel.known_threads = True
        alive = {op.frag for op in self.kernel.walk() if isinstance(op, FragDeclare)}
        self.kernel.fragments[:] = [frag for frag in self.kernel.fragments if frag in alive]  # P8

    def _block(self, block: Block, threads: ThreadSet | None, level: Level) -> None:
        result: list[Op] = []
        for op in block.ops:
            op.threads = threads
            if isinstance(op, CtaSync) and threads is None:
                self._unknown(op)
            if isinstance(op, Scope):
                result += self._scope(op, threads)
            elif isinstance(op, Role):
                result += self._role(op, threads, level)
            elif level in ("group-4", "group") and isinstance(op, StoreElement) and self._updates(op):
                self._many_updates(op, level)
            else:
                self._regions(op, threads, level)
                result.append(op)
        block.ops[:] = result

    def _regions(self, op: Op, threads: ThreadSet | None, level: Level) -> None:
        if isinstance(op, If):
            self._branch(op.then, self._narrow(op, threads, True), level)
            if op.otherwise is not None:
                self._branch(op.otherwise, self._narrow(op, threads, False), level)
        elif op.CONTROL == "loop":
            uneven = op.decided_by is None or self.analysis.varies(op.decided_by)  # P6
            for region in op.regions():
                self._block(region, None if uneven or self.analysis.exits_apart(op) else threads, level)
        elif op.CONTROL == "map":
            for region in op.regions():
                self._map_body(region, threads)
        elif isinstance(op, Elect):
            self._block(op.body, ThreadSet.all(1), level)
        else:
            for region in op.regions():
                self._block(region, threads, level)

    def _branch(self, block: Block, threads: ThreadSet | None, level: Level) -> None:
        if threads is not None and not len(threads):
            block.ops.clear()
        self._block(block, threads, level)

    def _map_body(self, block: Block, threads: ThreadSet | None) -> None:
        """Inside `apply` threads work each on their own elements: nothing collective may stand there."""
        for op in block.walk():
            op.threads = threads

    def _narrow(self, op: If, threads: ThreadSet | None, sense: bool) -> ThreadSet | None:
        if threads is None:
            return None
        known = self.analysis.static(op.condition)
        if known is not None:
            return ThreadSet.of(t for t in threads if bool(known[t]) == sense)  # P2
        return None if self.analysis.varies(op.condition) else threads  # P3, P4

    def _role(self, op: Role, threads: ThreadSet | None, level: Level) -> list[Op]:
        known = self.analysis.static(op.condition)
        inner: ThreadSet | None
        if threads is None or (known is None and self.analysis.varies(op.condition)):
            inner = None
        elif known is None:
            inner = threads
        else:
            inner = ThreadSet.of(t for t in threads if known[t])
        section: list[Op] = []
        if inner is not None and not len(inner):
            notes = ["the condition is false in every thread that comes here"]
            self.sink.warning("W-2102", op.span, "no thread runs this block", notes=notes)
        else:
            self._block(op.body, inner, level)
            label = op.label
            section = [Section(label, level, True, op.condition, op.body, span=op.span, threads=inner)]
        if op.is_async:
            return [*section]
        end = Sync("block" if level == "thread" else level, span=op.span, threads=threads, rule="participants.P5")
        return [*section, end]

    def _scope(self, op: Scope, threads: ThreadSet | None) -> list[Op]:
        self._block(op.body, threads, op.level)
        return [Section("", op.level, False, None, op.body, span=op.span, threads=threads)]

    def _updates(self, op: StoreElement) -> bool:
        """P7: whether what is stored comes from what the same data holds."""
        pending, seen = [op.value], set[Value]()
        while pending:
            value = pending.pop()
            made = self.analysis.definition.get(value)
            if isinstance(made, LoadElement) and made.view.root is op.view.root and not is_private(op.view):
                return True
            if made is not None and made.PURE and value not in seen:
                seen.add(value)
                pending += made.operands()
        return False

    def _many_updates(self, op: StoreElement, level: Level) -> None:
        self.sink.error(
            "E-2107",
            op.span,
            f"every thread of a `{level}` unit would do this update of `{op.view.root.name}`",
            notes=["statements at this level are executed by all threads of the unit; repeated updates do not agree"],
            hint="narrow it to one thread: add a `thread` level and `inthreads (t == 0)`",
        )

    def _unknown(self, op: CtaSync) -> None:
        self.sink.error(
            "E-2101",
            op.span,
            "which threads come here depends on run-time values that differ between threads",
            notes=["all threads of the CTA must wait for one another around this statement"],
            hint="move it out of the divergent `if` or loop",
        )
