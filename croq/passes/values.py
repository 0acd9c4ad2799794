"""Small facts about scalar values that passes share."""

from __future__ import annotations

from math import gcd

from croq.ir.core import Value
from croq.ir.rewrite import constant
from croq.ir.scalar import Binary, Cast


def multiple_of(value: Value | int) -> int:
    """A number that certainly divides `value` (0: it is zero, divisible by everything)."""
    if isinstance(value, int):
        return abs(value)
    known = constant(value)
    if isinstance(known, int):
        return abs(known)
    op = value.op
    if isinstance(op, Cast):
        return multiple_of(op.operand)
    if isinstance(op, Binary):
        left, right = multiple_of(op.left), multiple_of(op.right)
        if op.op == "mul":
            return left * right
        if op.op in ("add", "sub"):
            return gcd(left, right)
        shift = constant(op.right)
        if op.op == "shl" and isinstance(shift, int):
            return left << shift
    return 1


def divides(factor: int, value: Value | int) -> bool:
    return multiple_of(value) % factor == 0
