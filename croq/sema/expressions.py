"""Scalar expressions (section 4): their types, and what is known of their values.

Every scalar expression gets an entry in `model.types`. Handlers are registered by node class, so that element access,
calls and builtins can live in modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import croq.numbers as numbers
from croq.operators import SPELLED, spellings
from croq.sema import arithmetic, names
from croq.sema.conversions import convert, has_no_integer
from croq.sema.state import State
from croq.sema.symbols import (
    DataSymbol,
    EventSymbol,
    FragmentSymbol,
    FutureSymbol,
    PoisonSymbol,
    ScalarSymbol,
    Symbol,
    TupleSymbol,
    ViewSymbol,
)
from croq.sema.types import (
    BOOL,
    BYTES,
    ERROR,
    FLOATS,
    INTEGERS,
    Scalar,
    closed,
    from_dim,
    integer,
    opened,
    promote,
)
from croq.source import Span
from croq.syntax import ast

Handler = Callable[[State, Any], Scalar]
_HANDLERS: dict[type[ast.Expr], Handler] = {}
_H = TypeVar("_H", bound=Handler)


def handles(*nodes: type[ast.Expr]) -> Callable[[_H], _H]:
    def register(handler: _H) -> _H:
        for node in nodes:
            _HANDLERS[node] = handler
        return handler

    return register


def scalar(state: State, expr: ast.Expr) -> Scalar:
    """The type of `expr` as a scalar; faults are reported and give `ERROR`."""
    handler = _HANDLERS.get(type(expr))
    if handler is None:
        state.sink.error("E-411", expr.span, "this is not a scalar value", hint="read an element with `.at(...)`")
        found = ERROR
    else:
        found = handler(state, expr)
    state.model.types[expr] = found
    return found


def integer_of(state: State, expr: ast.Expr, code: str, what: str) -> Scalar:
    """The type of `expr`, which must be an integer; `what` names its role in the message."""
    found = scalar(state, expr)
    if not found.is_integer:
        state.sink.error(code, expr.span, f"{what} must be an integer, this is a `{found.element}`")
        return ERROR
    return found


def condition(state: State, expr: ast.Expr, code: str, what: str) -> Scalar:
    found = scalar(state, expr)
    if not found.is_bool:
        hint = "compare it with something, for example `!= 0`" if found.is_integer else None
        state.sink.error(code, expr.span, f"{what} must be a boolean, this is a `{found.element}`", hint=hint)
        return ERROR
    return found


# ------------------------------------------------------------------------------------------------------ literals
@handles(ast.IntLit)
def _int_literal(state: State, expr: ast.IntLit) -> Scalar:
    return integer(expr.value, expr.type, literal=expr.type in ("s32", "s64"))


@handles(ast.FloatLit)
def _float_literal(state: State, expr: ast.FloatLit) -> Scalar:
    return Scalar(expr.type, expr.value, literal=True)


@handles(ast.BoolLit)
def _bool_literal(state: State, expr: ast.BoolLit) -> Scalar:
    return Scalar("bool", expr.value)


@handles(ast.StrLit)
def _string(state: State, expr: ast.StrLit) -> Scalar:
    state.sink.error("E-317", expr.span, "a string is not a value here")
    return ERROR


@handles(ast.Wildcard)
def _wildcard(state: State, expr: ast.Wildcard) -> Scalar:
    state.sink.error("E-610", expr.span, "`_` is not a value", hint="`_` stands for a whole dimension of a view")
    return ERROR


@handles(ast.SizeOf)
def _size_of(state: State, expr: ast.SizeOf) -> Scalar:
    return integer(BYTES.get(expr.type, 1), literal=True)


# --------------------------------------------------------------------------------------------------------- names
@handles(ast.Name)
def _name(state: State, expr: ast.Name) -> Scalar:
    symbol = names.use(state, expr)
    if symbol is None or isinstance(symbol, PoisonSymbol):
        return ERROR
    if isinstance(symbol, ScalarSymbol):
        return read_symbol(state, symbol)
    _not_a_value(state, expr.span, symbol)
    return ERROR


def read_symbol(state: State, symbol: ScalarSymbol) -> Scalar:
    if symbol.mutable:
        low = 0 if symbol.type.element in INTEGERS and symbol.type.element.startswith("u") else None
        return Scalar(
            symbol.type.element,
            varies=symbol.type.varies,
            mutable=True,
            interval=replace(symbol.type.interval, lo=low, hi=None),
        )
    interval = state.interval_of(symbol)
    varies = frozenset[ScalarSymbol]() if interval.single else symbol.type.varies
    return replace(symbol.type, interval=interval, varies=varies)


def _not_a_value(state: State, span: Span, symbol: Symbol) -> None:
    if not state.first_misuse(symbol):
        return
    labels = [(symbol.span, "declared here")]
    hint = None
    if isinstance(symbol, (DataSymbol, ViewSymbol, FragmentSymbol)):
        hint = f"read an element with `{symbol.name}.at(...)`"
    elif isinstance(symbol, TupleSymbol):
        hint = f"name one of its variables: {', '.join(f'`{member.name}`' for member in symbol.members)}"
    elif isinstance(symbol, EventSymbol):
        hint = "an event stands only in `wait` and `trigger`"
    elif isinstance(symbol, FutureSymbol):
        hint = f"`wait {symbol.name}` makes its data readable"
    state.sink.error("E-411", span, f"`{symbol.name}` is {symbol.WORD}, not a value", labels=labels, hint=hint)


# ------------------------------------------------------------------------------------------------------ operators
@handles(ast.Unary)
def _unary(state: State, expr: ast.Unary) -> Scalar:
    if expr.op == "#":
        return _upper_bound(state, expr)
    operand = scalar(state, expr.operand)
    if operand.is_error:
        return ERROR
    if expr.op == "!":
        if not operand.is_bool:
            _not_boolean(state, expr.operand, operand, "!")
            return ERROR
        return replace(operand, constant=None if operand.constant is None else not operand.constant)
    if expr.op == "~":
        if not operand.is_integer:
            state.sink.error("E-402", expr.span, f"`~` needs an integer, this is a `{operand.element}`")
            return ERROR
        return replace(operand.without_value(), mutable=operand.mutable)
    return _negate(state, expr, operand)


def _negate(state: State, expr: ast.Unary, operand: Scalar) -> Scalar:
    if operand.element == "bool":
        state.sink.error("E-402", expr.span, "`-` needs a number, this is a `bool`")
        return ERROR
    if operand.is_float:
        constant = -operand.constant if operand.constant is not None else None
        return replace(operand, constant=constant)
    zero = integer(0, literal=True)
    found = replace(arithmetic.combine("-", zero, operand, operand.element), literal=operand.literal)
    if isinstance(expr.operand, ast.IntLit) and expr.operand.value == 2**31 and found.element == "s64":
        return convert(found, "s32") if not expr.operand.span.text.lower().endswith("l") else found
    return found


def _upper_bound(state: State, expr: ast.Unary) -> Scalar:
    operand = scalar(state, expr.operand)
    if operand.is_error:
        return ERROR
    if operand.bound is None:
        _unbounded(state, expr.operand.span, "`#` takes the upper bound of")
        return ERROR
    return from_dim(operand.bound, operand.element)


def _unbounded(state: State, span: Span, what: str) -> None:
    state.sink.error(
        "E-401",
        span,
        f"{what} a bounded integer, and this one has no bound",
        notes=["variables of `parallel` and `foreach` are bounded, and what is derived from them by `%`, `/`, `+ n`"],
    )


@handles(ast.Binary)
def _binary(state: State, expr: ast.Binary) -> Scalar:
    left, right = scalar(state, expr.left), scalar(state, expr.right)
    if left.is_error or right.is_error:
        return BOOL if expr.op in spellings("comparison", "logic") else ERROR
    if expr.op == "#":
        return compose(state, expr, left, right)
    if expr.op in spellings("logic"):
        return _logical(state, expr, left, right)
    if expr.op in arithmetic.COMPARISONS:
        return _comparison(state, expr, left, right)
    return binary(state, expr.span, expr.op, left, right)


def compose(state: State, expr: ast.Binary, left: Scalar, right: Scalar) -> Scalar:
    """`a # b`: value `a * #b + b`, bound `#a * #b`."""
    for side, found in ((expr.left, left), (expr.right, right)):
        if not found.is_integer:
            state.sink.error("E-401", side.span, f"`#` composes integers, this is a `{found.element}`")
            return ERROR
    if right.bound is None:
        _unbounded(state, expr.right.span, "the right side of `#` must be")
        return ERROR
    scaled = arithmetic.combine("*", left, from_dim(right.bound), left.element)
    total = arithmetic.combine("+", scaled, right, scaled.element)
    bound = left.bound * right.bound if left.bound is not None else None
    return replace(total, bound=bound)


def _logical(state: State, expr: ast.Binary, left: Scalar, right: Scalar) -> Scalar:
    for side, found in ((expr.left, left), (expr.right, right)):
        if not found.is_bool:
            _not_boolean(state, side, found, expr.op)
            return BOOL
    constant = None
    if left.constant is not None and right.constant is not None:
        both = bool(left.constant) and bool(right.constant)
        constant = both if expr.op == "&&" else bool(left.constant) or bool(right.constant)
    return Scalar("bool", constant, varies=left.varies | right.varies, mutable=left.mutable or right.mutable)


def _not_boolean(state: State, expr: ast.Expr, found: Scalar, op: str) -> None:
    hint = "compare it with something, for example `!= 0`" if found.is_integer else None
    state.sink.error("E-402", expr.span, f"`{op}` needs booleans, this is a `{found.element}`", hint=hint)


def _comparison(state: State, expr: ast.Binary, left: Scalar, right: Scalar) -> Scalar:
    both_bool = left.element == right.element == "bool" and expr.op in ("==", "!=")
    if not both_bool and promote(left, right) is None:
        no_common_type(state, expr.span, left, right)
        return BOOL
    constant = arithmetic.compare(expr.op, left, right)
    return Scalar("bool", constant, varies=left.varies | right.varies, mutable=left.mutable or right.mutable)


def no_common_type(state: State, span: Span, left: Scalar, right: Scalar) -> None:
    state.sink.error(
        "E-301",
        span,
        f"`{left.element}` and `{right.element}` have no common type",
        hint="convert one side with `__to<T>(...)`",
    )


def binary(state: State, span: Span, op: str, left: Scalar, right: Scalar) -> Scalar:
    """The result of arithmetic `left op right` (also `min`, `max`, `cdiv`), neither of which is faulty."""
    element = left.element if SPELLED[op].kind == "shift" else promote(left, right)
    if element is None:
        no_common_type(state, span, left, right)
        return ERROR
    if SPELLED[op].floats is None and not (left.is_integer and right.is_integer):
        other = left if not left.is_integer else right
        state.sink.error("E-402", span, f"`{op}` needs integers, one side is a `{other.element}`")
        return ERROR
    if element in FLOATS:
        return Scalar(
            element,
            varies=left.varies | right.varies,
            mutable=left.mutable or right.mutable,
            literal=left.literal and right.literal,
        )
    if arithmetic.divides_by_zero(op, right):
        state.sink.error("E-412", span, "this divides by zero")
        return ERROR
    if arithmetic.shifts_too_far(op, right, element):
        most = numbers.WIDTHS[element] - 1
        state.sink.error(
            "E-414",
            span,
            f"a `{element}` is shifted by {right.known}",
            notes=[f"amounts are 0 to {most}; one that is computed at run time is clamped"],
            hint="convert the left side to a wider type first" if right.known and 0 < right.known < 64 else None,
        )
        return ERROR
    return arithmetic.combine(op, left, right, element)


@handles(ast.Ternary)
def _ternary(state: State, expr: ast.Ternary) -> Scalar:
    chosen = condition(state, expr.condition, "E-403", "the condition of `?:`")
    then, otherwise = scalar(state, expr.then), scalar(state, expr.otherwise)
    if then.is_error or otherwise.is_error:
        return ERROR
    element = then.element if then.element == otherwise.element else promote(then, otherwise)
    if element is None:
        state.sink.error(
            "E-404",
            expr.span,
            f"the arms of `?:` have no common type: `{then.element}` and `{otherwise.element}`",
            hint="convert one of them with `__to<T>(...)`",
        )
        return ERROR
    varies = chosen.varies | then.varies | otherwise.varies
    mutable = chosen.mutable or then.mutable or otherwise.mutable
    if element not in INTEGERS:
        return Scalar(element, varies=varies, mutable=mutable)
    a, b = (closed(convert(side, element).interval, element) for side in (then, otherwise))
    interval = opened((min(a[0], b[0]), max(a[1], b[1])), element)
    return Scalar(element, interval=interval, varies=varies, mutable=mutable)


@handles(ast.IncDec)
def _inc_dec(state: State, expr: ast.IncDec) -> Scalar:
    target = expr.target
    if not isinstance(target, ast.Name):
        state.sink.error("E-405", target.span, f"`{expr.op}` needs the name of a mutable integer")
        return ERROR
    symbol = names.use(state, target)
    if symbol is None or isinstance(symbol, PoisonSymbol):
        return ERROR
    if not isinstance(symbol, ScalarSymbol) or not symbol.mutable or symbol.type.element not in INTEGERS:
        hint = f"declare it with `mutable int {symbol.name} = ...;`" if isinstance(symbol, ScalarSymbol) else None
        state.sink.error(
            "E-405",
            expr.span,
            f"`{expr.op}` needs a mutable integer, `{symbol.name}` is not one",
            labels=[(symbol.span, "declared here")],
            hint=hint,
        )
        return ERROR
    found = read_symbol(state, symbol)
    state.model.types[target] = found
    return found


@handles(ast.Cast)
def _cast(state: State, expr: ast.Cast) -> Scalar:
    operand = scalar(state, expr.operand)
    if expr.type not in BYTES:
        state.sink.error("E-410", expr.span, f"`{expr.type}` is not an element type of the target")
        return ERROR
    if operand.is_error or has_no_integer(state, expr.span, operand, expr.type):
        return ERROR
    return convert(operand, expr.type)


def constant_of(state: State, expr: ast.Expr, code: str, what: str) -> int | None:
    """The value of a compile-time constant integer."""
    found = integer_of(state, expr, code, what)
    if found.is_error:
        return None
    if found.known is None:
        state.sink.error(code, expr.span, f"{what} must be a compile-time constant")
    return found.known
