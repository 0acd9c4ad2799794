"""Scalar expressions to scalar operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import croq.numbers as numbers
from croq.ir.build_context import KernelBuilder
from croq.ir.build_views import element_indices, view
from croq.ir.core import Op, Value
from croq.ir.objects import FragRef, View
from croq.ir.scalar import Binary, Call, FragRead, If, LoadElement, VarGet, VarSet
from croq.ir.types import FLOATS, INTEGERS
from croq.operators import PREFIXED, SPELLED
from croq.sema.arithmetic import COMPARISONS
from croq.sema.calls import ON_TWO
from croq.sema.symbols import ScalarSymbol
from croq.sema.types import Scalar, promote
from croq.syntax import ast

Handler = Callable[[KernelBuilder, Any, Scalar], Value]


def value(b: KernelBuilder, expr: ast.Expr, element: str | None = None) -> Value:
    """The value of a scalar expression, converted to `element` where one is given."""
    known = b.model.types[expr]
    with b.spanned(expr.span):
        if known.constant is not None and not isinstance(expr, ast.DeviceCall):
            constant = numbers.convert(known.constant, known.element)
            return b.ir.const(element or known.element, numbers.convert(constant, element or known.element))
        made = _HANDLERS[type(expr)](b, expr, known)
        b.bounded(made, known)
        return made if element is None else b.ir.cast(made, element)


# ------------------------------------------------------------------------------------------------------------- leaves
def _name(b: KernelBuilder, expr: ast.Name, known: Scalar) -> Value:
    symbol = b.model.symbols[expr]
    assert isinstance(symbol, ScalarSymbol)
    return scalar_symbol(b, symbol)


def scalar_symbol(b: KernelBuilder, symbol: ScalarSymbol) -> Value:
    """The value that a scalar name has here."""
    if symbol in b.variables:
        return b.ir.var_get(b.variables[symbol])
    if symbol not in b.values:
        b.values[symbol] = _from_host(b, symbol)
    return b.values[symbol]


def _from_host(b: KernelBuilder, symbol: ScalarSymbol) -> Value:
    if symbol.origin in ("dim", "param"):
        return b.host_symbol(symbol.name, symbol.type.element, symbol.span)
    with b.at_entry(symbol.span):
        return b.named(value(b, b.host_values[symbol], symbol.type.element), symbol.name)


def _shape_value(b: KernelBuilder, expr: ast.SpanOf | ast.CountOf, known: Scalar) -> Value:
    assert known.value is not None
    return b.dim(known.value, known.element)


# ---------------------------------------------------------------------------------------------------------- operators
def _unary(b: KernelBuilder, expr: ast.Unary, known: Scalar) -> Value:
    if expr.op == "#":
        assert known.value is not None
        return b.dim(known.value, known.element)
    operand = value(b, expr.operand, known.element)
    return b.ir.unary(PREFIXED[expr.op], operand)


def _binary(b: KernelBuilder, expr: ast.Binary, known: Scalar) -> Value:
    if expr.op == "#":
        return _compose(b, expr, known)
    if expr.op in ("&&", "||"):
        return _logical(b, expr)
    if expr.op in COMPARISONS:
        left, right = b.model.types[expr.left], b.model.types[expr.right]
        common = left.element if left.element == right.element else promote(left, right)
        return arithmetic(b, expr.op, value(b, expr.left, common), value(b, expr.right, common))
    amount = None if SPELLED[expr.op].kind == "shift" else known.element  # of a shift: of any integer type
    return arithmetic(b, expr.op, value(b, expr.left, known.element), value(b, expr.right, amount))


def arithmetic(b: KernelBuilder, op: str, left: Value, right: Value) -> Value:
    """`left op right` of operands of one type; `op` is the language's."""
    return b.ir.binary(SPELLED[op].name, left, right)  # type: ignore[arg-type]


def _compose(b: KernelBuilder, expr: ast.Binary, known: Scalar) -> Value:
    bound = b.model.types[expr.right].bound
    assert bound is not None
    left = value(b, expr.left, known.element)
    scale = bound.known
    factor = scale if scale is not None else b.dim(bound, known.element)
    return b.ir.binary("add", b.ir.binary("mul", left, factor), value(b, expr.right, known.element))


def _logical(b: KernelBuilder, expr: ast.Binary) -> Value:
    """Both sides are evaluated where that is harmless; else the right side only when it decides."""
    left = value(b, expr.left, "bool")
    with b.region() as region:
        right = value(b, expr.right, "bool")
    if harmless(region.ops):
        b.ir.ops.extend(region.ops)
        return arithmetic(b, expr.op, left, right)
    result = b.temporary("both" if expr.op == "&&" else "either", "bool", left, expr.span)
    region.ops.append(VarSet(result, right, span=expr.span))
    decides = left if expr.op == "&&" else b.ir.unary("lnot", left)
    b.ir.add(If(decides, region, None))
    return b.ir.var_get(result)


def harmless(ops: list[Op]) -> bool:
    """Whether the operations may be executed although the program would not: nothing is touched, nothing can fault."""
    return all((op.PURE and not _may_divide_by_zero(op)) or isinstance(op, VarGet | FragRead) for op in ops)


def _may_divide_by_zero(op: Op) -> bool:
    if not isinstance(op, Binary) or op.op not in ("div", "mod", "cdiv") or op.left.type not in INTEGERS:
        return False
    return op.right.bounds is None or op.right.bounds[0] <= 0


def _ternary(b: KernelBuilder, expr: ast.Ternary, known: Scalar) -> Value:
    condition = value(b, expr.condition, "bool")
    with b.region() as then:
        yes = value(b, expr.then, known.element)
    with b.region() as otherwise:
        no = value(b, expr.otherwise, known.element)
    if harmless(then.ops + otherwise.ops):
        b.ir.ops.extend(then.ops + otherwise.ops)
        return b.ir.select(condition, yes, no)
    result = b.temporary("chosen", known.element, b.ir.const(known.element, 0), expr.span)
    then.ops.append(VarSet(result, yes, span=expr.span))
    otherwise.ops.append(VarSet(result, no, span=expr.span))
    b.ir.add(If(condition, then, otherwise))
    return b.ir.var_get(result)


def _inc_dec(b: KernelBuilder, expr: ast.IncDec, known: Scalar) -> Value:
    old, new = step(b, expr)
    return new if expr.prefix else old


def step(b: KernelBuilder, expr: ast.IncDec) -> tuple[Value, Value]:
    """Change the variable of `++` or `--`; gives its values before and after."""
    old = value(b, expr.target)
    return old, advance(b, expr, old)


def advance(b: KernelBuilder, expr: ast.IncDec, old: Value) -> Value:
    """Set the variable of `++` or `--`, whose value is `old`, to the next one."""
    symbol = b.model.symbols[expr.target]
    assert isinstance(symbol, ScalarSymbol)
    new = b.ir.binary("add" if expr.op == "++" else "sub", old, 1)
    b.ir.var_set(b.variables[symbol], new)
    return new


def _cast(b: KernelBuilder, expr: ast.Cast, known: Scalar) -> Value:
    return b.ir.cast(value(b, expr.operand), known.element)


# -------------------------------------------------------------------------------------------------- builtins and calls
def _builtin(b: KernelBuilder, expr: ast.Builtin, known: Scalar) -> Value:
    args = [value(b, arg, known.element) for arg in expr.args]
    if expr.name in ON_TWO:
        return arithmetic(b, ON_TWO[expr.name], args[0], args[1])
    return b.ir.math(expr.name.strip("_"), args)


def _device_call(b: KernelBuilder, expr: ast.DeviceCall, known: Scalar) -> Value:
    result = Value(known.element)
    call(b, expr, result)
    return result


def call(b: KernelBuilder, expr: ast.DeviceCall, result: Value | None) -> None:
    """A call of a device function; `result` receives what it returns."""
    template_args = tuple(_template_argument(b, arg) for arg in expr.template_args)
    args = tuple(_argument(b, arg) for arg in expr.args)
    b.ir.add(Call(expr.name, template_args, args, result))


def _template_argument(b: KernelBuilder, arg: ast.Expr) -> str:
    """C++ text of a constant or a type; element types are those of the prelude."""
    known = b.model.types.get(arg)
    if known is None or known.constant is None:
        name = arg.id if isinstance(arg, ast.Name) else arg.span.text
        return f"croq::{name}" if name in INTEGERS | FLOATS else name
    return str(known.constant).lower() if isinstance(known.constant, bool) else str(known.constant)


def _argument(b: KernelBuilder, arg: ast.Expr) -> Value | FragRef | View:
    if arg in b.model.fragments:
        return b.frag_ref(arg)
    if arg in b.model.views:
        return view(b, arg)
    return value(b, arg)


# ------------------------------------------------------------------------------------------------------------ elements
def _element(b: KernelBuilder, expr: ast.At, known: Scalar) -> Value:
    indices = element_indices(b, expr)
    made = Value(known.element)
    if expr.base in b.model.fragments:
        b.ir.add(FragRead(b.frag_ref(expr.base), indices, made))
    else:
        b.ir.add(LoadElement(view(b, expr.base), indices, made))
    return made


_HANDLERS: dict[type[ast.Expr], Handler] = {
    ast.Name: _name,
    ast.Unary: _unary,
    ast.Binary: _binary,
    ast.Ternary: _ternary,
    ast.IncDec: _inc_dec,
    ast.Cast: _cast,
    ast.Builtin: _builtin,
    ast.DeviceCall: _device_call,
    ast.At: _element,
    ast.SpanOf: _shape_value,
    ast.CountOf: _shape_value,
}
