"""Pure operations as functions of a warp."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

import croq.numbers as numbers
from croq.ir import scalar
from croq.ir.core import Op, Value
from croq.ir.types import FLOATS
from croq.verify import values
from croq.verify.values import UNKNOWN, Scalar

if TYPE_CHECKING:
    from croq.verify.coder import Coder, Get


def decide(coder: Coder, op: Op) -> None:
    """Choices and comparisons have sides as branches have: what follows from them is not followed by taking one."""
    if op in coder.program.steps:
        return
    if isinstance(op, scalar.Select):
        coder.decide(op, op.condition, "choice", coder.value(op.condition))
    elif isinstance(op, scalar.Binary) and op.left.type not in FLOATS:
        if op.op in numbers.COMPARISONS:
            coder.decide(op, op.result, "comparison", coder.value(op.result))
        elif op.op in ("min", "max"):
            relations: tuple[scalar.BinaryOp, ...] = ("lt", "gt")
            for relation in relations:  # where both are equal, neither is chosen
                chosen = coder.made(relation, op.left, op.right, "bool")
                coder.decide(op, chosen, "choice", _of(values.BINARY[relation], coder, op.left, op.right))


def getter(coder: Coder, op: Op) -> Get:
    if isinstance(op, scalar.Symbol):
        symbol = op.symbol
        return lambda s, w: s.symbols[symbol]
    if isinstance(op, scalar.BlockIndex):
        axis = op.axis
        return lambda s, w: s.place[axis]
    if isinstance(op, scalar.Const) and not isinstance(op.value, float):
        known = op.value
        return lambda s, w: known
    if isinstance(op, scalar.Binary) and op.left.type not in FLOATS:
        return _binary(coder, op)
    if isinstance(op, scalar.Unary):
        return _unary(coder, op)
    if isinstance(op, scalar.Select):
        condition, then, otherwise = (coder.value(v) for v in (op.condition, op.then, op.otherwise))
        return lambda s, w: values.select(condition(s, w), then(s, w), otherwise(s, w))
    if isinstance(op, scalar.Cast) and not {op.operand.type, op.result.type} & FLOATS:
        source, target = op.operand.type, op.result.type
        return _of(lambda a: values.convert(a, source, target), coder, op.operand)
    return lambda s, w: UNKNOWN


def _of(function: Callable[..., Scalar], coder: Coder, *operands: Value) -> Get:
    gets = [coder.value(operand) for operand in operands]
    if len(gets) == 1:
        (get,) = gets
        return lambda s, w: function(get(s, w))
    left, right = gets
    return lambda s, w: function(left(s, w), right(s, w))


def _unary(coder: Coder, op: scalar.Unary) -> Get:
    type_ = op.result.type
    if op.op == "lnot":
        return _of(values.lnot, coder, op.operand)
    if op.guarded:
        return _of(lambda a: values.guarded("sub", 0, a, type_), coder, op.operand)
    return _narrow(coder, _of(operator.neg if op.op == "neg" else operator.invert, coder, op.operand), op.result)


def _binary(coder: Coder, op: scalar.Binary) -> Get:
    name, type_ = op.op, op.left.type
    if op.guarded:
        return _of(lambda a, b: values.guarded(name, a, b, type_), coder, op.left, op.right)
    if name in ("div", "mod") and type_.startswith("u") and not any(map(coder.analysis.vary, (op.left, op.right))):
        return _of(operator.floordiv if name == "div" else operator.mod, coder, op.left, op.right)
    get = _of(values.BINARY[name], coder, op.left, op.right)
    return _narrow(coder, get, op.result) if name in ("add", "sub", "mul", "shl") else get


def _narrow(coder: Coder, get: Get, result: Value) -> Get:
    """Reduced to the type's width, where the value may leave it."""
    mask = values.unsigned_mask(result.type)
    if mask is not None:
        return lambda s, w: get(s, w) & mask
    if not coder.program.widths.wraps(result):
        return get
    return lambda s, w: values.wrap(get(s, w), result.type)
