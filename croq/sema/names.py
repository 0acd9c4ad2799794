"""Declaring and finding names (3.3)."""

from __future__ import annotations

import difflib

from croq.sema.state import State
from croq.sema.symbols import DataSymbol, FutureSymbol, PoisonSymbol, ScalarSymbol, Scope, Symbol, TupleSymbol
from croq.source import Span
from croq.syntax import ast


def find(state: State, name: str) -> Symbol | None:
    """The innermost visible declaration of `name`."""
    for scope in state.scope.chain():
        if name in scope.names:
            return scope.names[name]
    return None


def use(state: State, expr: ast.Name, *, code: str = "E-314") -> Symbol | None:
    """What `expr` refers to, recorded in the model; reports a name that is not declared."""
    symbol = state.model.symbols.get(expr) or find(state, expr.id)  # a member of a group is resolved already
    if symbol is None:
        _undeclared(state, expr.id, expr.span, code)
        return None
    state.model.symbols[expr] = symbol
    return symbol


def _undeclared(state: State, name: str, span: Span, code: str) -> None:
    if name in state.undefined:
        return
    state.undefined.add(name)
    if name == "_":
        state.sink.error("E-610", span, "`_` is not a variable", hint="give the value a name")
        return
    for scope in state.scope.chain():
        if name in scope.later:
            state.sink.error(
                code,
                span,
                f"`{name}` is used before its declaration",
                labels=[(scope.later[name], "declared here")],
                hint="move the declaration up",
            )
            return
    visible = {n for scope in state.scope.chain() for n in scope.names}
    close = difflib.get_close_matches(name, sorted(visible), n=1)
    what = "no parameter introduces the dimension" if code == "E-121" else "nothing declares"
    hint = f"did you mean `{close[0]}`?" if close else None
    labels = []
    if close:
        near = find(state, close[0])
        if near is not None:
            labels = [(near.span, f"`{close[0]}` is declared here")]
    state.sink.error(code, span, f"{what} `{name}`", labels=labels, hint=hint)


def expanded(state: State, indices: tuple[ast.Expr, ...]) -> tuple[ast.Expr, ...]:
    """Indices in which each group of variables is replaced by its members."""
    found: list[ast.Expr] = []
    for index in indices:
        symbol = find(state, index.id) if isinstance(index, ast.Name) else None
        if not isinstance(symbol, TupleSymbol):
            found.append(index)
            continue
        for member in symbol.members:
            name = ast.Name(index.span, member.name)
            state.model.symbols[name] = member
            found.append(name)
    return tuple(found)


def declare(state: State, symbol: Symbol, node: ast.Node | None = None) -> None:
    """Put `symbol` into the current scope; `node` is the statement or iterator that declares it."""
    if node is not None:
        state.model.symbols[node] = symbol
    old = state.scope.names.get(symbol.name)
    if old is not None and not isinstance(old, PoisonSymbol):
        _redeclared(state, symbol, old)
    state.scope.names[symbol.name] = symbol


def declare_group(state: State, name: str | None, node: ast.Within | ast.ParallelBinding) -> None:
    """Declare the name of a whole group of variables, where it has one."""
    if name is None:
        return
    members = tuple(s for n in node.names if isinstance(s := state.model.symbols.get(n), ScalarSymbol))
    declare(state, TupleSymbol(name, node.span, members), node)


def _redeclared(state: State, symbol: Symbol, old: Symbol) -> None:
    labels = [(old.span, "first declared here")]
    if _of_function(old):
        what = "a dimension" if isinstance(old, ScalarSymbol) and old.origin == "dim" else "a parameter"
        state.sink.error(
            "E-105",
            symbol.span,
            f"`{symbol.name}` is already {what} of the function",
            labels=labels,
            hint="choose another name",
        )
    elif isinstance(symbol, FutureSymbol) and isinstance(old, FutureSymbol):
        state.sink.error(
            "E-817",
            symbol.span,
            f"the future `{symbol.name}` is defined twice in one scope",
            labels=labels,
            hint="give each operation its own name",
        )
    else:
        state.sink.error(
            "E-315",
            symbol.span,
            f"`{symbol.name}` is declared twice in one scope",
            labels=labels,
            hint="choose another name, or drop one of the declarations",
        )


def _of_function(symbol: Symbol) -> bool:
    if isinstance(symbol, DataSymbol):
        return symbol.is_param
    return isinstance(symbol, ScalarSymbol) and symbol.origin in ("param", "dim")


def poison(state: State, name: str, span: Span, node: ast.Node | None = None) -> None:
    """Declare `name` after a fault, so that its uses are not reported too."""
    if name not in state.scope.names:
        declare(state, PoisonSymbol(name, span), node)


def shadows(state: State, symbol: Symbol, old: Symbol) -> None:
    state.note(
        "W-303",
        symbol.span,
        f"this declares a new `{symbol.name}` that hides the one outside",
        (old.span, "the one outside"),
    )


def announce(scope: Scope, statements: tuple[ast.Stmt, ...]) -> None:
    """Note which names the statements of a scope will declare, for messages about use before declaration."""
    for stmt in statements:
        if isinstance(stmt, ast.Assign) and isinstance(stmt.target, ast.Name) and stmt.op == "=":
            scope.later.setdefault(stmt.target.id, stmt.target.span)
            continue
        name, span = getattr(stmt, "name", None), getattr(stmt, "name_span", None)
        if isinstance(name, str) and isinstance(span, Span):
            scope.later.setdefault(name, span)
