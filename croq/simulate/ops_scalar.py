"""Scalar operations and variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from croq import numbers
from croq.ir import scalar
from croq.ir.core import Op
from croq.ir.lanes import lane_flags
from croq.ir.types import INTEGERS
from croq.operators import TRUTHS
from croq.simulate import arithmetic
from croq.simulate.compiler import Code, Compiler, Plain, handed_on, handles
from croq.simulate.dtypes import DTYPES, Array, Scalar, converter, is_vector, uniform
from croq.simulate.faults import fault
from croq.simulate.machine import Warp
from croq.target.cuda import WARP

# Results that are often equal in all lanes of a warp although an operand is not: `thread / 128`, `thread < 64`.
_COLLAPSING = {"div", "shr", "and", *TRUTHS}
DIVISION = {"div": arithmetic.quotient, "mod": arithmetic.remainder, "cdiv": arithmetic.ceiling}


@handles(scalar.Const)
def _const(c: Compiler, op: scalar.Const) -> None:
    c.preset(op.result, uniform(op.result.type, op.value))


@handles(scalar.Symbol)
def _symbol(c: Compiler, op: scalar.Symbol) -> None:
    if op.symbol not in c.symbols:
        raise fault("E-5005", op, f"symbol `{op.symbol}` has no value")
    c.preset(op.result, uniform(op.result.type, c.symbols[op.symbol]))


@handles(scalar.ThreadIndex)
def _thread_index(c: Compiler, op: scalar.ThreadIndex) -> Code:
    result, dtype = c.result(op.result), DTYPES[op.result.type]

    def run(warp: Warp) -> None:
        warp.v[result] = warp.threads.astype(dtype)

    return Code(run)


@handles(scalar.BlockIndex)
def _block_index(c: Compiler, op: scalar.BlockIndex) -> Code:
    result, axis = c.result(op.result), op.axis

    def run(warp: Warp) -> None:
        warp.v[result] = warp.cta.block[axis]

    return Code(run)


@handles(scalar.Binary)
def _binary(c: Compiler, op: scalar.Binary) -> Code:
    if op.left.type in INTEGERS and op.op in numbers.DIVISIONS:
        return _division(c, op)
    function = arithmetic.binary(op.op, op.left.type)
    left, right, result = c.slot(op.left), c.slot(op.right), c.result(op.result)
    if op.op in _COLLAPSING and c.map is None:

        def run_collapsing(warp: Warp) -> None:
            v = warp.v
            found = function(v[left], v[right])
            v[result] = _collapse(found) if type(found) is np.ndarray else found

        return Code(run_collapsing)

    def run(warp: Warp) -> None:
        v = warp.v
        v[result] = function(v[left], v[right])

    return Code(run)


def _collapse(values: Array) -> Scalar:
    """One value instead of 32 equal ones."""
    first = values[0]
    return first.item() if (values == first).all() else values


def _division(c: Compiler, op: scalar.Binary) -> Code:
    function = DIVISION[op.op]
    left, right, result = c.slot(op.left), c.slot(op.right), c.result(op.result)
    active = c.active()
    collapse = c.map is None
    dtype = DTYPES[op.result.type]

    def run(warp: Warp) -> None:
        v = warp.v
        divisor = v[right]
        if is_vector(divisor):
            zero = divisor == 0
            if zero.any():
                mask = active(warp)
                if mask is None or (zero & mask).any():
                    raise _by_zero(op, warp)
                divisor = np.where(zero, divisor.dtype.type(1), divisor)
        elif divisor == 0:
            raise _by_zero(op, warp)
        found = function(v[left], divisor)
        if type(found) is np.ndarray:
            found = _collapse(found) if collapse else found.astype(dtype, copy=False)
        v[result] = found

    return Code(run)


def _by_zero(op: Op, warp: Warp) -> Exception:
    return fault("E-5022", op, f"warp {warp.index} divides an integer by zero", hint="guard it by a condition")


@handles(scalar.Unary)
def _unary(c: Compiler, op: scalar.Unary) -> Code:
    function = arithmetic.unary(op.op, op.operand.type)
    operand, result = c.slot(op.operand), c.result(op.result)

    def run(warp: Warp) -> None:
        warp.v[result] = function(warp.v[operand])

    return Code(run)


def _of(dtype: Any, value: Any) -> Any:
    """A value of all lanes, which is a Python number, or of each; NumPy 2.5 takes no number beyond 63 bits untyped."""
    return np.asarray(value).astype(dtype, copy=False) if isinstance(value, np.ndarray) else dtype.type(value)


@handles(scalar.Select)
def _select(c: Compiler, op: scalar.Select) -> Code:
    condition, then, otherwise = c.slot(op.condition), c.slot(op.then), c.slot(op.otherwise)
    result, dtype = c.result(op.result), DTYPES[op.result.type]

    def run(warp: Warp) -> None:
        v = warp.v
        test = v[condition]
        if type(test) is np.ndarray:
            v[result] = np.where(test, _of(dtype, v[then]), _of(dtype, v[otherwise]))
        else:
            v[result] = v[then] if test else v[otherwise]

    return Code(run)


@handles(scalar.Cast)
def _cast(c: Compiler, op: scalar.Cast) -> Code:
    function = converter(op.operand.type, op.result.type)
    operand, result = c.slot(op.operand), c.result(op.result)

    def run(warp: Warp) -> None:
        warp.v[result] = function(warp.v[operand])

    return Code(run)


@handles(scalar.Math)
def _math(c: Compiler, op: scalar.Math) -> Code:
    function = arithmetic.math(op.fn, op.args[0].type, op.result.type)
    if function is None:
        raise fault("E-5030", op, f"the simulator does not know the function `__{op.fn}`")
    args, result = [c.slot(a) for a in op.args], c.result(op.result)

    def run(warp: Warp) -> None:
        v = warp.v
        v[result] = function(*[v[a] for a in args])

    return Code(run)


# --------------------------------------------------------------------------------------------------------- variables
@handles(scalar.VarDeclare)
def _declare(c: Compiler, op: scalar.VarDeclare) -> Code:
    if c.map is not None:
        c.map.variables.add(op.var)
    var, init = c.slot(op.var), c.slot(op.value)

    def run(warp: Warp) -> None:
        warp.v[var] = warp.v[init]
        warp.declared_mask[var] = warp.mask

    return Code(run)


@handles(scalar.VarGet)
def _get(c: Compiler, op: scalar.VarGet) -> Code:
    if c.map is not None and op.var in c.map.assigned:
        raise handed_on(op)
    var, result = c.slot(op.var), c.result(op.result)

    def run(warp: Warp) -> None:
        warp.v[result] = warp.v[var]

    return Code(run)


@handles(scalar.VarSet)
def _set(c: Compiler, op: scalar.VarSet) -> Code:
    if c.map is not None and op.var not in c.map.variables:
        return Code(_set_by_elements(c.outer(op.var, op), c.slot(op.value), DTYPES[op.var.type]))
    var, value = c.slot(op.var), c.slot(op.value)
    dtype = DTYPES[op.var.type]
    if c.map is not None:
        return Code(_set_elements(var, value, dtype))

    def run(warp: Warp) -> None:
        v = warp.v
        # Lanes that were not there when the variable came to life never see it.
        if warp.mask == warp.declared_mask.get(var, warp.base):
            v[var] = v[value]
        else:
            v[var] = np.where(lane_flags(warp.mask), _of(dtype, v[value]), _of(dtype, v[var]))

    return Code(run)


def _set_by_elements(var: int, value: int, dtype: Any) -> Plain:
    """A variable of the thread keeps what its last element assigns, in the order of rows and columns."""

    def run(warp: Warp) -> None:
        content, mask = np.asarray(_of(dtype, warp.v[value])), np.asarray(_elements_that_assign(warp))
        full = np.broadcast_shapes((WARP, 1), content.shape, mask.shape)
        assigned = np.broadcast_to(mask, full).reshape(WARP, -1)
        last = assigned.shape[1] - 1 - np.argmax(assigned[:, ::-1], axis=1)
        values = np.broadcast_to(content, full).reshape(WARP, -1)[np.arange(WARP), last]
        warp.v[var] = np.where(assigned.any(axis=1), values, _of(dtype, warp.v[var]))

    return run


def _elements_that_assign(warp: Warp) -> Any:
    return True if warp.element_mask is None else warp.element_mask


def _set_elements(var: int, value: int, dtype: Any) -> Plain:
    def run(warp: Warp) -> None:
        v, mask = warp.v, warp.element_mask
        v[var] = v[value] if mask is None else np.where(mask, _of(dtype, v[value]), _of(dtype, v[var]))

    return run


@handles(scalar.Cpp)
def _cpp(c: Compiler, op: scalar.Cpp) -> Code:
    raise fault(
        "E-5030",
        op,
        "the simulator cannot run C++ text",
        hint="run this kernel on a GPU, or say it in the language",
    )
