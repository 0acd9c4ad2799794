"""Loads and stores. PTX ISA, "ld", "st", "isspacep".

Caches, scopes and orders are accepted and mean nothing here: all threads see one memory, in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.faults import PtxFault
from croq.ptx.lanes import Lanes
from croq.ptx.memory import LOCAL_WINDOW, SEGMENT_SHIFT, SHARED_WINDOW, Memory, Offsets, Segment, aligned
from croq.ptx.registers import DTYPES, Array
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.syntax import WIDTHS, Imm, Mem, Sym, Vec

SPACES = (
    "shared",
    "shared::cta",
    "shared::cluster",
    "global",
    "local",
    "param",
    "param::entry",
    "param::func",
    "const",
)
ORDERS = "weak volatile relaxed acquire release acq_rel mmio cta cluster gpu sys"
_CACHES = (
    "ca cg cs lu cv wb wt nc L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate "
    "L2::evict_last L2::evict_normal L2::evict_first L2::cache_hint L2::64B L2::128B L2::256B"
)
_COUNTS = {"v2": 2, "v4": 4, "v8": 8}

Address = Callable[[Lanes], Offsets]
Piece = tuple[Segment, Offsets, Lanes, Any]  # a segment, offsets in it, the threads, and which of all they are


def address_of(builder: Builder, operand: Mem) -> Address:
    """The addresses that an operand names, one a thread."""
    offset = operand.offset
    if isinstance(operand.base, (Sym, Imm)):
        fixed = builder.address(operand.base) if isinstance(operand.base, Sym) else int(operand.base.value)
        return lambda lanes: np.full(lanes.count, fixed + offset, np.int64)
    row = builder.row(operand.base)
    return lambda lanes: row[lanes.sel].astype(np.int64) + offset


def pieces(memory: Memory, space: str, address: Offsets, width: int, lanes: Lanes) -> Iterator[Piece]:
    """What an access touches, by segment. Raises PtxFault E-7012, E-7013."""
    own = {"shared": memory.shared, "local": memory.local, "param": memory.param}.get(space)
    if own is not None:
        yield own, own.offsets(address, width, lanes), lanes, slice(None)
        return
    windows = address >> SEGMENT_SHIFT
    first = int(windows[0])
    if (windows == first).all():
        yield _windowed(memory, space, first, address, width, lanes, slice(None))
        return
    for window in np.unique(windows).tolist():
        mask = windows == window
        yield _windowed(memory, space, window, address[mask], width, lanes.where(mask), mask)


def _windowed(
    memory: Memory, space: str, window: int, address: Offsets, width: int, lanes: Lanes, which: Any
) -> Piece:  # fmt: skip
    try:
        segment, base = memory.find(window, generic=space == "")
    except LookupError:
        message = f"an access of {width} bytes at address {int(address[0]):#x}, where nothing is"
        raise PtxFault("E-7012", message, notes=[f"by {lanes}"]) from None
    return segment, segment.offsets(address - base, width, lanes), lanes, which


def space_of(form: Form) -> str:
    """`shared`, `local`, `param`, or "global" and "" for what addresses tell."""
    name = form.one_of(*SPACES).partition("::")[0]
    return "global" if name == "const" else name


def items(operand: Any) -> tuple[Any, ...]:
    return operand.items if isinstance(operand, Vec) else (operand,)


@instruction("ld ldu", flags=f"{ORDERS} {_CACHES} {' '.join(SPACES)} {' '.join(_COUNTS)}")
def load(builder: Builder, form: Form) -> Step:
    target, place = form.operands[:2]
    kind = form.type
    outs = [builder.target(item, kind) for item in items(target)]
    if len(outs) != _COUNTS.get(form.one_of(*_COUNTS), 1):
        raise form.refuse("another number of registers")
    if space_of(form) == "param" and isinstance(place.base, Sym):
        return _load_param(builder, outs, place, kind)
    space, address, memory = space_of(form), address_of(builder, place), builder.memory
    dtype: Any = DTYPES[kind]
    width = WIDTHS[kind] // 8
    total = width * len(outs)

    def step(lanes: Lanes) -> None:
        for segment, offsets, some, _ in pieces(memory, space, address(lanes), total, lanes):
            for at, out in enumerate(outs):
                out[some.sel] = segment.load(offsets + at * width if at else offsets, width, some).view(dtype)

    return step


def _load_param(builder: Builder, outs: list[Array], place: Mem, kind: str) -> Step:
    """What a call passes, or the arguments of the kernel."""
    width = WIDTHS[kind] // 8
    start = builder.param_offset(place, width * len(outs))
    params, dtype = builder.params, DTYPES[kind]

    def step(lanes: Lanes) -> None:
        s = lanes.sel
        for at, out in enumerate(outs):
            begin = start + at * width
            out[s] = np.ascontiguousarray(params[s, begin : begin + width]).view(dtype)[:, 0]

    return step


@instruction("st", flags=f"{ORDERS} {_CACHES} {' '.join(SPACES)} {' '.join(_COUNTS)}")
def store(builder: Builder, form: Form) -> Step:
    place, value = form.operands[:2]
    kind = f"b{WIDTHS[form.type]}"
    rows = [builder.source(item, form.type).view(DTYPES[kind]) for item in items(value)]
    width = WIDTHS[kind] // 8
    if space_of(form) == "param" and isinstance(place.base, Sym):
        return _store_param(builder, rows, place, width)
    space, address, memory = space_of(form), address_of(builder, place), builder.memory
    total = width * len(rows)

    def step(lanes: Lanes) -> None:
        for segment, offsets, some, _ in pieces(memory, space, address(lanes), total, lanes):
            for at, row in enumerate(rows):
                segment.store(offsets + at * width if at else offsets, width, row[some.sel])

    return step


def _store_param(builder: Builder, rows: list[Array], place: Mem, width: int) -> Step:
    start = builder.param_offset(place, width * len(rows))
    params = builder.params

    def step(lanes: Lanes) -> None:
        s = lanes.sel
        for at, row in enumerate(rows):
            begin = start + at * width
            params[s, begin : begin + width] = np.ascontiguousarray(row[s]).view(np.uint8).reshape(-1, width)

    return step


_TESTED = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


@instruction("isspacep", flags=" ".join(SPACES))
def isspacep(builder: Builder, form: Form) -> Step:
    target, value = form.operands
    space = space_of(form)
    out, row, memory = builder.target(target, "pred"), builder.source(value, "u64"), builder.memory

    def step(lanes: Lanes) -> None:
        windows = (row[lanes.sel] >> np.uint64(SEGMENT_SHIFT)).astype(np.int64)
        if space in _TESTED:
            out[lanes.sel] = windows == _TESTED[space] >> SEGMENT_SHIFT
        else:
            out[lanes.sel] = np.isin(windows, list(memory.globals))

    return step


__all__ = ["Address", "address_of", "aligned", "items", "load", "pieces", "space_of", "store"]
