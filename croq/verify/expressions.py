"""Pure operations as Python text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.ir import scalar
from croq.ir.core import Op, Value
from croq.ir.types import FLOATS
from croq.verify import values

COMPARISONS = frozenset({"lt", "gt", "le", "ge", "eq", "ne"})

if TYPE_CHECKING:
    from croq.verify.program import Coder


def pure(coder: Coder, op: Op, mask: str) -> None:
    """Bind the result of a pure operation, where anything that is followed depends on it."""
    (result,) = op.results()
    if result not in coder.slice.needed or coder.analysis.fixed(result) is not None:
        return
    coder.bind(result, _expression(coder, op))
    _decide(coder, op, mask)


def _decide(coder: Coder, op: Op, mask: str) -> None:
    """Choices and comparisons have sides as branches have: what follows from them is not followed by taking one."""
    if isinstance(op, scalar.Select):
        coder.decide(op, op.condition, "choice", coder.value(op.condition), mask)
    elif isinstance(op, scalar.Binary) and op.left.type not in FLOATS:
        if op.op in COMPARISONS:
            coder.decide(op, op.result, "comparison", coder.value(op.result), mask)
        elif op.op in ("min", "max"):
            relations: tuple[tuple[scalar.BinaryOp, str], ...] = (("lt", "<"), ("gt", ">"))
            for relation, sign in relations:  # where both are equal, neither is chosen
                chosen = coder.made(relation, op.left, op.right, "bool")
                text = f"{coder.value(op.left)} {sign} {coder.value(op.right)}"
                coder.decide(op, chosen, "choice", text, mask)


def _expression(coder: Coder, op: Op) -> str:
    if isinstance(op, scalar.Const):
        return "UNKNOWN" if isinstance(op.value, float) else repr(op.value)
    if isinstance(op, scalar.Symbol):
        return f"S.symbols[{op.symbol!r}]"
    if isinstance(op, scalar.BlockIndex):
        return f"S.place[{op.axis}]"
    if isinstance(op, scalar.Binary):
        return _binary(coder, op)
    if isinstance(op, scalar.Unary):
        operand = coder.value(op.operand)
        if op.op == "lnot":
            return f"lnot({operand})"
        if op.guarded:
            return f"guarded('sub', 0, {operand}, {op.result.type!r})"
        return _narrow(coder, f"({'-' if op.op == 'neg' else '~'}{operand})", op.result)
    if isinstance(op, scalar.Select):
        return f"select({coder.value(op.condition)}, {coder.value(op.then)}, {coder.value(op.otherwise)})"
    if isinstance(op, scalar.Cast):
        if {op.operand.type, op.result.type} & FLOATS:
            return "UNKNOWN"
        return f"convert({coder.value(op.operand)}, {op.operand.type!r}, {op.result.type!r})"
    return "UNKNOWN"


def _binary(coder: Coder, op: scalar.Binary) -> str:
    if op.left.type in FLOATS:
        return "UNKNOWN"
    left, right = coder.value(op.left), coder.value(op.right)
    if op.guarded:
        return f"guarded({op.op!r}, {left}, {right}, {op.left.type!r})"
    divides = op.op in ("div", "mod") and op.left.type.startswith("u") and not _vary(coder, op.left, op.right)
    if divides:
        return f"({left} {'//' if op.op == 'div' else '%'} {right})"
    text = values.TEXT[op.op].format(left, right)
    return _narrow(coder, text, op.result) if op.op in ("add", "sub", "mul", "shl") else text


def _vary(coder: Coder, *operands: Value) -> bool:
    return any(coder.analysis.vary(v) for v in operands)


def _narrow(coder: Coder, text: str, result: Value) -> str:
    """Reduced to the type's width, where the value may leave it."""
    mask = values.unsigned_mask(result.type)
    if mask is not None:
        return f"({text} & {mask})"
    return f"wrap({text}, {result.type!r})" if coder.program.widths.wraps(result) else text
