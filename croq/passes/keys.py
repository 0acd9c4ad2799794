"""Value numbering: which scalar values are certainly equal because they are the same expression."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from croq.ir.core import Block, Op, Value
from croq.ir.objects import Kernel, Variable
from croq.ir.rewrite import constant
from croq.ir.scalar import Cast, VarDeclare, VarGet, VarSet

WORDS = ("u32", "s32")


def expression_keys(kernel: Kernel) -> dict[Value, Hashable]:
    """Equal keys: certainly equal numbers. A variable's value is told apart by what was last stored in it.

    Conversions between 32-bit integers do not count: a key says nothing of the value's own type.
    """
    return _Keys().run(kernel.body)


class _Keys:
    def __init__(self) -> None:
        self.keys: dict[Value, Hashable] = {}
        self.version: dict[Variable, int] = defaultdict(int)
        self.next_version = 0

    def run(self, body: Block) -> dict[Value, Hashable]:
        self.block(body)
        return self.keys

    def bump(self, variable: Variable) -> None:
        self.next_version += 1
        self.version[variable] = self.next_version

    def block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, VarGet):
                self.keys[op.result] = (op.var.name, self.version[op.var])
            elif isinstance(op, (VarSet, VarDeclare)):
                self.bump(op.var)
            elif op.PURE:
                self.pure(op)
            changed = [
                inner.var
                for region in op.regions()
                for inner in region.walk()
                if isinstance(inner, (VarSet, VarDeclare))
            ]
            for variable in changed:
                self.bump(variable)
            for region in op.regions():
                self.block(region)
            for variable in changed:
                self.bump(variable)

    def pure(self, op: Op) -> None:
        (result,) = op.results()
        known = constant(result)
        if known is not None:
            self.keys[result] = known if isinstance(known, int) else repr(known)
        elif isinstance(op, Cast) and result.type in WORDS and op.operand.type in WORDS:
            self.keys[result] = self.keys.get(op.operand, id(op.operand))
        else:
            parts = tuple((v.type, self.keys.get(v, id(v))) for v in op.operands())
            fixed = [getattr(op, name, None) for name in ("op", "fn", "symbol", "axis")]
            self.keys[result] = (op.NAME, result.type, *fixed, *parts)
