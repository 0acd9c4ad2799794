"""Value numbering: which scalar values are certainly equal because they are the same expression."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from croq.ir.core import Block, Op, Value
from croq.ir.objects import Kernel, Variable
from croq.ir.rewrite import constant
from croq.ir.scalar import Assignment, Binary, Cast, For, If, VarGet

WORDS = ("u32", "s32")
SHRINKING = ("div", "mod", "shr", "and", "min", "max")  # of numbers from 0 to 2^31 - 1: in that range again


def expression_keys(kernel: Kernel) -> dict[Value, Hashable]:
    """Equal keys: certainly equal numbers. A variable's value is told apart by what was last stored in it.

    Conversions between 32-bit integers do not count: a key says nothing of the value's own type. Nor does it matter
    whether arithmetic on numbers from 0 to 2^31 - 1 was done with or without a sign.
    """
    return _Keys().run(kernel.body)


class _Keys:
    def __init__(self) -> None:
        self.keys: dict[Value, Hashable] = {}
        self.natural: set[Value] = set()  # 32-bit integers that are the same number with and without a sign
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
            elif isinstance(op, Assignment):
                self.bump(op.var)
            elif op.PURE:
                self.pure(op)
            elif isinstance(op, For) and op.iv.type in WORDS:
                self.natural.add(op.iv)
            self.inside(op)

    def inside(self, op: Op) -> None:
        """What regions change is new in each branch, and behind them."""
        changed = [inner.var for inner in op.walk() if inner is not op and isinstance(inner, Assignment)]
        self.bump_all(changed)
        for region in op.regions():
            self.block(region)
            if isinstance(op, If):
                self.bump_all(changed)
        self.bump_all(changed)

    def bump_all(self, variables: list[Variable]) -> None:
        for variable in variables:
            self.bump(variable)

    def pure(self, op: Op) -> None:
        (result,) = op.results()
        known = constant(result)
        if self.is_natural(op, result):
            self.natural.add(result)
        if known is not None:
            self.keys[result] = known if isinstance(known, int) else repr(known)
        elif isinstance(op, Cast) and result.type in WORDS and op.operand.type in WORDS:
            self.keys[result] = self.keys.get(op.operand, id(op.operand))
        else:
            parts = tuple((self.kind(v), self.keys.get(v, id(v))) for v in op.operands())
            fixed = [getattr(op, name, None) for name in ("op", "fn", "symbol", "axis")]
            self.keys[result] = (op.NAME, self.kind(result), *fixed, *parts)

    def kind(self, value: Value) -> str:
        return "natural" if value in self.natural else value.type

    def is_natural(self, op: Op, result: Value) -> bool:
        if result.type not in WORDS:
            return False
        if result.bounds is not None and result.bounds[0] >= 0 and result.bounds[1] <= 1 << 31:
            return True
        if isinstance(op, Binary) and op.op == "mod" and result.type == "u32" and op.right in self.natural:
            return True  # below the divisor
        followed = isinstance(op, Cast) or (isinstance(op, Binary) and op.op in SHRINKING)
        return followed and all(v in self.natural for v in op.operands())
