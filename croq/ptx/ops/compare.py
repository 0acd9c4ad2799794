"""Comparison and selection. PTX ISA, "Comparison and Selection Instructions"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.ops.arithmetic import pick, stepped
from croq.ptx.ops.floats import PACKED
from croq.ptx.registers import Array, is_float
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.syntax import Negated, Pair, Sink
from croq.ptx.units.formats import flushed

Test = Callable[[Array, Array], Any]


def _either_nan(a: Array, b: Array) -> Any:
    return (a != a) | (b != b)


def _or_unordered(test: Test) -> Test:
    return lambda a, b: test(a, b) | _either_nan(a, b)


TESTS: dict[str, Test] = {
    "eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
    "ne": np.not_equal,
    "equ": _or_unordered(np.equal), "ltu": _or_unordered(np.less), "leu": _or_unordered(np.less_equal),
    "gtu": _or_unordered(np.greater), "geu": _or_unordered(np.greater_equal), "neu": np.not_equal,
    "num": lambda a, b: ~_either_nan(a, b), "nan": _either_nan,
}  # fmt: skip
_COMBINE: dict[str, Test] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
FLAGS = " ".join((*TESTS, *_COMBINE, "ftz"))


def _test(form: Form) -> Test:
    """PTX ISA, "Comparisons": an ordered `ne` of a NaN is false, and so is every other ordered comparison."""
    name = form.one_of(*TESTS)
    test = TESTS.get(name)
    if test is None:
        raise form.refuse("no comparison")
    kind = PACKED.get(form.types[-1], form.types[-1])
    if is_float(kind) and name == "ne":
        return lambda a, b: (a != b) & ~_either_nan(a, b)
    return test


def _compared(builder: Builder, form: Form, kind: str, first: Any, second: Any) -> Callable[[Any], Array]:
    test = _test(form)
    a, b = builder.source(first, kind), builder.source(second, kind)
    if "ftz" in form.flags and kind == "f32":
        return lambda s: test(flushed(a[s], True), flushed(b[s], True))
    if kind == "bf16":
        return lambda s: test(a[s].astype(np.float32), b[s].astype(np.float32))
    return lambda s: test(a[s], b[s])


def _combined(builder: Builder, form: Form, operands: Any) -> tuple[Test | None, Array, bool]:
    """The logical operation with a third operand, where there is one."""
    name = form.one_of(*_COMBINE)
    if not name:
        return None, np.zeros(0), False
    row, negated = builder.predicate(operands[0])
    return _COMBINE[name], row, negated


@instruction("setp", flags=FLAGS)
def setp(builder: Builder, form: Form) -> Step:
    target, first, second, *rest = form.operands
    if form.type in PACKED:
        raise form.refuse()
    outs = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    true, false = (builder.target(o, "pred") for o in outs)
    paired = isinstance(target, Pair)
    compared = _compared(builder, form, form.type, first, second)
    combine, row, negated = _combined(builder, form, rest)

    def step(lanes: Any) -> None:
        s = lanes.sel
        found = compared(s)
        opposite = ~found if paired else found
        if combine is not None:
            other = row[s] ^ negated
            found, opposite = combine(found, other), combine(opposite, other)
        true[s] = found
        if paired:
            false[s] = opposite

    return step


@instruction("set", flags=FLAGS)
def set_(builder: Builder, form: Form) -> Step:
    """All ones, or 1.0, where the comparison holds."""
    target, first, second, *rest = form.operands
    result, kind = form.types
    if kind in PACKED:
        raise form.refuse()
    out = builder.target(target, result)
    yes = np.array(1.0, np.float32) if result == "f32" else np.array(-1).astype(out.dtype)
    compared = _compared(builder, form, kind, first, second)
    combine, row, negated = _combined(builder, form, rest)

    def step(lanes: Any) -> None:
        s = lanes.sel
        found = compared(s)
        if combine is not None:
            found = combine(found, row[s] ^ negated)
        out[s] = np.where(found, yes, np.zeros_like(yes))

    return step


@instruction("selp")
def selp(builder: Builder, form: Form) -> Step:
    target, first, second, choice = form.operands
    if isinstance(choice, Negated):
        first, second, choice = second, first, choice.operand
    row, _ = builder.predicate(choice)
    rows = (builder.source(first, form.type), builder.source(second, form.type))
    return stepped(builder.target(target, form.type), pick, row, *rows)


@instruction("slct", flags="ftz")
def slct(builder: Builder, form: Form) -> Step:
    """The first where the third operand is not negative; a NaN picks the second."""
    target, first, second, choice = form.operands
    kind, test = form.types
    rows = (builder.source(choice, test), builder.source(first, kind), builder.source(second, kind))
    ftz = "ftz" in form.flags
    return stepped(
        builder.target(target, kind), lambda c, a, b: pick(flushed(c, ftz) >= 0, a, b), *rows
    )  # fmt: skip


_CLASSES: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).smallest_normal),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).smallest_normal),
}


@instruction("testp", flags=" ".join(_CLASSES))
def testp(builder: Builder, form: Form) -> Step:
    target, value = form.operands
    return stepped(builder.target(target, "pred"), _CLASSES[form.one_of(*_CLASSES)], builder.source(value, form.type))


@instruction("copysign")
def copysign(builder: Builder, form: Form) -> Step:
    """The sign of the first operand on the magnitude of the second."""
    target, sign, magnitude = form.operands
    rows = (builder.source(magnitude, form.type), builder.source(sign, form.type))
    return stepped(builder.target(target, form.type), np.copysign, *rows)
