"""What a condition says about immutable integers, while it holds."""

from __future__ import annotations

from croq.sema.state import State
from croq.sema.symbols import ScalarSymbol
from croq.sema.types import Interval
from croq.syntax import ast

Facts = dict[ScalarSymbol, Interval]
_MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_NEGATE = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}


def facts_of(state: State, condition: ast.Expr, holds: bool = True) -> Facts:
    """Intervals that the condition (already analysed) implies when it is `holds`."""
    if isinstance(condition, ast.Unary) and condition.op == "!":
        return facts_of(state, condition.operand, not holds)
    if not isinstance(condition, ast.Binary):
        return {}
    if condition.op == ("&&" if holds else "||"):
        return _both(facts_of(state, condition.left, holds), facts_of(state, condition.right, holds))
    if condition.op not in _MIRROR:
        return {}
    op = condition.op if holds else _NEGATE[condition.op]
    facts = _compared(state, condition.left, op, condition.right)
    return _both(facts, _compared(state, condition.right, _MIRROR[op], condition.left))


def _both(a: Facts, b: Facts) -> Facts:
    merged = dict(a)
    for symbol, interval in b.items():
        merged[symbol] = merged[symbol].meet(interval) if symbol in merged else interval
    return merged


def _compared(state: State, name: ast.Expr, op: str, other: ast.Expr) -> Facts:
    symbol = state.model.symbols.get(name) if isinstance(name, ast.Name) else None
    if not isinstance(symbol, ScalarSymbol) or symbol.mutable or not symbol.type.is_integer:
        return {}
    found = state.model.types.get(other)
    if found is None or not found.is_integer or found.is_error:
        return {}
    lo, hi = found.interval.lo, found.interval.hi
    if op == "==":
        return {symbol: found.interval}
    if op == "!=":
        return _excluded(state, symbol, found.interval)
    bounds = {
        "<": Interval(None, hi - 1 if hi is not None else None),
        "<=": Interval(None, hi),
        ">": Interval(lo + 1 if lo is not None else None, None),
        ">=": Interval(lo, None),
    }
    return {symbol: bounds[op]}


def _excluded(state: State, symbol: ScalarSymbol, gone: Interval) -> Facts:
    """A single value taken away helps when it is an end of the range."""
    if not gone.single or gone.lo is None:
        return {}
    now = state.interval_of(symbol)
    if now.lo == gone.lo:
        return {symbol: Interval(gone.lo + 1, None)}
    if now.hi == gone.lo:
        return {symbol: Interval(None, gone.lo - 1)}
    return {}
