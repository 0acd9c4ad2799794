"""Logic, shifts and bit fields. PTX ISA, "Logic and Shift Instructions", "Integer Arithmetic Instructions"."""

from __future__ import annotations

from typing import Any

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.ops.arithmetic import simple, stepped
from croq.ptx.registers import DTYPES, Array, signed
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.syntax import WIDTHS, Imm

_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@instruction("and or xor")
def logic(builder: Builder, form: Form) -> Step:
    return simple(builder, form, _LOGIC[form.name], 2)


@instruction("not cnot")
def complement(builder: Builder, form: Form) -> Step:
    if form.name == "cnot":
        return simple(builder, form, lambda a: (a == 0).astype(a.dtype), 1)
    return simple(builder, form, np.invert, 1)


@instruction("shl shr")
def shift(builder: Builder, form: Form) -> Step:
    """The amount is 32 bits, unsigned, and clamped to the width. PTX ISA, shl, shr."""
    target, value, amount = form.operands
    bits = WIDTHS[form.type]
    dtype = np.dtype(DTYPES[form.type])
    operation = np.left_shift if form.name == "shl" else np.right_shift
    arithmetic = form.name == "shr" and signed(form.type)
    a, out = builder.source(value, form.type), builder.target(target, form.type)
    if isinstance(amount, Imm) and 0 <= amount.value < bits:
        by = np.array(amount.value, dtype)
        return stepped(out, lambda x: operation(x, by), a)

    def function(x: Array, n: Array) -> Any:
        inside = operation(x, np.minimum(n, bits - 1).astype(dtype))
        return inside if arithmetic else np.where(n < bits, inside, np.zeros_like(inside))

    return stepped(out, function, a, builder.source(amount, "u32"))


@instruction("shf", flags="l r wrap clamp")
def funnel(builder: Builder, form: Form) -> Step:
    """32 bits out of the 64 of b:a. PTX ISA, shf."""
    left, clamp = "l" in form.flags, "clamp" in form.flags
    target, *sources = form.operands

    def function(a: Array, b: Array, c: Array) -> Array:
        n = (np.minimum(c, 32) if clamp else c & np.uint32(31)).astype(np.uint64)
        both = b.astype(np.uint64) << np.uint64(32) | a
        moved = (both << n) >> np.uint64(32) if left else both >> n
        return moved.astype(np.uint32)

    return stepped(builder.target(target, "b32"), function, *(builder.source(s, "b32") for s in sources))


@instruction("bfe")
def extract(builder: Builder, form: Form) -> Step:
    """PTX ISA, bfe: `position` and `length` are the low bytes; what lies beyond is the sign of a signed field."""
    target, value, position, length = form.operands
    bits = WIDTHS[form.type]
    kind = f"u{bits}"

    def function(a: Array, pos: Array, count: Array) -> Any:
        p, n = (pos & np.uint32(0xFF)).astype(np.int64), (count & np.uint32(0xFF)).astype(np.int64)
        sign_at = np.minimum(p + n - 1, bits - 1)
        shifted = np.where(p < bits, a >> np.minimum(p, bits - 1).astype(a.dtype), 0).astype(a.dtype)
        mask = _mask(n, a.dtype, bits)
        negative = (
            (a >> np.maximum(sign_at, 0).astype(a.dtype)) & np.array(1, a.dtype) != 0 if signed(form.type) else False
        )
        kept = np.minimum(n, np.maximum(bits - p, 0))
        filled = np.where(negative & (n > 0), ~_mask(kept, a.dtype, bits), 0).astype(a.dtype)
        return (shifted & mask) | filled

    rows = (builder.source(value, kind), builder.source(position, "u32"), builder.source(length, "u32"))
    return stepped(builder.target(target, kind), function, *rows)


def _mask(count: Any, dtype: Any, bits: int) -> Any:
    """`count` low bits."""
    full = np.array(2**bits - 1, dtype)
    some = full >> (bits - np.clip(count, 1, bits)).astype(dtype)
    return np.where(count > 0, some, np.zeros_like(some)).astype(dtype)


@instruction("bfi")
def insert(builder: Builder, form: Form) -> Step:
    target, value, base, position, length = form.operands
    bits = WIDTHS[form.type]
    kind = f"u{bits}"

    def function(a: Array, b: Array, pos: Array, count: Array) -> Any:
        p, n = (pos & np.uint32(0xFF)).astype(np.int64), (count & np.uint32(0xFF)).astype(np.int64)
        by = np.minimum(p, bits - 1).astype(a.dtype)
        field = np.where(p < bits, _mask(n, a.dtype, bits) << by, 0).astype(a.dtype)
        return ((a << by) & field) | (b & ~field)

    rows = (builder.source(value, kind), builder.source(base, kind), builder.source(position, "u32"),
            builder.source(length, "u32"))  # fmt: skip
    return stepped(builder.target(target, kind), function, *rows)


def _bit_length(a: Array) -> Any:
    """The position of the highest set bit plus one; 0 for 0."""
    found = np.zeros(a.shape, np.uint32)
    rest = a.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >> np.uint64(step) != 0
        found[high] += np.uint32(step)
        rest = np.where(high, rest >> np.uint64(step), rest)
    return found + (rest != 0).astype(np.uint32)


@instruction("clz popc bfind brev", flags="shiftamt")
def count(builder: Builder, form: Form) -> Step:
    target, value = form.operands
    bits = WIDTHS[form.type]

    def bfind(a: Array) -> Array:
        x = np.where(a < 0, ~a, a) if signed(form.type) else a
        length = _bit_length(x.astype(np.int64).astype(np.uint64) if signed(form.type) else x)
        at = np.uint32(bits) - length if "shiftamt" in form.flags else length - np.uint32(1)
        return np.where(length == 0, np.uint32(0xFFFFFFFF), at).astype(np.uint32)

    def brev(a: Array) -> Array:
        octets = np.ascontiguousarray(a).view(np.uint8).reshape(len(a), -1)[:, ::-1]
        reverse = np.packbits(np.unpackbits(octets, axis=1)[:, :].reshape(len(a), -1, 8)[:, :, ::-1], axis=-1)
        return np.ascontiguousarray(reverse.reshape(len(a), -1)).view(a.dtype)[:, 0]

    functions = {
        "clz": lambda a: np.uint32(bits) - _bit_length(a),
        "popc": lambda a: np.bitwise_count(a).astype(np.uint32),
        "bfind": bfind,
        "brev": brev,
    }
    result = form.type if form.name == "brev" else "u32"
    return stepped(builder.target(target, result), functions[form.name], builder.source(value, form.type))


_PRMT_MODES = {
    "f4e": lambda n: [(n + i) % 8 for i in range(4)],
    "b4e": lambda n: [(n - i) % 8 for i in range(4)],
    "rc8": lambda n: [n] * 4,
    "ecl": lambda n: [max(i, n) for i in range(4)],
    "ecr": lambda n: [min(i, n) for i in range(4)],
    "rc16": lambda n: [2 * (n & 1) + (i & 1) for i in range(4)],
}


@instruction("prmt", flags="f4e b4e rc8 ecl ecr rc16")
def permute(builder: Builder, form: Form) -> Step:
    """Four bytes out of the eight of b:a; bit 3 of a selector copies the byte's sign. PTX ISA, prmt."""
    target, first, second, selector = form.operands
    mode = form.one_of(*_PRMT_MODES)

    def function(a: Array, b: Array, c: Array) -> Array:
        octets = np.stack([np.ascontiguousarray(a), np.ascontiguousarray(b)], 1).view(np.uint8).reshape(len(a), 8)
        rows = np.arange(len(a))[:, None]
        if mode:
            table = np.array([_PRMT_MODES[mode](n) for n in range(4)])
            return np.ascontiguousarray(octets[rows, table[c & np.uint32(3)]]).view(np.uint32)[:, 0]
        nibbles = (c[:, None] >> np.arange(0, 16, 4, dtype=np.uint32)) & np.uint32(0xF)
        chosen = octets[rows, nibbles & np.uint32(7)]
        signs = np.where(chosen & 0x80, 0xFF, 0).astype(np.uint8)
        return np.ascontiguousarray(np.where(nibbles & np.uint32(8), signs, chosen)).view(np.uint32)[:, 0]

    return stepped(
        builder.target(target, "b32"), function, *(builder.source(s, "b32") for s in (first, second, selector))
    )


@instruction("lop3")
def lop3(builder: Builder, form: Form) -> Step:
    target, *sources, table = form.operands
    if not isinstance(table, Imm):
        raise form.refuse("a table that is no constant")
    bits = int(table.value)

    def function(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros_like(a)
        for row in range(8):
            if bits >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    return stepped(builder.target(target, "b32"), function, *(builder.source(s, "b32") for s in sources))
