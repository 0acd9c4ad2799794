"""Machine operations that sm_90a has: what the IR's verifier asks about each, in numbers of `limits`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from croq.ir.core import Op
from croq.ir.hw import NamedBarrierArrive, NamedBarrierSync, SetMaxNReg, WgmmaIssue
from croq.ir.objects import Matrix, View
from croq.ir.types import BYTES
from croq.target.sm90 import limits
from croq.target.sm90.descriptors import MAX_ENCODED


def wgmma(op: WgmmaIssue) -> Iterator[str]:
    type = op.b.root.type
    if op.m % limits.WGMMA_M or op.m <= 0 or op.n not in limits.WGMMA_N:
        yield f"no wgmma has the shape {op.m} x {op.n}"
    if op.k_step * BYTES[type] != limits.WGMMA_K_BYTES or op.k % op.k_step or op.k <= 0:
        yield f"K = {op.k} in steps of {op.k_step} {type}"
    if (op.a_transposed or op.b_transposed) and BYTES[type] != 2:
        yield f"a transposed operand of {type}"
    if not isinstance(op.a, View) and op.a_transposed:
        yield "a transposed operand in registers"
    for name, matrix in (("a", op.a_matrix), ("b", op.b_matrix)):
        if matrix is not None:
            yield from _matrix(name, matrix)


def _matrix(name: str, matrix: Matrix) -> Iterator[str]:
    """What a descriptor can hold; its start counts in units of 16 bytes."""
    if not 0 <= matrix.layout < 4 or not 0 <= matrix.base < 8 or matrix.wrap < 1:
        yield f"the fields of the descriptors of `{name}`"
    bytes_ = (matrix.lbo, matrix.sbo, matrix.start.offset, matrix.block, matrix.jump, matrix.step)
    if any(value < 0 or value % 16 or value >> 4 > MAX_ENCODED for value in bytes_):
        yield f"offsets of the descriptors of `{name}` that are no multiples of 16 below 2^18"
    if len(matrix.start.terms) != len(matrix.start.scales):
        yield f"terms without scales in the start of `{name}`"


def setmaxnreg(op: SetMaxNReg) -> Iterator[str]:
    if not limits.is_setmaxnreg(op.count):
        yield f"setmaxnreg of {op.count}"


def named_barrier(op: NamedBarrierSync | NamedBarrierArrive) -> Iterator[str]:
    if not 0 <= op.barrier < limits.NAMED_BARRIERS or op.count % limits.WARP_SIZE or op.count <= 0:
        yield f"named barrier {op.barrier} of {op.count} threads"


CHECKS: dict[type[Op], Callable[[Any], Iterator[str]]] = {
    WgmmaIssue: wgmma,
    SetMaxNReg: setmaxnreg,
    NamedBarrierSync: named_barrier,
    NamedBarrierArrive: named_barrier,
}
