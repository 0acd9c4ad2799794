"""What device functions compute with: pointers, arrays of lanes, activations; operators and the library's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from croq.ir.types import FLOATS
from croq.simulate import arithmetic
from croq.simulate.cnodes import Unsupported
from croq.simulate.dtypes import WIDTH, Array, Scalar, is_vector
from croq.simulate.machine import Warp

LANES = np.arange(32)


class Storage(Protocol):
    """What a pointer points into."""

    type: str

    def get(self, index: Scalar, warp: Warp) -> Scalar: ...

    def set(self, index: Scalar, value: Scalar, mask: Array | None, warp: Warp) -> None: ...


class Lanes:
    """An array of each lane: [32, length]."""

    def __init__(self, data: Array, type_: str, name: str) -> None:
        self.data, self.type, self.name = data, type_, name

    def get(self, index: Scalar, warp: Warp) -> Scalar:
        self._check(index)
        return self.data[LANES, index] if is_vector(index) else self.data[:, index].copy()

    def set(self, index: Scalar, value: Scalar, mask: Array | None, warp: Warp) -> None:
        self._check(index)
        where: Any = (LANES, index) if is_vector(index) else (slice(None), index)
        self.data[where] = value if mask is None else np.where(mask, value, self.data[where])

    def _check(self, index: Scalar) -> None:
        length = self.data.shape[1]
        if not (np.all(np.asarray(index) >= 0) and np.all(np.asarray(index) < length)):
            raise IndexError(f"index {index} of `{self.name}`, which has {length} elements")


class Pointer:
    """A storage and a number of elements."""

    def __init__(self, storage: Storage, offset: Scalar = 0) -> None:
        self.storage, self.offset = storage, offset


class Frame:
    """One activation: variables by number, lanes that are active (None: all)."""

    def __init__(self, warp: Warp, size: int, mask: Array | None) -> None:
        self.warp, self.mask = warp, mask
        self.v: list[Any] = [None] * size


class LeaveSignal(Exception):
    def __init__(self, kind: str, value: Scalar = None) -> None:
        self.kind, self.value = kind, value


Evaluate = Callable[[Frame], Any]
Execute = Callable[[Frame], None]
Typed = tuple[str, Evaluate]  # the IR's name of a type, with a `*` for a pointer to it; the value
Callable_ = Callable[[Warp, list[Any], "Array | None"], Scalar]

UNARY_CALLS = {
    "expf": "exp", "__expf": "exp", "exp2f": "exp2", "__exp2f": "exp2", "logf": "log", "__logf": "log", "log2f": "log2",
    "sqrtf": "sqrt", "rsqrtf": "rsqrt", "fabsf": "fabs", "fabs": "fabs", "tanhf": "tanh", "ceilf": "ceil",
    "floorf": "floor", "roundf": "round", "sinf": "sin", "cosf": "cos", "exp2": "exp2", "exp": "exp", "log": "log",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "croq::ex2": "exp2", "croq::exp": "exp", "croq::log": "log",
    "croq::rcp": "frcp_rn", "croq::sqrt": "sqrt", "croq::rsqrt": "rsqrt", "__frcp_rn": "frcp_rn",
}  # fmt: skip
BINARY_CALLS = {
    "fmaxf": "max", "fminf": "min", "fmax": "max", "fmin": "min", "max": "max", "min": "min",
    "croq::max": "max", "croq::min": "min", "__fdividef": "div", "croq::div": "div",
}  # fmt: skip
SHUFFLES: dict[str, Callable[[Array, Any], Array]] = {
    "__shfl_xor_sync": lambda lane, k: lane ^ k,
    "__shfl_sync": lambda lane, k: k % 32 + 0 * lane,
    "__shfl_down_sync": lambda lane, k: np.where(lane + k < 32, lane + k, lane),
    "__shfl_up_sync": lambda lane, k: np.where(lane - k >= 0, lane - k, lane),
}
OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "<<": "shl", ">>": "shr", "&": "and", "|": "or",
    "^": "xor", "<": "lt", ">": "gt", "<=": "le", ">=": "ge", "==": "eq", "!=": "ne", "&&": "land", "||": "lor",
}  # fmt: skip


def operator(op: str, type_: str) -> Callable[[Scalar, Scalar], Scalar]:
    name = OPERATORS.get(op, op)
    if type_ in WIDTH and name in ("div", "mod"):
        return _divide(arithmetic.quotient if name == "div" else arithmetic.remainder)
    if type_ in FLOATS and name not in ("add", "sub", "mul", "div", "min", "max", *arithmetic.COMPARISONS):
        raise Unsupported(f"`{op}` of floating-point values")
    return arithmetic.binary(name, type_)


def _divide(function: Callable[[Scalar, Scalar], Scalar]) -> Callable[[Scalar, Scalar], Scalar]:
    def run(a: Scalar, b: Scalar) -> Scalar:
        if np.any(np.asarray(b) == 0):
            raise Unsupported("an integer division by zero")
        return function(a, b)

    return run


def pointer_sum(op: str, left: Typed, right: Typed) -> Typed:
    if op not in ("+", "-") or right[0].endswith("*") or not left[0].endswith("*"):
        raise Unsupported(f"`{op}` of pointers")
    pointer, amount, sign = left[1], right[1], 1 if op == "+" else -1

    def run(frame: Frame) -> Pointer:
        at = pointer(frame)
        return Pointer(at.storage, at.offset + sign * amount(frame))

    return left[0], run


def assign_slot(frame: Frame, slot: int, value: Scalar) -> None:
    old = frame.v[slot]
    if frame.mask is not None and old is not None and not isinstance(value, Pointer):
        value = np.where(frame.mask, value, old).astype(
            getattr(old, "dtype", None) or np.asarray(old).dtype, copy=False
        )
    frame.v[slot] = value


def same_everywhere(test: Scalar, frame: Frame) -> bool:
    if not is_vector(test):
        return bool(test)
    flags = test if frame.mask is None else test[frame.mask]
    if flags.all() or not flags.any():
        return bool(flags.any())
    raise Unsupported("a loop that only some lanes leave")


def without_escape(side: Execute, frame: Frame) -> None:
    try:
        side(frame)
    except LeaveSignal as leave:
        raise Unsupported(f"a `{leave.kind}` that only some lanes take") from None


def identity(value: Any) -> Any:
    return value


def nothing(frame: Frame) -> None:
    return None


def thread_x(frame: Frame) -> Scalar:
    return frame.warp.threads.astype(np.uint32)
