"""Machine operations that the target has: what the IR's verifier asks about each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from croq.ir.core import Op
from croq.ir.hw import NamedBarrierArrive, NamedBarrierSync, SetMaxNReg, WgmmaIssue
from croq.ir.objects import FragRef, Matrix, View
from croq.target import Target
from croq.target.base import Product
from croq.target.cuda import WARP
from croq.target.sm90.descriptors import MAX_ENCODED, UNIT


def wgmma(op: WgmmaIssue, target: Target) -> Iterator[str]:
    a, b, acc = (item.root.type if isinstance(item, View) else item.frag.type for item in (op.a, op.b, op.acc))
    product = Product(
        op.m, op.n, op.k, a or "", b or "", acc or "", isinstance(op.a, FragRef), op.a_transposed, op.b_transposed
    )
    yield from (f"no wgmma: {fault.message}" for fault in target.tensor_core.faults(product))
    element = target.tensor_core.elements.get(op.b.root.type)
    if element is not None and op.k_step != element.k:
        yield f"K in steps of {op.k_step} {op.b.root.type}"
    for name, matrix in (("a", op.a_matrix), ("b", op.b_matrix)):
        if matrix is not None:
            yield from _matrix(name, matrix)


def _matrix(name: str, matrix: Matrix) -> Iterator[str]:
    """What a descriptor can hold; its start counts in units of 16 bytes."""
    if not 0 <= matrix.layout < 4 or not 0 <= matrix.base < 8 or matrix.wrap < 1:
        yield f"the fields of the descriptors of `{name}`"
    bytes_ = (matrix.lbo, matrix.sbo, matrix.start.offset, matrix.block, matrix.jump, matrix.step)
    if any(value < 0 or value % UNIT or value // UNIT > MAX_ENCODED for value in bytes_):
        yield f"offsets of the descriptors of `{name}` that are no multiples of 16 below 2^18"
    if len(matrix.start.terms) != len(matrix.start.scales):
        yield f"terms without scales in the start of `{name}`"


def setmaxnreg(op: SetMaxNReg, target: Target) -> Iterator[str]:
    if op.count not in target.register_requests:
        yield f"setmaxnreg of {op.count}"


def named_barrier(op: NamedBarrierSync | NamedBarrierArrive, target: Target) -> Iterator[str]:
    if not 0 <= op.barrier < target.named_barriers or op.count % WARP or op.count <= 0:
        yield f"named barrier {op.barrier} of {op.count} threads"


CHECKS: dict[type[Op], Callable[[Any, Target], Iterator[str]]] = {
    WgmmaIssue: wgmma,
    SetMaxNReg: setmaxnreg,
    NamedBarrierSync: named_barrier,
    NamedBarrierArrive: named_barrier,
}
