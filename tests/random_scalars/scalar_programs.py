"""Random scalar programs: expressions of every type on values at the edges, many in one kernel.

Statement `n` of a program writes `r{type}.at(t, k)`; a `folded` program has the values of one lane as literals in the
place of the inputs, so that what the compiler computes can be held against what the machine computes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

LANES = 32
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
FLOATS = ("f32", "f64", "f16", "bf16")
TYPES = (*INTEGERS, *FLOATS)
NARROW = ("f8_e4m3", "f8_e5m2")  # only on the way from one type to another
DTYPES: dict[str, Any] = {
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32,
    "s64": np.int64, "u64": np.uint64, "f32": np.float32, "f64": np.float64, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
DEPTH = 3
ANY_INTEGERS = ("+", "-", "*", "/", "%", "cdiv", "&", "|", "^", "<<", ">>", "__min", "__max")
ANY_FLOATS = ("+", "-", "*", "fma", "__min", "__max")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True)
class Statement:
    """`text` with `{x0}`, `{x1}`, .. for inputs, each of a type of its own."""

    type: str
    text: str
    inputs: tuple[str, ...]

    def over_inputs(self) -> str:
        return self.text.format(**{f"x{k}": f"x{type}.at(t, {k})" for k, type in enumerate(self.inputs)})

    def folded(self, arrays: dict[str, NDArray[Any]], lane: int) -> str | None:
        """With literals; None where a value has none."""
        values = {f"x{k}": literal(arrays[f"x{type}"][lane, k], type) for k, type in enumerate(self.inputs)}
        return None if None in values.values() else self.text.format(**values)


def literal(value: Any, type: str) -> str | None:
    if type in INTEGERS:
        number = int(value)
        if number == -(2**63):
            return "__to<s64>(-9223372036854775807 - 1)"
        return f"__to<{type}>({number}{'u' if type[0] == 'u' else ''})"
    real = float(value)
    if math.isnan(real):
        return None
    text = "inf" if math.isinf(real) else repr(abs(real)) + ("" if type == "f64" else "f")
    return f"__to<{type}>({'-' if math.copysign(1, real) < 0 else ''}{text})"


class _Maker:
    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.inputs: list[str] = []

    def statement(self) -> Statement:
        self.inputs = []
        type = self.source.choice(TYPES)
        text = self.expression(type, DEPTH)
        return Statement(type, text, tuple(self.inputs))

    def expression(self, type: str, depth: int) -> str:
        roll = self.source.random()
        if depth == 0 or (roll < 0.1 and depth < DEPTH):
            return self.leaf(type)
        if roll < 0.3:
            return self.conversion(type, depth)
        if roll < 0.4:
            condition = self.condition(depth)
            return f"({condition} ? {self.expression(type, depth - 1)} : {self.expression(type, depth - 1)})"
        if roll < 0.47:
            return f"(-{self.expression(type, depth - 1)})"
        return self.operation(type, depth)

    def leaf(self, type: str) -> str:
        if self.source.random() < 0.2 or len(self.inputs) == 4:
            return f"__to<{type}>({self.source.choice([0, 1, 2, 3, 7, 64, 100, 127])})"
        self.inputs.append(type)
        return f"{{x{len(self.inputs) - 1}}}"

    def conversion(self, type: str, depth: int) -> str:
        source = self.source.choice(TYPES)
        inner = self.expression(source, depth - 1)
        if self.source.random() < 0.15 and type in FLOATS:
            inner = f"__to<{self.source.choice(NARROW)}>({inner})"
        return f"__to<{type}>({inner})"

    def condition(self, depth: int) -> str:
        type = self.source.choice(TYPES)
        left, right = self.expression(type, depth - 1), self.expression(type, depth - 1)
        return f"({left} {self.source.choice(COMPARISONS)} {right})"

    def operation(self, type: str, depth: int) -> str:
        op = self.source.choice(ANY_INTEGERS if type in INTEGERS else ANY_FLOATS)
        left = self.expression(type, depth - 1)
        if op in ("<<", ">>"):
            amount = self.expression(self.source.choice(INTEGERS), depth - 1)
            return f"({left} {op} {amount})"
        right = self.expression(type, depth - 1)
        if op in ("/", "%", "cdiv"):
            right = f"({right} | __to<{type}>(1))"  # never 0
        if op == "fma":
            return f"(({left} * {right}) {self.source.choice('+-')} {self.expression(type, depth - 1)})"
        if op in ("cdiv", "__min", "__max"):
            return f"{op}({left}, {right})"
        return f"({left} {op} {right})"


def statements(seed: int, count: int) -> list[Statement]:
    source = random.Random(seed)
    return [_Maker(source).statement() for _ in range(count)]


def source_text(made: Sequence[Statement], values: Sequence[str]) -> str:
    """A kernel that computes each statement in 32 threads; `values`: their texts, one a line from line 3 on."""
    parameters = [f"global {type} [{LANES}, 4] x{type}" for type in TYPES]
    parameters += [f"global {type} [{LANES}, {len(made)}] r{type}" for type in TYPES]
    lines = [f"r{s.type}.at(t, {k}) = {text};" for k, (s, text) in enumerate(zip(made, values, strict=True))]
    head = f"__co__ void f({', '.join(parameters)}) {{"
    return "\n".join([head, f"parallel b by 1 : block, t by {LANES} : thread {{", *lines, "} }"])


def inputs(seed: int) -> dict[str, NDArray[Any]]:
    """`x{type}`: values at the edges of the type, small ones and any."""
    source = random.Random(seed)
    return {f"x{type}": _values(type, source) for type in TYPES}


def results(count: int) -> dict[str, NDArray[Any]]:
    return {f"r{type}": np.zeros((LANES, count), DTYPES[type]) for type in TYPES}


def _values(type: str, source: random.Random) -> NDArray[Any]:
    draw = _integer if type in INTEGERS else _float
    drawn = [[draw(type, source) for _ in range(4)] for _ in range(LANES)]
    with np.errstate(over="ignore"):
        return np.array(drawn, DTYPES[type] if type in INTEGERS else np.float64).astype(DTYPES[type])


def _integer(type: str, source: random.Random) -> Any:
    info = np.iinfo(DTYPES[type])
    low, high = int(info.min), int(info.max)
    near = [low, low + 1, high, high - 1, 0, 1, max(low, -1)]
    kind = source.random()
    value = source.choice(near) if kind < 0.4 else source.randint(low, high)
    return max(low, min(high, source.randint(-70, 70))) if kind > 0.7 else value


def _float(type: str, source: random.Random) -> float:
    kind = source.random()
    if kind < 0.2:
        return source.choice([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5])
    return source.gauss(0, 1) * 10.0 ** source.choice([0, 0, 1, 2, 3, 5, 9, 18, -3, -7])
