"""mov, cvt, cvta. PTX ISA, "Data Movement and Conversion Instructions"."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from croq.ptx.ops.arithmetic import stepped
from croq.ptx.ops.floats import modifiers
from croq.ptx.registers import CLOCKS, DTYPES, Array
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.syntax import WIDTHS, Reg, Vec
from croq.ptx.units import conversion
from croq.ptx.units.formats import FORMATS

WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "global": 0, "const": 0}
SPACES = "shared local param global const shared::cta shared::cluster"


@instruction("mov")
def mov(builder: Builder, form: Form) -> Step:
    target, value = form.operands
    if isinstance(target, Vec):
        return unpack(builder, form)
    if isinstance(value, Vec):
        return pack(builder, form)
    out = builder.target(target, form.type)
    if isinstance(value, Reg) and value.name in CLOCKS:
        return clock(builder, out, value.name)
    row = builder.source(value, form.type)

    def step(lanes: Any) -> None:
        s = lanes.sel
        out[s] = row[s]

    return step


def clock(builder: Builder, out: Array, name: str) -> Step:
    """The clocks count blocks of instructions: they grow, and say nothing of time."""
    shift = 32 if name.endswith("_hi") else 0
    machine = builder.machine

    def step(lanes: Any) -> None:
        out[lanes.sel] = np.uint64(machine.clock >> shift).astype(out.dtype)

    return step


def _part(form: Form, vector: Vec) -> str:
    return f"b{WIDTHS[form.type] // len(vector.items)}"


def pack(builder: Builder, form: Form) -> Step:
    """`mov.b32 d, {a, b}`: the first in the low bits."""
    target, vector = form.operands
    part = _part(form, vector)
    rows = [builder.source(item, part) for item in vector.items]
    out = builder.target(target, form.type)

    def step(lanes: Any) -> None:
        s = lanes.sel
        out[s] = np.stack([row[s] for row in rows], axis=1).view(out.dtype)[:, 0]

    return step


def unpack(builder: Builder, form: Form) -> Step:
    vector, value = form.operands
    part = _part(form, vector)
    rows = [builder.target(item, part) for item in vector.items]
    row = builder.source(value, form.type)

    def step(lanes: Any) -> None:
        s = lanes.sel
        parts = np.ascontiguousarray(row[s]).view(DTYPES[part]).reshape(-1, len(rows))
        for at, out in enumerate(rows):
            out[s] = parts[:, at]

    return step


_PAIRS = {"f16x2": "f16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2"}
_NARROW = ("e4m3x2", "e5m2x2")
_ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")


@instruction("cvt", flags="rn rz rm rp rna rni rzi rmi rpi ftz sat satfinite relu e4m3x2 e5m2x2")
def cvt(builder: Builder, form: Form) -> Step:
    """`cvt.rounding.target.source`. Pairs convert each half: of two operands, the first is the upper one."""
    kinds = [m for m in form.instruction.modifiers if m in WIDTHS or m in _NARROW]
    if len(kinds) != 2:
        raise form.refuse()
    target, source = kinds
    how: Any = partial(
        conversion.convert, source=_PAIRS.get(source, source), target=_PAIRS.get(target, target),
        rounding=form.one_of(*_ROUNDINGS), **modifiers(form, "ftz", "sat", "satfinite", "relu"),
    )  # fmt: skip
    if target in _PAIRS:
        return _to_pair(builder, form, how, target, source)
    if source in _PAIRS:
        raise form.refuse()
    out, *rows = form.operands
    if len(rows) != 1:
        raise form.refuse()
    held = "b32" if target == "tf32" else target
    found = builder.target(out, held)
    if target == "tf32":
        return stepped(found, lambda x: np.ascontiguousarray(how(x)).view(np.uint32), builder.source(rows[0], source))
    return stepped(found, how, builder.source(rows[0], source))


def _to_pair(builder: Builder, form: Form, how: Any, target: str, source: str) -> Step:
    out, *operands = form.operands
    word = "b16" if target in _NARROW else "b32"
    found = builder.target(out, word)
    if len(operands) == 2:
        high, low = (builder.source(o, source) for o in operands)

        def two(lanes: Any) -> None:
            s = lanes.sel
            pair = np.stack([how(low[s]), how(high[s])], axis=1)
            found[s] = pair.view(found.dtype)[:, 0]

        return two
    row = builder.source(operands[0], "b16" if source in _NARROW else "b32")
    kind = FORMATS[_PAIRS[source]].dtype

    def one(lanes: Any) -> None:
        s = lanes.sel
        values = np.ascontiguousarray(row[s]).view(kind)
        found[s] = np.ascontiguousarray(how(values)).view(found.dtype)

    return one


@instruction("cvta", flags=f"to {SPACES}")
def cvta(builder: Builder, form: Form) -> Step:
    """Between the addresses of a space and generic ones. PTX ISA, cvta"""
    target, value = form.operands
    space = form.one_of(*SPACES.split()).partition("::")[0]
    window = np.array(WINDOWS[space], np.uint64)
    out = builder.target(target, "u64")
    row = builder.source(value, "u64")
    if "to" in form.flags:
        return stepped(out, lambda x: x - window, row)
    return stepped(out, lambda x: x + window, row)
