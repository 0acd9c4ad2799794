"""The walk over statements (sections 3.3, 5, 9): one function a statement, registered by node class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from croq.sema import events, fragments, mma, moves, names, parallel, roles, storage
from croq.sema.calls import call, call_statement
from croq.sema.conversions import convert, convertible
from croq.sema.elements import element, is_fragment
from croq.sema.expressions import binary, condition, read_symbol, scalar
from croq.sema.facts import facts_of
from croq.sema.futures import close_scope
from croq.sema.loops import foreach, with_
from croq.sema.model import Level
from croq.sema.state import State
from croq.sema.symbols import PoisonSymbol, ScalarSymbol, ScopeKind, Symbol, ViewSymbol
from croq.sema.types import BYTES, ERROR, Scalar
from croq.sema.views import denotes_data, view
from croq.syntax import ast

Handler = Callable[[State, Any], None]


def walk(state: State, statements: tuple[ast.Stmt, ...]) -> None:
    """Analyse statements in the current scope."""
    for stmt in statements:
        forbidden = _NOT_IN_APPLY.get(type(stmt))
        if forbidden is not None and fragments.refuse_in_apply(state, stmt.span, forbidden):
            continue
        _HANDLERS[type(stmt)](state, stmt)


def block(state: State, node: ast.Block, kind: ScopeKind) -> None:
    """Analyse a body in a scope of its own."""
    with state.enter(kind) as scope:
        names.announce(scope, node.body)
        walk(state, node.body)
        close_scope(state, scope)


# ------------------------------------------------------------------------------------------------------------- scalars
def _scalar_decl(state: State, stmt: ast.ScalarDecl) -> None:
    if stmt.storage is not None:
        state.unsupported(stmt.span, f"a scalar in `{stmt.storage}` memory", "declare data of one element")
    if stmt.type == "void":
        state.sink.error("E-317", stmt.span, "a variable cannot be `void`")
        names.poison(state, stmt.name, stmt.name_span, stmt)
        return
    if stmt.type is not None and stmt.type not in BYTES:
        state.sink.error("E-410", stmt.span, f"`{stmt.type}` is not an element type of the target")
        names.poison(state, stmt.name, stmt.name_span, stmt)
        return
    found = _initial(state, stmt)
    if found is None:
        names.poison(state, stmt.name, stmt.name_span, stmt)
        return
    origin = "local" if state.on_device else "host"
    mutable = stmt.mutable and state.on_device
    symbol = ScalarSymbol(stmt.name, stmt.name_span, found, mutable, "host" if origin == "host" else "local")
    names.declare(state, symbol, stmt)


def _initial(state: State, stmt: ast.ScalarDecl) -> Scalar | None:
    """The type of the declared variable with what its initialiser says about the value."""
    if stmt.init is None:
        return _uninitialised(state, stmt)
    if isinstance(stmt.init, ast.DeviceCall):
        return _declared(call(state, stmt.init, stmt.type))
    if denotes_data(state, stmt.init):
        state.sink.error(
            "E-317", stmt.init.span, f"`{stmt.name}` is a scalar, this is data", hint="read an element with `.at(...)`"
        )
        return None
    found = scalar(state, stmt.init)
    if found.is_error:
        return None
    if stmt.type is None:
        return _declared(found)
    if not convertible(state, stmt.init.span, found, stmt.type, "E-317", f"`{stmt.name}`"):
        return None
    return convert(found, stmt.type)


def _declared(found: Scalar) -> Scalar | None:
    if found.is_error:
        return None
    element = "f32" if found.literal and found.element == "f64" else found.element
    return replace(found, literal=False, element=element)


def _uninitialised(state: State, stmt: ast.ScalarDecl) -> Scalar | None:
    if stmt.type is None:
        state.sink.error(
            "E-316",
            stmt.span,
            f"the type of `{stmt.name}` cannot be deduced without an initialiser",
            hint=f"write `mutable int {stmt.name};` or give a value",
        )
        return None
    if not stmt.mutable:
        state.sink.error(
            "E-316",
            stmt.span,
            f"`{stmt.name}` is immutable and has no initialiser",
            hint="give it a value, or declare it `mutable`",
        )
    elif not state.on_device:
        state.sink.error(
            "E-316", stmt.span, f"the host scalar `{stmt.name}` has no initialiser", hint="give it a value"
        )
    return Scalar(stmt.type)


def _assign(state: State, stmt: ast.Assign) -> None:
    if isinstance(stmt.target, ast.At):
        _assign_element(state, stmt, stmt.target)
    elif isinstance(stmt.target, ast.Name):
        _assign_name(state, stmt, stmt.target)


def _assign_name(state: State, stmt: ast.Assign, target: ast.Name) -> None:
    old = names.find(state, target.id)
    if isinstance(old, PoisonSymbol):
        _value(state, stmt, None)
        state.model.symbols[stmt] = old
        return
    if isinstance(old, ScalarSymbol) and old.mutable:
        _assign_variable(state, stmt, target, old)
        return
    if stmt.op != "=":
        _value(state, stmt, None)
        _not_assignable(state, stmt, target, old)
        return
    if old is not None and state.scope.names.get(target.id) is old and _reassigns(state, stmt, target, old):
        return
    _declare_inferred(state, stmt, target, old)


def _reassigns(state: State, stmt: ast.Assign, target: ast.Name, old: Symbol) -> bool:
    """E-310 or E-315: the name is taken in this very scope."""
    is_scalar = isinstance(old, ScalarSymbol)
    if is_scalar and isinstance(old, ScalarSymbol) and old.origin in ("param", "dim"):
        return False  # E-105, when it is declared
    if denotes_data(state, stmt.value):
        view(state, stmt.value)
    else:
        _value(state, stmt, None)
    state.sink.error(
        "E-310" if is_scalar else "E-315",
        target.span,
        f"`{old.name}` is immutable" if is_scalar else f"`{old.name}` is declared twice in one scope",
        labels=[(old.span, "declared here")],
        hint=_how_to_change(old) if isinstance(old, ScalarSymbol) else "choose another name",
    )
    return True


def _how_to_change(old: ScalarSymbol) -> str:
    if old.origin == "host":
        return "scalars of the host are set once: give the new value another name"
    if old.origin != "local":
        return f"copy it into a variable: `mutable m = {old.name};`"
    element = {"s32": "int"}.get(old.type.element, old.type.element)
    return (
        f"declare it `mutable {element} {old.name} = ...;` (words of element types, as in `u32 n`, need no `mutable`)"
    )


def _not_assignable(state: State, stmt: ast.Assign, target: ast.Name, old: Symbol | None) -> None:
    if old is None:
        names.use(state, target)
        return
    what = "is immutable" if isinstance(old, ScalarSymbol) else f"is {old.WORD}"
    state.sink.error(
        "E-310",
        target.span,
        f"`{old.name}` {what}: `{stmt.op}` cannot change it",
        labels=[(old.span, "declared here")],
        hint=_how_to_change(old) if isinstance(old, ScalarSymbol) else None,
    )


def _assign_variable(state: State, stmt: ast.Assign, target: ast.Name, symbol: ScalarSymbol) -> None:
    state.model.symbols[target] = symbol
    state.model.targets[stmt] = symbol
    found = _value(state, stmt, symbol.type.element)
    if found.is_error:
        return
    if stmt.op != "=":
        found = binary(state, stmt.span, stmt.op[:-1], read_symbol(state, symbol), found)
    convertible(state, stmt.value.span, found, symbol.type.element, "E-317", f"`{symbol.name}`")
    symbol.type = replace(symbol.type, varies=symbol.type.varies | found.varies)


def _declare_inferred(state: State, stmt: ast.Assign, target: ast.Name, old: Symbol | None) -> None:
    """`x = e;` with a new name: a view, or a scalar of the initialiser's type."""
    symbol: Symbol
    if is_fragment(state, stmt.value):
        state.sink.error(
            "E-317",
            stmt.value.span,
            "a fragment cannot be given another name",
            hint=f"declare a fragment and write `copy({target.id}, ...);`",
        )
        names.poison(state, target.id, target.span, stmt)
        return
    if denotes_data(state, stmt.value):
        data = view(state, stmt.value)
        if data is None:
            names.poison(state, target.id, target.span, stmt)
            return
        symbol = ViewSymbol(target.id, target.span, data)
    else:
        declared = _declared(_value(state, stmt, None))
        if declared is None:
            names.poison(state, target.id, target.span, stmt)
            return
        symbol = ScalarSymbol(target.id, target.span, declared, origin="local" if state.on_device else "host")
    if old is not None and state.scope.names.get(target.id) is not old:
        names.shadows(state, symbol, old)
    names.declare(state, symbol, stmt)


def _value(state: State, stmt: ast.Assign, wanted: str | None) -> Scalar:
    if isinstance(stmt.value, ast.DeviceCall):
        return call(state, stmt.value, wanted)
    if denotes_data(state, stmt.value):
        view(state, stmt.value)
        state.sink.error("E-317", stmt.value.span, "data is not a scalar", hint="read an element with `.at(...)`")
        return ERROR
    return scalar(state, stmt.value)


def _assign_element(state: State, stmt: ast.Assign, target: ast.At) -> None:
    wanted = element(state, target)
    found = _value(state, stmt, wanted)
    if not state.on_device:
        state.sink.error("E-321", stmt.span, "an element is written outside `parallel`", hint="write it in a kernel")
    if wanted is None or found.is_error:
        return
    state.model.types[target] = Scalar(wanted)
    if stmt.op != "=":
        found = binary(state, stmt.span, stmt.op[:-1], Scalar(wanted), found)
    convertible(state, stmt.value.span, found, wanted, "E-317", "the element")


def _expression(state: State, stmt: ast.ExprStmt) -> None:
    value = stmt.value
    if isinstance(value, ast.DeviceCall):
        call_statement(state, value)
    else:
        scalar(state, value)


# -------------------------------------------------------------------------------------------------------- control flow
def _if(state: State, stmt: ast.If) -> None:
    if isinstance(stmt.condition, ast.DeviceCall):
        call(state, stmt.condition, "bool")
        then_facts, else_facts = {}, {}
    else:
        condition(state, stmt.condition, "E-501", "the condition of `if`")
        then_facts = facts_of(state, stmt.condition)
        else_facts = facts_of(state, stmt.condition, False)
    with state.assuming(then_facts):
        block(state, stmt.then, "branch")
    if stmt.otherwise is not None:
        with state.assuming(else_facts):
            block(state, stmt.otherwise, "branch")


def _while(state: State, stmt: ast.While) -> None:
    condition(state, stmt.condition, "E-917", "the condition of `while`")
    state.loops += 1
    block(state, stmt.body, "loop")
    state.loops -= 1


def _jump(state: State, stmt: ast.Break | ast.Continue) -> None:
    word = "break" if isinstance(stmt, ast.Break) else "continue"
    for scope in state.scope.chain():
        if scope.kind == "loop":
            return
        if scope.kind in ("parallel", "role", "apply"):
            break
    state.sink.error("E-918", stmt.span, f"`{word}` outside a loop")


def _parallel(state: State, stmt: ast.Parallel) -> None:
    if state.kernel is None:
        state.unsupported(stmt.span, "a launch inside host control flow", "launch each kernel unconditionally")
        return
    parallel.parallel(state, stmt, walk)


def _return(state: State, stmt: ast.Return) -> None:
    state.sink.error("E-112", stmt.span, "`return` inside `parallel`", hint="use `if` to skip the rest")


def _sync(state: State, stmt: ast.Sync) -> None:
    if stmt.kind == "fence" or stmt.scope in ("device", "cluster", "term"):
        state.unsupported(stmt.span, "this synchronisation")
        return
    if not state.on_device:
        state.sink.error("E-1013", stmt.span, "`sync` stands inside `parallel` only")
        return
    role = next((r for r in reversed(state.roles) if r.is_async), None)
    if role is not None and sync_level_of(stmt, state.levels) == "block":
        state.sink.error(
            "E-1402",
            stmt.span,
            "a barrier of all threads of the CTA inside `inthreads.async`",
            labels=[(role.condition.span, "only these threads arrive")],
            notes=["the kernel would hang"],
            hint="use an event between the roles",
        )


def sync_level_of(stmt: ast.Sync, levels: Sequence[Level]) -> Literal["block", "group-4", "group"]:
    """The unit whose threads a `sync` inside `levels` (outermost first) brings together."""
    if stmt.kind == "barrier":
        return "group-4" if stmt.scope == "group-4" else "group" if stmt.scope == "group" else "block"
    for level in reversed(levels):
        if level.level == "group-4" or level.level == "group":
            return level.level
    return "block"


def _cpp(state: State, stmt: ast.CppText) -> None:
    if not state.on_device:
        state.unsupported(stmt.span, "C++ text in the host part of a function")


def _assert(state: State, stmt: ast.Assert) -> None:
    state.unsupported(stmt.span, "`assert` inside `parallel`", "assert what arguments must satisfy before the launch")


def _inthreads(state: State, stmt: ast.InThreads) -> None:
    roles.inthreads(state, stmt, walk)


def _apply(state: State, stmt: ast.Apply) -> None:
    fragments.apply(state, stmt, walk)


def _foreach(state: State, stmt: ast.Foreach) -> None:
    foreach(state, stmt, walk)


def _with(state: State, stmt: ast.With) -> None:
    with_(state, stmt, walk)


_HANDLERS: dict[type[ast.Stmt], Handler] = {
    ast.ScalarDecl: _scalar_decl,
    ast.BufferDecl: storage.declare_buffer,
    ast.FragDecl: storage.declare_frag,
    ast.EventDecl: events.declare_event,
    ast.Assign: _assign,
    ast.ExprStmt: _expression,
    ast.Move: moves.move,
    ast.MmaFill: mma.fill,
    ast.MmaLoad: mma.load,
    ast.Mma: mma.mma,
    ast.MmaStore: mma.store,
    ast.FragCopy: fragments.copy,
    ast.FragReduce: fragments.reduce,
    ast.FragAllReduce: fragments.all_reduce,
    ast.Apply: _apply,
    ast.Wait: events.wait,
    ast.Trigger: events.trigger,
    ast.If: _if,
    ast.While: _while,
    ast.Foreach: _foreach,
    ast.With: _with,
    ast.Break: _jump,
    ast.Continue: _jump,
    ast.Parallel: _parallel,
    ast.InThreads: _inthreads,
    ast.Return: _return,
    ast.Sync: _sync,
    ast.CppText: _cpp,
    ast.Assert: _assert,
}
_NOT_IN_APPLY: dict[type[ast.Stmt], str] = {
    ast.BufferDecl: "a buffer declaration",
    ast.FragDecl: "a fragment declaration",
    ast.EventDecl: "an event declaration",
    ast.Move: "a move",
    ast.MmaFill: "`mma.fill`",
    ast.MmaLoad: "`mma.load`",
    ast.Mma: "an mma",
    ast.MmaStore: "`mma.store`",
    ast.FragCopy: "`copy`",
    ast.FragReduce: "a reduction",
    ast.FragAllReduce: "a reduction",
    ast.Wait: "`wait`",
    ast.Trigger: "`trigger`",
    ast.Parallel: "`parallel`",
    ast.InThreads: "`inthreads`",
    ast.Sync: "`sync`",
}
