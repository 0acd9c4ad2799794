"""What numbers are: the types, what the operators do to integers, what conversions do, and the intervals of both.

One meaning, written for people in docs/language.md under "Numbers". Constant folding, the analysis of intervals, the
verifier and the uniform values of the simulator compute with these functions; NumPy's vectors and the emitted C++ have
the same operators under the same names, and are held against them by tests/fuzz.

Integers are two's complement of their type's width and wrap. Operators have the names of the IR (`add`, `cdiv`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# bytes of each element type that data may have; `bool` is a scalar only
BYTES = {
    "f64": 8, "s64": 8, "u64": 8, "f32": 4, "s32": 4, "u32": 4, "tf32": 4,
    "f16": 2, "bf16": 2, "s16": 2, "u16": 2, "f8_e4m3": 1, "f8_e5m2": 1, "s8": 1, "u8": 1, "bool": 1,
}  # fmt: skip
FLOATS = frozenset({"f64", "f32", "tf32", "f16", "bf16", "f8_e4m3", "f8_e5m2"})
WIDTHS = {
    type: 8 * size for type, size in BYTES.items() if type != "bool" and type not in FLOATS
}  # of integers, in bits
INTEGERS = frozenset(WIDTHS)
MAX_EXTENT = 2**31 - 2**20  # of a dimension of data: an index with a tile's size on top of it still fits in 32 bits
LARGEST = {"f8_e4m3": 448.0, "f8_e5m2": 57344.0}  # of the types whose conversions saturate. PTX ISA, cvt .satfinite

Interval = tuple[int, int]  # both ends belong to it


def limits(type: str) -> Interval:
    """The smallest and the largest value of an integer type."""
    bits = WIDTHS[type]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type[0] == "s" else (0, (1 << bits) - 1)


def wrap(value: int, type: str) -> int:
    """`value` modulo the range of an integer type."""
    low, high = limits(type)
    return value if low <= value <= high else ((value - low) & ((1 << WIDTHS[type]) - 1)) + low


def fits(interval: Interval, type: str) -> bool:
    low, high = limits(type)
    return low <= interval[0] and interval[1] <= high


# ------------------------------------------------------------------------------------------------------- operators
def quotient(a: int, b: int) -> int:
    """Towards zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def remainder(a: int, b: int) -> int:
    return a - b * quotient(a, b)


def ceiling(a: int, b: int) -> int:
    """The ceiling of the true quotient."""
    return -(-a // b)


def shift_left(a: int, by: int) -> int:
    return a << min(by, 64)


def shift_right(a: int, by: int) -> int:
    return a >> min(by, 64)


def _sum(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Interval, b: Interval) -> Interval:
    return a[0] - b[1], a[1] - b[0]


def _corners(exact: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    """For operators that are monotonic in each operand between the ends."""

    def interval(a: Interval, b: Interval) -> Interval:
        found = [exact(x, y) for x in a for y in b]
        return min(found), max(found)

    return interval


def _over(exact: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    """Division: monotonic in each operand on either side of a divisor of 0."""
    corners = _corners(exact)

    def interval(a: Interval, b: Interval) -> Interval:
        sides = [(max(b[0], 1), b[1]), (b[0], min(b[1], -1))]
        found = [corners((x, y), side) for side in sides if side[0] <= side[1] for x, y in _by_sign(a)]
        return min(low for low, _ in found), max(high for _, high in found)

    return interval


def _by_sign(a: Interval) -> list[Interval]:
    parts = [(max(a[0], 0), a[1]), (a[0], min(a[1], 0))]
    return [part for part in parts if part[0] <= part[1]]


def _rest(a: Interval, b: Interval) -> Interval:
    """A remainder has the sign of the left side and is smaller than the divisor."""
    most = max(abs(b[0]), abs(b[1])) - 1
    least = min(abs(b[0]), abs(b[1])) if b[0] > 0 or b[1] < 0 else 1
    if -least < a[0] and a[1] < least:
        return a
    return max(a[0], -most) if a[0] < 0 else 0, min(a[1], most) if a[1] > 0 else 0


def _bits_of(a: Interval, b: Interval) -> int:
    return max(abs(end).bit_length() for end in (*a, *b))


def _and(a: Interval, b: Interval) -> Interval:
    masks = [i[1] for i in (a, b) if i[0] >= 0]
    return (0, min(masks)) if masks else (-(1 << _bits_of(a, b)), max(a[1], b[1], 0))


def _or(a: Interval, b: Interval) -> Interval:
    bits = 1 << _bits_of(a, b)
    if a[0] >= 0 and b[0] >= 0:
        return max(a[0], b[0]), bits - 1
    return -bits, bits - 1


def _xor(a: Interval, b: Interval) -> Interval:
    bits = 1 << _bits_of(a, b)
    return (0 if a[0] >= 0 and b[0] >= 0 else -bits), bits - 1


def _least(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), min(a[1], b[1])


def _greatest(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), max(a[1], b[1])


def _shifted(exact: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    corners = _corners(exact)
    return lambda a, b: corners(a, b) if b[0] >= 0 else corners(a, (0, 64))


@dataclass(frozen=True)
class Operator:
    """`exact`: the mathematical result, before it wraps. `interval`: where that lies for operands in intervals."""

    exact: Callable[[int, int], int]
    interval: Callable[[Interval, Interval], Interval]


ARITHMETIC: dict[str, Operator] = {
    "add": Operator(operator.add, _sum),
    "sub": Operator(operator.sub, _difference),
    "mul": Operator(operator.mul, _corners(operator.mul)),
    "div": Operator(quotient, _over(quotient)),
    "mod": Operator(remainder, _rest),
    "cdiv": Operator(ceiling, _over(ceiling)),
    "shl": Operator(shift_left, _shifted(shift_left)),
    "shr": Operator(shift_right, _shifted(shift_right)),
    "and": Operator(operator.and_, _and),
    "or": Operator(operator.or_, _or),
    "xor": Operator(operator.xor, _xor),
    "min": Operator(min, _least),
    "max": Operator(max, _greatest),
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]]  # of numbers and of vectors
COMPARISONS = {name: getattr(operator, name) for name in ("lt", "gt", "le", "ge", "eq", "ne")}
DIVISIONS = frozenset({"div", "mod", "cdiv"})
SHIFTS = frozenset({"shl", "shr"})


def integer(op: str, a: int, b: int, type: str) -> int | bool:
    """`a op b` of operands of `type` (the amount of a shift may have any type); b is no divisor of 0."""
    if op in COMPARISONS:
        return bool(COMPARISONS[op](a, b))
    if op in SHIFTS:
        b = min(b, WIDTHS[type]) if b >= 0 else WIDTHS[type]  # an amount is unsigned. PTX ISA, shl and shr
    return wrap(ARITHMETIC[op].exact(a, b), type)


def exact_interval(op: str, a: Interval, b: Interval, type: str) -> Interval:
    """Where the result lies before it wraps. A divisor of 0 counts as one that is not."""
    if op in DIVISIONS and b == (0, 0):
        return limits(type)
    if op in SHIFTS:
        bits = WIDTHS[type]
        b = (min(b[0], bits), min(b[1], bits)) if b[0] >= 0 else (0, bits)
    return ARITHMETIC[op].interval(a, b)


def interval(op: str, a: Interval, b: Interval, type: str) -> Interval:
    """Where the result lies: anywhere in the type if it may wrap."""
    found = exact_interval(op, a, b, type)
    return found if fits(found, type) else limits(type)


# ----------------------------------------------------------------------------------------------------- conversions
def to_integer(value: float, type: str) -> int:
    """Towards zero, saturating at the type; NaN gives 0."""
    low, high = limits(type)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return high if value > 0 else low
    return max(low, min(high, int(value)))


def to_float(value: float, type: str) -> float:
    """The nearest value of a float type, ties to even; the 8-bit types saturate. Of tf32 the nearest to the f32, ties
    away from zero: PTX ISA, cvt.rna.tf32.f32."""
    if type == "f64" or math.isnan(value):
        return float(value)
    if type == "tf32":
        value = to_float(value, "f32")
    if type in LARGEST:
        value = max(-LARGEST[type], min(LARGEST[type], value))
    if isinstance(value, float) and math.isinf(value):
        return value
    digits, smallest, largest = _FORMATS[type]
    return _rounded(value, digits, smallest, largest, away=type == "tf32")


# significant digits, exponent of the smallest step, largest finite value
_FORMATS = {
    "f32": (24, -149, float.fromhex("0x1.fffffep127")),
    "tf32": (11, -136, float.fromhex("0x1.ffcp127")),
    "bf16": (8, -133, float.fromhex("0x1.fep127")),
    "f16": (11, -24, 65504.0),
    "f8_e4m3": (4, -9, 448.0),
    "f8_e5m2": (3, -16, 57344.0),
}


def _rounded(value: float, digits: int, smallest: int, largest: float, *, away: bool) -> float:
    numerator, denominator = value.as_integer_ratio()
    magnitude = abs(numerator)
    if magnitude == 0:
        return float(value)
    exponent = magnitude.bit_length() - denominator.bit_length()
    if magnitude << max(-exponent, 0) < denominator << max(exponent, 0):
        exponent -= 1
    step = max(exponent - digits + 1, smallest)
    scaled, unit = magnitude << max(-step, 0), denominator << max(step, 0)
    steps, rest = divmod(scaled, unit)
    if 2 * rest > unit or (2 * rest == unit and (away or steps & 1)):
        steps += 1
    found = math.inf if steps.bit_length() + step > 1024 else math.ldexp(steps, step)
    return math.copysign(found if found <= largest else math.inf, value)


def convert(value: int | float | bool, type: str) -> int | float | bool:
    """A constant as a value of `type`; a float is taken as it is, whatever type it had."""
    if type == "bool":
        return value != 0
    if type in WIDTHS:
        return to_integer(value, type) if isinstance(value, float) else wrap(int(value), type)
    return to_float(int(value) if isinstance(value, bool) else value, type)
