"""WGMMA: descriptors, issue, groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.emit import addresses, registers
from croq.emit.expressions import Expr, divided, integer, modulo, name, plus, times
from croq.emit.registry import statement
from croq.emit.templating import Fields
from croq.emit.text import call_text
from croq.ir.core import Value
from croq.ir.hw import WgmmaCommit, WgmmaFence, WgmmaIssue, WgmmaWait
from croq.ir.objects import Buffer, FragRef, Matrix, View
from croq.ir.operands import words
from croq.target.fragments import ROWS
from croq.target.sm90.descriptors import UNIT, Descriptor, Major
from croq.target.sm90.instructions import A_REGISTERS, Wgmma

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

OPERANDS_WIDTH = 64  # characters of the four registers of A that stay on one line


def instruction(op: WgmmaIssue) -> Wgmma:
    """The WGMMA instruction that the operation issues, once a row block and K step."""
    in_registers = isinstance(op.a, FragRef)
    return Wgmma(op.n, in_registers, op.a.element, op.b.element, op.acc.element, op.a_transposed, op.b_transposed)


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
    blocks, steps = op.m // ROWS, op.k // op.k_step
    emitter.names.push()
    assert op.b_matrix is not None
    b = _Operand(emitter, op.b, op.b_matrix, "mn" if op.b_transposed else "k", "b")
    k = name(emitter.names.declare("k")) if steps > 1 else integer(0)
    starts = [b.start]
    a_text: list[list[str]]
    if isinstance(op.a, View):
        assert op.a_matrix is not None
        a = _Operand(emitter, op.a, op.a_matrix, "mn" if op.a_transposed else "k", "a")
        starts.insert(0, a.start)
        a_text = [[a.at(k, block)] for block in range(blocks)]
    else:
        a_text = [_register_operand(emitter, op.a, k, block) for block in range(blocks)]
    scale = "1" if op.accumulate else f"{k} > 0" if steps > 1 else "0"
    calls = [
        call_text(wgmma.name, [registers.block_array(emitter, op.acc, block), *a_text[block], f"{b.at(k, 0)}, {scale}"])
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
    """A shared operand: the named words of its descriptors, and the descriptor of each instruction."""

    def __init__(self, emitter: Emitter, view: View, matrix: Matrix, major: Major, role: str) -> None:
        assert isinstance(view.root, Buffer)
        self.matrix = matrix
        self.first = emitter.expr(matrix.first) if isinstance(matrix.first, Value) else integer(matrix.first)
        low, self.high = _words(emitter, view.root, major, matrix)
        self.local = name(emitter.names.declare(role))
        start = addresses.started(emitter, view, matrix.start)
        self.start = {"name": self.local.text, "address": start.text, "low": low}

    def at(self, k: Expr, block: int) -> str:
        """The descriptor of row block `block` and K step `k`."""
        matrix, step = self.matrix, plus(self.first, k)
        far = times(divided(step, matrix.wrap), matrix.jump // UNIT)
        near = times(modulo(step, matrix.wrap), matrix.step // UNIT)
        word = plus(self.local, far, near, block * matrix.block // UNIT)
        return f"croq::make_descriptor({word}, {self.high})"


def _words(emitter: Emitter, buffer: Buffer, major: Major, matrix: Matrix) -> tuple[str, str]:
    """The names of the descriptor's constant words, declared with the kernel's constants."""
    key = (buffer, major, words(matrix))
    if key not in emitter.descriptors:
        base = emitter.places.addresses[buffer]
        emitter.descriptors[key] = emitter.reserve_constant(f"{base}_desc")
    base = emitter.descriptors[key]
    return f"{base}_lo", f"{base}_hi"


def major_text(major: Major, descriptor: Descriptor) -> str:
    swizzle = f"{descriptor.width}-byte swizzle" if descriptor.layout else "no swizzle"
    return f"{'K' if major == 'k' else 'MN'}-major, {swizzle}"
