"""How the instructions of an MMA address its operands in shared memory: matrix descriptors, and their steps.

Rules (PTX ISA, wgmma, "Shared Memory Matrix Layout", "Strides" and "Matrix descriptor"; hopper.md section 4)
    O1  The rows of the tile follow one another in its buffer: a descriptor has one distance between groups of 8 rows,
        which lie W bytes apart in a slab of W bytes (W: the buffer's swizzle).
    O2  LBO, SBO and layout are those of the buffer (target/sm90/descriptors.py, rules K-W, K-none, MN-W, MN-none). The
        base offset is 0: an operand starts on a repeat of the pattern, 8 rows, so its first row is a multiple of 8. An
        XOR of address bits then finds every element, wherever in its slab the operand starts.
    O3  K-major: the first column is a multiple of the K step of 32 bytes. A slab holds W/32 steps of 32 bytes; the next
        slab lies rows * W bytes on. With W = 32 each step takes a slab, without a swizzle two.
    O4  A range of K that certainly stays in one slab starts where it starts, and its steps are 32 bytes. One that may
        leave its slab starts at the slab, and its steps are counted from there: `first` is the number of steps between.
    O5  MN-major: columns are M or N, and the first is a multiple of the slab's. A K step is 32/size rows.
    O6  Row blocks of 64 (M > 64): 64 rows on; MN-major 128 bytes of columns, which are whole slabs.
    O7  What must be a multiple is one for certain: a constant, or an index times a constant. Anything else is refused,
        at a constant offset by the same rule as at a computed one (E-1113).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.facts import DESCRIPTORS
from croq.ir.hw import WgmmaFence, WgmmaIssue
from croq.ir.objects import Buffer, FragRef, Kernel, Matrix, Start, View
from croq.ir.rewrite import Builder
from croq.ir.types import BYTES
from croq.passes.analysis.values import Starting, multiple_of, quotient, remainder, rows_adjacent
from croq.passes.base import Pass
from croq.target.sm90.descriptors import describe
from croq.target.sm90.wgmma import K_BYTES, M
from croq.target.swizzle import PATTERN_ROWS

REMEDY = "cut the tile at a multiple: a constant index, or an index times a constant"


@dataclass(frozen=True)
class Operands(Pass):
    name: ClassVar[str] = "operands"
    needs = ("mma", "swizzles")
    adds = (DESCRIPTORS,)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _block(kernel.body, sink)


def _block(block: Block, sink: Sink) -> None:
    result: list[Op] = []
    for op in block.ops:
        for region in op.regions():
            _block(region, sink)
        if isinstance(op, WgmmaIssue):
            fences = int(bool(result) and isinstance(result[-1], WgmmaFence))  # it stands directly before the batch
            at = len(result) - fences
            result[at:at] = _address(op, sink)
        result.append(op)
    block.ops[:] = result


def _address(op: WgmmaIssue, sink: Sink) -> list[Op]:
    """Decide both operands; gives the arithmetic that they need."""
    build = Builder(op.span, op.threads)
    try:
        if not isinstance(op.a, FragRef):
            op.a_matrix = _matrix(build, op.a, op.a_transposed, op.k, op.m)
        op.b_matrix = _matrix(build, op.b, op.b_transposed, op.k, 0)
    except _Refused as refused:  # O7
        sink.error("E-1113", op.span, refused.message, notes=[refused.note], hint=refused.hint)
    return build.take()


@dataclass
class _Refused(Exception):
    message: str
    note: str
    hint: str = REMEDY


def _matrix(build: Builder, view: View, transposed: bool, k: int, m: int) -> Matrix:
    buffer = view.root
    _whole_rows(view)
    assert isinstance(buffer, Buffer)
    size = BYTES[buffer.type]
    try:
        form = describe(buffer.rows, buffer.cols, size, "mn" if transposed else "k", buffer.swizzle)
    except ValueError as error:
        message = f"no matrix descriptor describes `{buffer.name}`: {error}"
        raise _Refused(message, 'PTX ISA, wgmma, "Matrix descriptor"', "choose other extents") from None
    start = Starting(build)
    _rows(start, view, buffer)
    found = Matrix(form.lbo, form.sbo, form.layout, Start())
    if transposed:
        _mn_major(found, start, view, buffer)
    else:
        _k_major(found, start, view, buffer, k)
    found.block *= m > M  # O6
    found.start = start.take()
    return found


def _whole_rows(view: View) -> None:
    """O1."""
    root = view.root
    if not isinstance(root, Buffer) or root.storage != "shared":
        raise _Refused(
            f"`{root.name}` is not in shared memory",
            "WGMMA reads shared memory and registers (E-1115)",
            "copy the tile to shared memory first",
        )
    if not rows_adjacent(view):
        raise _Refused(
            f"the rows of this tile of `{root.name}` do not follow one another",
            "a matrix descriptor has one distance between groups of 8 rows, which are contiguous",
            "make rows and columns the last two dimensions of the buffer",
        )


def _rows(start: Starting, view: View, buffer: Buffer) -> None:
    """O2."""
    divisor = 0
    for d, offset in enumerate(view.offsets[:-1]):
        rows = prod(buffer.shape[d + 1 : -1])
        divisor = gcd(divisor, multiple_of(offset) * rows)
        start.add(offset, rows * buffer.swizzle)
    if divisor % PATTERN_ROWS:
        raise _Refused(
            f"the first row of this tile of `{buffer.name}` is not known to be a multiple of {PATTERN_ROWS}",
            f"the layout of the buffer repeats every {PATTERN_ROWS} rows, and an operand starts on a repeat",
        )


def _k_major(found: Matrix, start: Starting, view: View, buffer: Buffer, k: int) -> None:
    """O3, O4."""
    col, size, width = view.offsets[-1], BYTES[buffer.type], buffer.swizzle
    step = K_BYTES // size
    known = multiple_of(col)
    if known % step:
        raise _Refused(
            f"the first column of this tile of `{buffer.name}` is not known to be a multiple of {step}",
            f"it is an index along K, of which one instruction multiplies {K_BYTES} bytes",
        )
    steps, slabs = max(1, width // K_BYTES), max(1, K_BYTES // width)  # steps a slab, slabs a step
    jump = slabs * buffer.rows * width
    found.block = M * width
    start.add(quotient(start.build, col, steps * step), jump)
    inside = remainder(start.build, col, steps * step)
    if _stays(inside, known, steps * step, k):
        start.add(inside, size)
        found.jump = K_BYTES
    elif steps == 1:
        found.jump = jump
    else:
        found.first = remainder(start.build, quotient(start.build, col, step), steps)
        found.wrap, found.jump, found.step = steps, jump, K_BYTES


def _stays(inside: Value | int, known: int, slab: int, extent: int) -> bool:
    """Whether a range of columns that starts `inside` a slab, at a multiple of `known`, certainly ends in it."""
    last = inside if isinstance(inside, int) else slab - gcd(known, slab)
    return last + extent <= slab


def _mn_major(found: Matrix, start: Starting, view: View, buffer: Buffer) -> None:
    """O5."""
    size, width = BYTES[buffer.type], buffer.swizzle
    slab = width // size  # columns
    if multiple_of(view.offsets[-1]) % slab:
        raise _Refused(
            f"the first column of this tile of `{buffer.name}` is not known to be a multiple of {slab}",
            f"it is an index along M or N, and an operand starts on a slab of {width} bytes",
        )
    start.add(quotient(start.build, view.offsets[-1], slab), buffer.rows * width)
    found.jump = K_BYTES // size * width
    found.block = M // slab * buffer.rows * width
