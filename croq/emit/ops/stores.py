"""`reg.load` and `reg.store`: a fragment from shared memory, and to shared or global memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from croq.emit import addresses, registers
from croq.emit.expressions import NARROW_FLOATS, Expr, as_expr, binary, cpp_type, divided, modulo, name, plus, times
from croq.emit.ops.maps import loop, rank
from croq.emit.registers import converted, packed_pair, shape_of
from croq.emit.registry import statement
from croq.emit.templating import render
from croq.emit.text import Line, call_text
from croq.ir.hw import RegLoad, RegStore
from croq.ir.objects import Buffer, FragRef, Param, View
from croq.ir.types import BYTES
from croq.target.fragments import ROWS, AccumulatorLayout, RowLayout, UniformLayout
from croq.target.swizzle import CHUNK

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter


@statement(RegLoad)
def reg_load(emitter: Emitter, op: RegLoad) -> list[Line]:
    return _braced(emitter, lambda: _matrices(emitter, op, op.source, "reg.load"))


@statement(RegStore)
def reg_store(emitter: Emitter, op: RegStore) -> list[Line]:
    if op.method == "stmatrix":
        return _braced(emitter, lambda: _matrices(emitter, op, op.dest, "reg.store"))
    return _braced(emitter, lambda: _elements(emitter, op))


def _braced(emitter: Emitter, body: Callable[[], list[Line]]) -> list[Line]:
    emitter.names.push()
    with emitter.nested(scope=False) as lines:
        lines += body()
    emitter.names.pop()
    return render("braces", {"body": lines}, emitter.source) if _declares(lines) else lines


def _declares(lines: Sequence[Line]) -> bool:
    return any(line.text.startswith(("const ", "constexpr ")) or "* const " in line.text for line in lines)


# ------------------------------------------------------------------------------------------- ldmatrix and stmatrix
def _matrices(emitter: Emitter, op: RegLoad | RegStore, view: View, template: str) -> list[Line]:
    """16 rows x 16 columns of each warp at a time: lane l addresses row l % 16 of column group l / 16."""
    layout, buffer = op.frag.frag.layout, view.root
    assert isinstance(layout, AccumulatorLayout) and isinstance(buffer, Buffer)
    row0, col0 = addresses.row_and_col(buffer, addresses.offsets(emitter, view))
    base = emitter.atom(addresses.tile_base(emitter, view), f"{buffer.name}_tile", "u32")
    lane = emitter.places["lane"]
    names = emitter.names
    row, chunk, c = name(names.declare("row")), name(names.declare("chunk")), name(names.declare("c"))
    block = name(names.declare("block")) if layout.m > ROWS else None
    first_row = plus(row0, times(block, ROWS) if block is not None else 0, emitter.places["warp_row"])
    first_chunk = divided(times(col0, BYTES[buffer.type]), CHUNK)
    chunks = layout.n // 8
    fields = {
        "row": row.text,
        "row_value": plus(first_row, modulo(lane, 16)).text,
        "chunk": chunk.text,
        "chunk_value": plus(first_chunk, c, divided(lane, 16)).text,
        "last_chunk_value": plus(first_chunk, chunks - 1).text,
        "address": addresses.chunk_address(buffer, base, row, chunk).text,
        "c": c.text,
        "pairs": chunks // 2 * 2,
        "registers": [_pair(emitter, op.frag, buffer.type, plus(times(c, 2), n), block).text for n in range(4)],
        "last_registers": [
            _pair(emitter, op.frag, buffer.type, as_expr(2 * chunks - 2 + n), block).text for n in range(2)
        ],
        "array": registers.block_array(emitter, op.frag, block.text if block is not None else 0),
        "odd": chunks % 2 == 1,
    }
    lines = render(template, fields, emitter.source)
    return lines if block is None else loop(emitter, block.text, layout.m // ROWS, lines)


def _pair(emitter: Emitter, ref: FragRef, target: str, pair: Expr, block: Expr | None) -> Expr:
    """Elements 2 * pair and 2 * pair + 1 of the thread's block: their register, or converted and packed."""
    frag = ref.frag
    assert frag.type is not None
    if shape_of(frag).packed and frag.type == target:
        return registers.raw_pair(emitter, ref, pair, block)
    low = registers.element(emitter, ref, times(pair, 2), block)
    high = registers.element(emitter, ref, plus(times(pair, 2), 1), block)
    return packed_pair(target, low, high, frag.type)


# -------------------------------------------------------------------------------------------------------- elements
def _elements(emitter: Emitter, op: RegStore) -> list[Line]:
    layout = op.frag.frag.layout
    offsets = addresses.offsets(emitter, op.dest)
    starts = [emitter.atom(start, f"{op.dest.root.name}_at{d}", "s32") for d, start in enumerate(offsets)]
    if isinstance(layout, AccumulatorLayout):
        return _accumulator(emitter, op, layout, starts, op.pairs)
    if isinstance(layout, RowLayout):
        return _rows(emitter, op, layout, starts)
    assert isinstance(layout, UniformLayout)
    return _uniform(emitter, op, layout, starts)


def _accumulator(
    emitter: Emitter, op: RegStore, layout: AccumulatorLayout, starts: Sequence[Expr], paired: bool
) -> list[Line]:
    frag, names = op.frag.frag, emitter.names
    assert frag.type is not None
    block = name(names.declare("block")) if layout.m > ROWS else None
    r, i, j = (name(names.declare(w)) for w in ("r", "i", "j"))
    half = modulo(divided(r, 2), 2)
    row = plus(emitter.places["lane_row"], times(block, ROWS) if block is not None else 0, times(half, 8))
    col = plus(emitter.places["lane_col"], times(divided(r, 4), 8), 0 if paired else modulo(r, 2))
    heads = [_let(emitter, i, row), _let(emitter, j, col)]
    low = registers.element(emitter, op.frag, r, block)
    high = registers.element(emitter, op.frag, plus(r, 1), block)
    if paired:
        store = _store_pair(emitter, op, starts, (i, j), (low, high))
    else:
        store = _store(emitter, op, starts, (i, j), low)
    lines = loop(emitter, r.text, layout.n // 2, heads + _guarded(emitter, op, starts, (i, j), store), step=1 + paired)
    return lines if block is None else loop(emitter, block.text, layout.m // ROWS, lines)


def _rows(emitter: Emitter, op: RegStore, layout: RowLayout, starts: Sequence[Expr]) -> list[Line]:
    """The four lanes of a row hold the same value: one of them stores it."""
    row, i = (name(emitter.names.declare(w)) for w in ("row", "i"))
    inside = modulo(row, 2) if layout.registers > 2 else row
    block = times(divided(row, 2), ROWS) if layout.registers > 2 else 0
    heads = [_let(emitter, i, plus(emitter.places["lane_row"], block, times(inside, 8)))]
    store = _store(emitter, op, starts, (i,), registers.element(emitter, op.frag, row))
    body = _guarded(emitter, op, starts, (i,), store, f"{emitter.places['lane']} % 4 == 0")
    return loop(emitter, row.text, layout.registers, heads + body)


def _uniform(emitter: Emitter, op: RegStore, layout: UniformLayout, starts: Sequence[Expr]) -> list[Line]:
    r, flat = (name(emitter.names.declare(w)) for w in ("r", "flat"))
    heads = [_let(emitter, flat, plus(rank(emitter, op.threads, layout.threads), times(r, layout.threads)))]
    indices: list[Expr] = []
    stride = 1
    for d in reversed(range(len(layout.shape))):
        at = divided(flat, stride)
        indices.insert(0, at if d == 0 else modulo(at, layout.shape[d]))
        stride *= layout.shape[d]
    store = _store(emitter, op, starts, indices, registers.element(emitter, op.frag, r))
    bound = f"{flat} < {layout.size}" if layout.ragged else ""
    return loop(emitter, r.text, layout.registers, heads + _guarded(emitter, op, starts, indices, store, bound))


def _let(emitter: Emitter, local: Expr, value: Expr) -> Line:
    return Line(f"const s32 {local} = {value};", emitter.source)


def _guarded(
    emitter: Emitter, op: RegStore, starts: Sequence[Expr], indices: Sequence[Expr], store: str, also: str = ""
) -> list[Line]:
    """The store, under the conditions that keep it inside the parameter."""
    conditions = [also] if also else []
    conditions += bounds(emitter, op.dest, op.checked, addresses.coordinates(starts, op.dest, indices))
    body = [Line(text, emitter.source) for text in f"{store};".split("\n")]
    if not conditions:
        return body
    fields = {"condition": " && ".join(conditions), "then": body, "has_else": False, "otherwise": []}
    return render("if", fields, emitter.source)


def bounds(emitter: Emitter, view: View, checked: Sequence[int], position: Sequence[Expr]) -> list[str]:
    """Comparisons of a position with the extents of the parameter."""
    root = view.root
    if not isinstance(root, Param) or root.shape is None:
        return []
    return [binary("lt", position[d], addresses.dim(emitter, root.shape[d])).text for d in checked]


def _store(emitter: Emitter, op: RegStore, starts: Sequence[Expr], indices: Sequence[Expr], value: Expr) -> str:
    frag_type, root = op.frag.frag.type, op.dest.root
    assert frag_type is not None
    value = converted(value, frag_type, root.type)
    position = addresses.coordinates(starts, op.dest, indices)
    if isinstance(root, Param):
        return f"{addresses.pointer(emitter, root)}[{addresses.subscript(emitter, root, position)}] = {value}"
    address = _shared_address(emitter, op.dest, root, position)
    return f"croq::st_shared<{cpp_type(root.type)}>({address}, {value})"


def _shared_address(emitter: Emitter, view: View, root: Buffer, position: Sequence[Expr]) -> Expr:
    row, col = addresses.row_and_col(root, position)
    return plus(addresses.tile_base(emitter, view), addresses.element_offset(root, row, col))


def _store_pair(
    emitter: Emitter, op: RegStore, starts: Sequence[Expr], indices: Sequence[Expr], values: tuple[Expr, Expr]
) -> str:
    frag_type, root = op.frag.frag.type, op.dest.root
    assert frag_type is not None
    position = addresses.coordinates(starts, op.dest, indices)
    if isinstance(root, Param):
        place = f"&{addresses.pointer(emitter, root)}[{addresses.subscript(emitter, root, position)}]"
    else:
        place = _shared_address(emitter, op.dest, root, position).text
    function = "croq::st_global_pair" if isinstance(root, Param) else "croq::st_shared_pair"
    if root.type in NARROW_FLOATS:
        values_text = packed_pair(root.type, *values, frag_type).text
    else:
        values_text = ", ".join(converted(v, frag_type, root.type).text for v in values)
    return call_text(function, [place, values_text])
