"""Which multiplications and additions are one operation with one rounding: `fmaf`.

Everything behind this pass does what it says and nothing else: NVRTC is told not to fuse, and the simulator rounds
once where there is an `fmaf` and twice where there is none. The chip is faster by one instruction for each sum that is
fused, and the result is nearer to the true one, except where C2 speaks.

C1  `a * b + c`, `a * b - c` and `c - a * b` of f32 or f64 become one `fmaf` where the product stands in the same
    block, has no name in the source and is used by nothing else. A name is how an author asks for the rounded
    product. Narrower types round after each operation, as the language says, and are left alone.
C2  A sum or difference of two products is left alone. Fusing would round one of them and not the other, and
    `x * c - y * c` would not be 0 for equal x and y, but the rounding error of `y * c`, which is large where the
    product is. (Kahan on `a * d - b * c`: "On the Cost of Floating-Point Computation Without Extra-Precise
    Arithmetic".)

    %1 = binary mul, %x, %c        %3 = unary neg, %m
    %2 = binary sub, %1, %m   ->   %2 = math fmaf, (%x, %c, %3)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.objects import Kernel
from croq.ir.rewrite import Builder
from croq.ir.scalar import Binary, Math, Unary
from croq.passes.base import Pass

FUSED_TYPES = frozenset({"f32", "f64"})


@dataclass(frozen=True)
class Contract(Pass):
    name: ClassVar[str] = "contract"
    needs = ("simplify",)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _block(kernel.body, Counter(value for op in kernel.walk() for value in op.operands()))


def _block(block: Block, uses: Counter[Value]) -> None:
    here = set(block.ops)
    gone: set[Op] = set()
    new: list[Op] = []
    for op in block.ops:
        for region in op.regions():
            _block(region, uses)
        product = _fusible(op, here, uses)
        if product is None:
            new.append(op)
        else:
            gone.add(product)
            new += _fused(op, product)
    block.ops = [op for op in new if op not in gone]


def _fusible(op: Op, here: set[Op], uses: Counter[Value]) -> Binary | None:
    """The product that becomes part of the sum `op`."""
    if not isinstance(op, Binary) or op.op not in ("add", "sub") or op.result.type not in FUSED_TYPES:
        return None
    if _is_product(op.left.op) == _is_product(op.right.op):  # C2, or nothing to fuse
        return None
    product = op.left.op if _is_product(op.left.op) else op.right.op
    if not isinstance(product, Binary) or product not in here:  # the negative of a product stays as it is
        return None
    alone = product.result.name is None and uses[product.result] == 1
    return product if alone else None  # C1


def _is_product(op: Op | None) -> TypeGuard[Binary | Unary]:
    if isinstance(op, Unary) and op.op == "neg":
        op = op.operand.op
    return isinstance(op, Binary) and op.op == "mul"


def _fused(op: Op, product: Binary) -> list[Op]:
    assert isinstance(op, Binary)
    build = Builder(op.span, op.threads)
    left, addend = product.left, op.right if op.left is product.result else op.left
    if op.op == "sub" and op.left is product.result:
        addend = build.unary("neg", addend)
    elif op.op == "sub":
        left = build.unary("neg", left)
    build.add(Math("fmaf", (left, product.right, addend), op.result))
    return build.take()
