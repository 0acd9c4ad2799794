"""Fragments as C++ arrays: their declarations, and the text of one register of them.

    accumulator   float x[n / 2]          more than 64 rows: float x[m / 64][n / 2], so that a block goes to WGMMA whole
    packed        u32 x[n / 4]            pairs of 16-bit elements, lower column in the low half
    row vector    float x[m / 32]         two registers a 64-row block
    uniform       float x[registers]
An array of fragments has one more dimension in front.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from croq.emit.expressions import NARROW_FLOATS, Expr, as_expr, binary, cpp_type, divided, modulo
from croq.ir.objects import Fragment, FragRef, Kernel
from croq.target.sm90.fragments import AccumulatorLayout, RowLayout, UniformLayout

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

ROWS = 64  # rows of a block: M of one WGMMA


@dataclass(frozen=True)
class Shape:
    """How a fragment is declared: `blocks` 64-row blocks (accumulators), each of `elements` elements a thread."""

    kind: str
    element: str
    packed: bool
    blocks: int
    elements: int

    @property
    def registers(self) -> int:
        """Array elements a block."""
        return self.elements // 2 if self.packed else self.elements

    @property
    def cpp(self) -> str:
        return "u32" if self.packed else cpp_type(self.element)


def shape_of(frag: Fragment) -> Shape:
    layout = frag.layout
    assert layout is not None and frag.type is not None
    if isinstance(layout, AccumulatorLayout):
        return Shape("accumulator", frag.type, frag.packed, layout.m // ROWS, layout.n // 2)
    return Shape(layout.kind, frag.type, frag.packed, 1, layout.registers)


def slots_of(kernel: Kernel) -> dict[Fragment, int]:
    """Fragments that are used as arrays, and how many there are."""
    found: dict[Fragment, int] = {}
    for op in kernel.walk():
        for item in vars(op).values():
            for part in item if isinstance(item, tuple) else (item,):
                if isinstance(part, FragRef) and isinstance(part.slot, int):
                    found[part.frag] = max(found.get(part.frag, 0), part.slot + 1)
    return found


def declaration(name: str, shape: Shape, slots: int | None) -> str:
    """`float acc[2][64]`."""
    text = f"{shape.cpp} {name}"
    if slots is not None:
        text += f"[{slots}]"
    if shape.blocks > 1:
        text += f"[{shape.blocks}]"
    return f"{text}[{shape.registers}]"


def array(emitter: Emitter, ref: FragRef) -> str:
    """The array of a fragment (all its blocks)."""
    text = emitter.fragment_names[ref.frag]
    if ref.slot is None:
        return text
    slot = ref.slot if isinstance(ref.slot, int) else emitter.expr(ref.slot).text
    return f"{text}[{slot}]"


def block_array(emitter: Emitter, ref: FragRef, block: int | str = 0) -> str:
    """The array of one 64-row block."""
    text = array(emitter, ref)
    return f"{text}[{block}]" if shape_of(ref.frag).blocks > 1 else text


def element(emitter: Emitter, ref: FragRef, register: Expr, block: Expr | None = None) -> Expr:
    """The value of one element, of the fragment's type. `register` counts elements within the block."""
    shape = shape_of(ref.frag)
    text = block_array(emitter, ref, block.text if block is not None else 0)
    reads = frozenset({ref.frag})
    if not shape.packed:
        return Expr(f"{text}[{register}]", reads=reads, atom=True)
    half = modulo(register, 2)
    return Expr(f"croq::half_of<{shape.element}>({text}[{divided(register, 2)}], {half})", reads=reads)


def raw_pair(emitter: Emitter, ref: FragRef, pair: Expr, block: Expr | None = None) -> Expr:
    """The 32-bit register that holds a packed pair."""
    text = block_array(emitter, ref, block.text if block is not None else 0)
    return Expr(f"{text}[{pair}]", reads=frozenset({ref.frag}), atom=True)


def as_float(value: Expr, element_type: str) -> Expr:
    """The value as f32 (f64 stays)."""
    if element_type in ("f32", "tf32", "f64"):
        return value
    return Expr(f"float({value})", reads=value.reads)


def converted(value: Expr, source: str, target: str) -> Expr:
    """A value conversion between scalar types."""
    if source == target or (source, target) == ("tf32", "f32"):
        return value
    if target == "tf32":
        return Expr(f"croq::to_tf32({as_float(value, source)})", reads=value.reads)
    if target == "bool":
        return binary("ne", value, as_expr(0))
    if target in NARROW_FLOATS:
        if source in NARROW_FLOATS:
            return Expr(f"croq::to<{target}>({value})", reads=value.reads)
        inner = value.text if source in ("f32", "tf32") else f"float({value})"
        return Expr(f"{target}({inner})", reads=value.reads)
    if source in NARROW_FLOATS and target not in ("f32",):
        return Expr(f"{cpp_type(target)}(float({value}))", reads=value.reads)
    return Expr(f"{cpp_type(target)}({value})", reads=value.reads, atom=value.atom and target != "f32")


def packed_pair(target: str, low: Expr, high: Expr, source: str) -> Expr:
    """Two neighbouring elements of 16-bit `target` in one register."""
    reads = low.reads | high.reads
    if source == target:
        return Expr(f"croq::pack_bits({low}, {high})", reads=reads)
    return Expr(f"croq::pack<{target}>({as_float(low, source)}, {as_float(high, source)})", reads=reads)


def row_count(frag: Fragment) -> int:
    """Row registers of a thread over the fragment's rows."""
    layout = frag.layout
    if isinstance(layout, AccumulatorLayout):
        return layout.row_registers
    assert isinstance(layout, RowLayout)
    return layout.registers


def uniform_size(layout: UniformLayout) -> int:
    return prod(layout.shape)
