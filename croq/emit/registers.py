"""Fragments as C++ arrays: their declarations, and the text of one register of them.

    accumulator   float x[n / 2]          more than 64 rows: float x[m / 64][n / 2], so that a block goes to WGMMA whole
    packed        u32 x[n / 4]            pairs of 16-bit elements, lower column in the low half
    row vector    float x[m / 32]         two registers a 64-row block
    uniform       float x[registers]
An array of fragments has one more dimension in front.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from croq.emit.expressions import (
    NARROW_FLOATS,
    NARROW_INTEGERS,
    Expr,
    as_expr,
    binary,
    cpp_type,
    divided,
    literal,
    modulo,
)
from croq.ir.objects import Fragment, FragRef, Kernel
from croq.ir.types import FLOATS, INTEGERS
from croq.target.fragments import ROWS, AccumulatorLayout

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter


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
    return Expr(f"float({value})", reads=value.reads) if element_type in NARROW_FLOATS else value


def converted(value: Expr, source: str, target: str) -> Expr:
    """A value conversion between scalar types, rounded once and saturated as croq.numbers has it."""
    if source == target or (source, target) == ("tf32", "f32"):
        return value
    wide = as_float(value, source) if source in FLOATS else value
    if target == "bool":
        return binary("ne", wide, literal(0, "f64" if source == "f64" else "f32") if source in FLOATS else as_expr(0))
    if target in INTEGERS and source in FLOATS:
        return Expr(f"croq::to_int<{target}>({wide})", reads=value.reads)
    if target == "tf32":
        return Expr(f"croq::to_tf32({wide.text if source != 'f64' else f'float({wide})'})", reads=value.reads)
    if target in NARROW_FLOATS:
        return Expr(_narrowed(value, source, target), reads=value.reads)
    if source in NARROW_FLOATS and target == "f64":
        return Expr(f"double({wide})", reads=value.reads)
    return Expr(f"{cpp_type(target)}({value})", reads=value.reads, atom=value.atom and target != "f32")


def _narrowed(value: Expr, source: str, target: str) -> str:
    if source in NARROW_FLOATS:
        return f"croq::to<{target}>({value})"
    if source in ("f32", "tf32"):
        return f"{target}({value})"
    exact = source in NARROW_INTEGERS or source == "bool"
    return f"{target}({'float' if exact else 'croq::to_odd'}({value}))"


def packed_pair(target: str, low: Expr, high: Expr, source: str) -> Expr:
    """Two neighbouring elements of 16-bit `target` in one register."""
    reads = low.reads | high.reads
    if source == target:
        return Expr(f"croq::pack_bits({low}, {high})", reads=reads)
    return Expr(f"croq::pack<{target}>({as_float(low, source)}, {as_float(high, source)})", reads=reads)
