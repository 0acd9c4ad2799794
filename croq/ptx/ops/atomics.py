"""Atomic operations. PTX ISA, "atom", "red". Threads of a step that meet at one address take turns, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.lanes import Lanes
from croq.ptx.ops.access import ORDERS, SPACES, address_of, items, pieces, space_of
from croq.ptx.ops.arithmetic import pick
from croq.ptx.registers import DTYPES, Array, is_float
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.syntax import WIDTHS, Sink
from croq.ptx.units import float_arithmetic as arithmetic

Change = Callable[..., Array]


def _inc(old: Array, bound: Array) -> Array:
    return np.where(old >= bound, 0, old + np.uint32(1)).astype(old.dtype)


def _dec(old: Array, bound: Array) -> Array:
    return np.where((old == 0) | (old > bound), bound, old - np.uint32(1)).astype(old.dtype)


_CHANGES: dict[str, Change] = {
    "add": np.add,
    "exch": lambda old, new: new,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": _inc,
    "dec": _dec,
    "cas": lambda old, compare, new: pick(old == compare, new, old),
}
_FLOATS: dict[str, Change] = {"add": arithmetic.add, "min": arithmetic.minimum, "max": arithmetic.maximum}
_FLAGS = f"{ORDERS} {' '.join(SPACES)} {' '.join(_CHANGES)} noftz L2::cache_hint"
_PACKED = {"f16x2": "f16", "bf16x2": "bf16"}


@instruction("atom red", flags=_FLAGS)
def atomic(builder: Builder, form: Form) -> Step:
    target, place, *values = form.operands if form.name == "atom" else (Sink(), *form.operands)
    if len(items(values[0])) > 1:
        raise form.refuse("a vector")
    kind = form.type
    held = "b32" if kind in _PACKED else kind
    out = builder.target(target, held)
    rows = [builder.source(value, held) for value in values]
    space, address, memory = space_of(form), address_of(builder, place), builder.memory
    width = WIDTHS[kind] // 8
    change = _change(form)
    dtype: Any = DTYPES[kind]
    element: Any = DTYPES[_PACKED.get(kind, kind)]

    def turn(where: Array, all_lanes: Lanes, at: Array, now: Lanes) -> None:
        for segment, offsets, some, _ in pieces(memory, space, at, width, now):
            old = segment.load(offsets, width, some).view(dtype)
            new = change(old.view(element), *[np.ascontiguousarray(r[some.sel]).view(element) for r in rows])
            segment.store(offsets, width, np.ascontiguousarray(new).view(f"u{width}"))
            out[some.sel] = old

    def step(lanes: Lanes) -> None:
        at = address(lanes)
        left = np.arange(lanes.count)
        while len(left):
            _, first = np.unique(at[left], return_index=True)
            now = np.sort(left[first])
            turn(now, lanes, at[now], Lanes(lanes.index[now], lanes.threads))
            left = np.setdiff1d(left, now)

    return step


def _change(form: Form) -> Change:
    name = form.one_of(*_CHANGES)
    change = (_FLOATS if is_float(form.type) or form.type in _PACKED else _CHANGES).get(name)
    if name == "exch" or name == "cas":
        change = _CHANGES[name]
    if change is None:
        raise form.refuse()
    if form.type == "f32" and name == "add" and space_of(form) != "shared":
        # PTX ISA, atom: subnormals are flushed by atom.add.f32 on global memory, and kept on shared memory
        return lambda old, new: arithmetic.add(old, new, ftz=True)
    return change
