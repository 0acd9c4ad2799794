"""Small facts about scalar values that passes share."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from croq.ir.core import Value
from croq.ir.objects import Param, Start, View
from croq.ir.rewrite import Builder, constant
from croq.ir.scalar import Binary, Cast
from croq.sema.symbolic import Dim


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
        if op.op in ("add", "sub", "min", "max"):
            return gcd(left, right)
        shift = constant(op.right)
        if op.op == "shl" and isinstance(shift, int):
            return left << shift
    return 1


def divides(factor: int, value: Value | int) -> bool:
    return multiple_of(value) % factor == 0


def rows_adjacent(view: View) -> bool:
    """Whether the view is a matrix whose columns are the root's and whose rows follow one another in it."""
    shape = view.root.shape or ()
    between = shape[view.kept[0] + 1 : -1]
    return view.kept[1:] == (len(shape) - 1,) and all(extent == 1 for extent in between)


def unproved_dimensions(view: View) -> tuple[int, ...]:
    """Dimensions along which the view may leave its parameter: its place is not constant, or what it is is too much."""
    root = view.root
    if not isinstance(root, Param) or root.shape is None:
        return ()
    return tuple(d for d in view.kept if not _certain(view.offsets[d], view.extents[d], root.shape[d]))


def _certain(start: Value | int, extent: Dim, limit: Dim) -> bool:
    if not isinstance(start, int):
        return False
    if start == 0 and extent.equals(limit):
        return True
    return extent.known is not None and limit.known is not None and start + extent.known <= limit.known


# ------------------------------------------------------- arithmetic of non-negative offsets that stay in their type
def quotient(build: Builder, value: Value | int, by: int) -> Value | int:
    """`value / by`, without what a factor of `value` makes unnecessary."""
    if isinstance(value, int):
        return value // by
    base, factor = _factor(value)
    common = gcd(factor, by)
    if common == 1:
        return build.binary("div", value, by)
    scaled = build.binary("mul", base, factor // common)
    return build.binary("div", scaled, by // common)


def remainder(build: Builder, value: Value | int, by: int) -> Value | int:
    """`value % by`, 0 where `by` certainly divides it."""
    if isinstance(value, int):
        return value % by
    return 0 if divides(by, value) else build.binary("mod", value, by)


def _factor(value: Value) -> tuple[Value, int]:
    """`value` as a product of a value and a positive constant."""
    if isinstance(value.op, Binary) and value.op.op == "mul":
        factor = constant(value.op.right)
        if isinstance(factor, int) and factor > 0:
            return value.op.left, factor
    return value, 1


@dataclass
class Starting:
    """A `Start` in the making."""

    build: Builder
    offset: int = 0
    terms: list[Value] = field(default_factory=list)
    scales: list[int] = field(default_factory=list)

    def add(self, term: Value | int, scale: int) -> None:
        if isinstance(term, int):
            self.offset += term * scale
        elif scale:
            self.terms.append(term)
            self.scales.append(scale)

    def take(self) -> Start:
        return Start(self.offset, tuple(self.terms), tuple(self.scales))
