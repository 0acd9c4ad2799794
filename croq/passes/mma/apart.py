"""What tells the warpgroups of a CTA apart: values and fragments that follow from the thread index.

Not the coordinates of `apply`, which every warpgroup runs through alike.
"""

from __future__ import annotations

from croq.ir.core import Block, Op, Value
from croq.ir.objects import Fragment, FragRef, Kernel
from croq.ir.scalar import Call, FragRead, ThreadIndex, VarGet
from croq.ir.tile import Mma
from croq.passes.analysis.threads import ThreadAnalysis


class Apart:
    """Of one kernel as it is at construction."""

    def __init__(self, kernel: Kernel) -> None:
        self._analysis = ThreadAnalysis(kernel)
        self._values: dict[Value, bool] = {}
        self._fragments: set[Fragment] = set()
        known = -1
        while known < len(self._fragments):  # loops carry fragments from one operation to an earlier one
            known = len(self._fragments)
            self._values.clear()
            self._collect(kernel.body, False)

    def mma(self, op: Mma) -> bool:
        """Whether its tiles, its operand in registers or its accumulator differ between warpgroups."""
        refs = [op.acc, *([op.a] if isinstance(op.a, FragRef) else [])]
        return any(self._value(v) for v in op.operands()) or any(ref.frag in self._fragments for ref in refs)

    def _collect(self, block: Block, apart: bool) -> None:
        for op in block.ops:
            if apart or self._op(op):
                written = (e.root for e in op.own_effects() if e.kind == "write")
                self._fragments.update(root for root in written if isinstance(root, Fragment))
            condition = op.decided_by if op.CONTROL in ("branch", "threads") else None
            for region in op.regions():
                self._collect(region, apart or (condition is not None and self._value(condition)))

    def _op(self, op: Op) -> bool:
        read = any(e.root in self._fragments for e in op.own_effects() if e.kind == "read")
        return read or any(self._value(v) for v in op.operands())

    def _value(self, value: Value) -> bool:
        if value not in self._values:
            self._values[value] = self._decide(value)
        return self._values[value]

    def _decide(self, value: Value) -> bool:
        op = value.op
        if op is None:
            return False
        if isinstance(op, VarGet):
            return self._analysis.varies(value)
        if isinstance(op, FragRead) and op.frag.frag in self._fragments:
            return True
        return isinstance(op, (ThreadIndex, Call)) or any(self._value(operand) for operand in op.operands())
