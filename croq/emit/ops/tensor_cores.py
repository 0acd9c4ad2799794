"""WGMMA: descriptors, issue, groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.emit import addresses, registers
from croq.emit.expressions import Expr, divided, integer, modulo, multiple_of, name, plus, times
from croq.emit.registry import statement
from croq.emit.templating import Fields
from croq.emit.text import call_text
from croq.ir.hw import WgmmaCommit, WgmmaFence, WgmmaIssue, WgmmaWait
from croq.ir.objects import Buffer, FragRef, View
from croq.ir.types import BYTES
from croq.target.sm90 import limits
from croq.target.sm90.descriptors import Descriptor, Major, describe
from croq.target.sm90.instructions import AccType, InType, Wgmma

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

IN_TYPES: dict[str, InType] = {"bf16": "bf16", "f16": "f16", "tf32": "tf32", "f32": "tf32",
                               "f8_e4m3": "e4m3", "f8_e5m2": "e5m2"}  # fmt: skip
ENCODED = 16  # descriptors count in units of 16 bytes
A_REGISTERS = 4
OPERANDS_WIDTH = 64  # characters of the four registers of A that stay on one line


def instruction(op: WgmmaIssue) -> Wgmma:
    """The WGMMA instruction that the operation issues, once a row block and K step."""
    element = op.b.root.type
    acc_type: AccType = "f16" if op.acc.frag.type == "f16" else "f32"
    in_registers = isinstance(op.a, FragRef)
    return Wgmma(op.n, in_registers, IN_TYPES[element], acc_type, op.a_transposed, op.b_transposed)


@statement(WgmmaFence)
def wgmma_fence(emitter: Emitter, op: WgmmaFence) -> Fields:
    return {"arrays": _arrays(emitter, op.frags)}


@statement(WgmmaCommit)
def wgmma_commit(emitter: Emitter, op: WgmmaCommit) -> Fields:
    return {"future": (op.future.name or "") if op.future is not None else ""}


@statement(WgmmaWait)
def wgmma_wait(emitter: Emitter, op: WgmmaWait) -> Fields:
    futures = ", ".join(f.name for f in op.futures if f.name)
    return {"depth": op.depth, "futures": futures, "arrays": _arrays(emitter, op.frags)}


def _arrays(emitter: Emitter, refs: tuple[FragRef, ...]) -> list[str]:
    """Each 64-row block of the fragments that WGMMA touches; row vectors are no business of a register fence."""
    found: list[str] = []
    for ref in refs:
        shape = registers.shape_of(ref.frag)
        if shape.kind == "accumulator" and (shape.packed or shape.cpp == "float"):
            found += [registers.block_array(emitter, ref, block) for block in range(shape.blocks)]
            emitter.fences.add((shape.registers, "u32" if shape.packed else "f32"))
    return found


@statement(WgmmaIssue)
def wgmma_issue(emitter: Emitter, op: WgmmaIssue) -> Fields:
    wgmma = instruction(op)
    emitter.instructions.add(wgmma)
    blocks, steps = op.m // registers.ROWS, op.k // op.k_step
    emitter.names.push()
    b = _Operand(emitter, op.b, "mn" if op.b_transposed else "k", op.k_step, "b")
    k = name(emitter.names.declare("k")) if steps > 1 else integer(0)
    starts = [b.start]
    a_text: list[list[str]]
    if isinstance(op.a, View):
        a = _Operand(emitter, op.a, "mn" if op.a_transposed else "k", op.k_step, "a")
        starts.insert(0, a.start)
        a_text = [[a.at(k, steps, block * registers.ROWS)] for block in range(blocks)]
    else:
        a_text = [_register_operand(emitter, op.a, k, block) for block in range(blocks)]
    scale = "1" if op.accumulate else f"{k} > 0" if steps > 1 else "0"
    calls = [
        call_text(
            wgmma.name, [registers.block_array(emitter, op.acc, block), *a_text[block], f"{b.at(k, steps, 0)}, {scale}"]
        )
        for block in range(blocks)
    ]
    emitter.names.pop()
    return {"starts": starts, "k": k.text, "steps": steps, "calls": calls, "what": _summary(emitter, op, steps)}


def _summary(emitter: Emitter, op: WgmmaIssue, steps: int) -> str:
    a = emitter.fragment_names[op.a.frag] if isinstance(op.a, FragRef) else op.a.root.name
    b = op.b.root.name
    acc, sign = emitter.fragment_names[op.acc.frag], "+=" if op.accumulate else "="
    shape_a = f"{a}[{op.k}, {op.m}]^T" if op.a_transposed else f"{a}[{op.m}, {op.k}]"
    shape_b = f"{b}[{op.k}, {op.n}]" if op.b_transposed else f"{b}[{op.n}, {op.k}]^T"
    return f"{acc}[{op.m}, {op.n}] {sign} {shape_a} * {shape_b}: {steps} step{'s' if steps > 1 else ''} of {op.k_step}"


def _register_operand(emitter: Emitter, ref: FragRef, k: Expr, block: int) -> list[str]:
    array = registers.block_array(emitter, ref, block)
    parts = [f"{array}[{plus(times(k, A_REGISTERS), n)}]" for n in range(A_REGISTERS)]
    line = ", ".join(parts)
    return [line] if len(line) <= OPERANDS_WIDTH else [", ".join(parts[:2]), ", ".join(parts[2:])]


class _Operand:
    """A shared operand: the named words of its descriptors, and the descriptor of each K step."""

    def __init__(self, emitter: Emitter, view: View, major: Major, k_step: int, role: str) -> None:
        assert isinstance(view.root, Buffer)
        self.buffer, self.major, self.k_step = view.root, major, k_step
        size = BYTES[self.buffer.type]
        self.descriptor = describe(self.buffer.rows, self.buffer.cols, size, major, self.buffer.swizzle)
        self.low, self.high = _words(emitter, self.buffer, self.descriptor)
        self._col = addresses.row_and_col(self.buffer, addresses.offsets(emitter, view))[1]
        self.local = name(emitter.names.declare(role))
        start = addresses.view_start(emitter, view)
        self.start = {"name": self.local.text, "address": start.text, "low": self.low}
        self.extent = view.extents[-1].known or self.buffer.cols

    def at(self, k: Expr, steps: int, mn: int) -> str:
        """The descriptor of K step `k`, for the row block that starts at M index `mn`."""
        step = plus(self.local, self._k_offset(k, steps), self.descriptor.mn_offset_bytes(mn) // ENCODED)
        return f"croq::make_descriptor({step}, {self.high})"

    def _k_offset(self, k: Expr, steps: int) -> Expr:
        """How far K step `k` is from the start, in units of 16 bytes."""
        d = self.descriptor
        slab = d.slab_bytes // ENCODED
        if self.major == "mn":
            return times(k, d.k_step_offset_bytes(1) // ENCODED if d.k_steps > 1 else 0)
        if d.row_bytes < limits.WGMMA_K_BYTES:  # a step spans two slabs
            return times(k, limits.WGMMA_K_BYTES // d.row_bytes * slab)
        step, per_slab = limits.WGMMA_K_BYTES // ENCODED, d.row_bytes // limits.WGMMA_K_BYTES
        left = self._steps_left(per_slab)
        if steps <= left:
            return times(k, step)
        if left != per_slab:
            raise ValueError(f"a K range of `{self.buffer.name}` that starts inside a slab and leaves it")
        if per_slab == 1:
            return times(k, slab)
        return plus(times(divided(k, per_slab), slab), times(modulo(k, per_slab), step))

    def _steps_left(self, per_slab: int) -> int:
        """K steps from the start to the end of its slab."""
        slab_cols = per_slab * self.k_step
        if self._col.const is not None:
            return per_slab - self._col.const % slab_cols // self.k_step
        if multiple_of(self._col, slab_cols) or self.extent % slab_cols == 0:
            return per_slab
        return max(1, self.extent // self.k_step)  # a part of a slab, at a multiple of its own size


def _words(emitter: Emitter, buffer: Buffer, descriptor: Descriptor) -> tuple[str, str]:
    """The names of the descriptor's constant words, declared with the kernel's constants."""
    key = (buffer, descriptor)
    if key not in emitter.descriptors:
        base = emitter.places.addresses[buffer]
        emitter.descriptors[key] = emitter.reserve_constant(f"{base}_desc")
    base = emitter.descriptors[key]
    return f"{base}_lo", f"{base}_hi"


def major_text(descriptor: Descriptor) -> str:
    swizzle = f"{descriptor.row_bytes}-byte swizzle" if descriptor.layout_type else "no swizzle"
    return f"{'K' if descriptor.major == 'k' else 'MN'}-major, {swizzle}"
