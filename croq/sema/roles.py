"""`inthreads` (7.4): the predicate that selects threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from croq.sema import names
from croq.sema.expressions import condition
from croq.sema.facts import facts_of
from croq.sema.futures import close_scope
from croq.sema.state import State
from croq.sema.symbols import ScalarSymbol
from croq.syntax import ast

Walk = Callable[[State, tuple[ast.Stmt, ...]], None]


def inthreads(state: State, node: ast.InThreads, walk: Walk) -> None:
    head = node.condition.span
    if not state.on_device:
        state.sink.error("E-732", head, "`inthreads` outside `parallel`")
    if node.is_async and state.roles:
        state.sink.error(
            "E-733",
            head,
            "`.async` on an `inthreads` inside another one",
            labels=[(state.roles[-1].condition.span, "the other one")],
            hint="drop `.async`",
        )
    found = condition(state, node.condition, "E-731", "the predicate of `inthreads`")
    if not found.is_error and state.on_device:
        _check_divergent(state, node.condition)
    state.roles.append(node)
    with state.enter("role") as scope, state.assuming(facts_of(state, node.condition)):
        names.announce(scope, node.body.body)
        walk(state, node.body.body)
        close_scope(state, scope)
    state.roles.pop()


def _check_divergent(state: State, expr: ast.Expr) -> None:
    """Exactly one side of each comparison depends on a parallel variable."""
    if isinstance(expr, ast.Unary) and expr.op == "!":
        _check_divergent(state, expr.operand)
        return
    if isinstance(expr, ast.Binary) and expr.op in ("&&", "||"):
        _check_divergent(state, expr.left)
        _check_divergent(state, expr.right)
        return
    if isinstance(expr, ast.Binary) and expr.op in ("<", ">", "<=", ">=", "==", "!="):
        sides = [bool(_parallel_variables(state, side)) for side in (expr.left, expr.right)]
        if sides.count(True) == 1:
            return
        what = "both sides depend" if all(sides) else "no side depends"
        _not_divergent(state, expr, f"{what} on a parallel variable")
        return
    _not_divergent(state, expr, "it is not a comparison")


def _parallel_variables(state: State, expr: ast.Expr) -> frozenset[ScalarSymbol]:
    """Parallel variables behind `expr`, also those that conditions around have pinned to one value."""
    if isinstance(expr, ast.Name):
        symbol = state.model.symbols.get(expr)
        return symbol.type.varies if isinstance(symbol, ScalarSymbol) else frozenset()
    found = state.model.types[expr].varies if expr in state.model.types else frozenset[ScalarSymbol]()
    for f in fields(expr):
        item = getattr(expr, f.name)
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, ast.Expr):
                found |= _parallel_variables(state, part)
    return found


def _not_divergent(state: State, expr: ast.Expr, why: str) -> None:
    state.sink.error(
        "E-730",
        expr.span,
        "the predicate of `inthreads` does not select threads",
        notes=[why],
        hint="compare a parallel variable, or a value derived from one, with something uniform, as in `p == 0`",
    )
