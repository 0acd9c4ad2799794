"""`__co__` functions (section 1): parameters, dimensions, host code, launches."""

from __future__ import annotations

from croq.sema import names
from croq.sema.expressions import scalar
from croq.sema.model import FunctionModel, Requirement
from croq.sema.parallel import kernel
from croq.sema.state import State
from croq.sema.statements import walk
from croq.sema.symbolic import COMPARE, Dim
from croq.sema.symbols import DataSymbol, ScalarSymbol, Scope
from croq.sema.types import BYTES, INTEGERS, Scalar, from_dim
from croq.syntax import ast


def function(state: State, node: ast.Function, taken: set[str]) -> FunctionModel:
    """Analyse one function; `taken` holds the kernel names of the file so far."""
    found = FunctionModel(node)
    state.function, state.undefined = found, set()
    state.scope = Scope("function", None)
    names.announce(state.scope, node.body.body)
    _parameters(state, node, found)
    _return_type(state, node)
    for stmt in node.body.body:
        _host_statement(state, stmt, found, taken)
    state.function = None
    return found


# -------------------------------------------------------------------------------------------------------- parameters
def _parameters(state: State, node: ast.Function, found: FunctionModel) -> None:
    for index, param in enumerate(node.params):
        symbol = _parameter(state, param, index)
        names.declare(state, symbol, param)
        found.params.append(symbol)


def _parameter(state: State, param: ast.Param, index: int) -> DataSymbol | ScalarSymbol:
    name = param.name or f"unnamed_{index}"
    if param.type not in BYTES:
        state.sink.error("E-410", param.span, f"`{param.type}` is not an element type of the target")
    if param.dims is None:
        if param.is_global:
            state.sink.error("E-103", param.span, f"the scalar `{name}` is `global`", hint="drop `global`")
        return ScalarSymbol(name, param.name_span, _scalar_parameter(param.type, name), origin="param")
    shape = tuple(_dimension(state, dim, f"{name}_{axis}") for axis, dim in enumerate(param.dims))
    return DataSymbol(name, param.name_span, param.type, shape, "global", is_param=True, is_global=param.is_global)


def _scalar_parameter(element: str, name: str) -> Scalar:
    if element in INTEGERS:
        return Scalar(element, value=Dim.symbol(name))
    return Scalar(element)


def _dimension(state: State, dim: ast.Dim, fallback: str) -> Dim:
    """The extent of a parameter: a constant, or a name that it introduces (or repeats)."""
    if dim.value is None:
        return Dim.symbol(fallback)
    if isinstance(dim.value, ast.Name):
        return _symbol(state, dim.value)
    found = scalar(state, dim.value)
    if found.is_error:
        return Dim.of(1)
    if found.known is None:
        state.sink.error("E-122", dim.span, "a dimension is a constant or a name", hint="give the dimension a name")
        return Dim.of(1)
    if found.known <= 0:
        state.sink.error("E-107", dim.span, f"a dimension of {found.known}", hint="use at least 1")
        return Dim.of(1)
    return Dim.of(found.known)


def _symbol(state: State, name: ast.Name) -> Dim:
    value = Dim.symbol(name.id)
    old = state.scope.names.get(name.id)
    if old is None:
        names.declare(state, ScalarSymbol(name.id, name.span, from_dim(value), origin="dim"), name)
    elif not isinstance(old, ScalarSymbol) or old.origin != "dim":
        state.sink.error(
            "E-105",
            name.span,
            f"`{name.id}` is a parameter and a dimension",
            labels=[(old.span, "the parameter")],
            hint="rename one of them",
        )
    return value


# ------------------------------------------------------------------------------------------------------------- result
def _return_type(state: State, node: ast.Function) -> None:
    values = [stmt for stmt in node.body.body if isinstance(stmt, ast.Return) and stmt.value is not None]
    if node.return_type == "void":
        for stmt in values:
            state.sink.error(
                "E-111",
                stmt.span,
                "`return` with a value in a `void` function",
                labels=[(node.name_span, "this function")],
                hint="drop the value",
            )
        return
    if values:
        state.unsupported(values[0].span, "a function that returns a value", "write into a `global` parameter")
    elif node.return_type != "auto":
        state.sink.error(
            "E-110", node.name_span, f"`{node.name}` must return a value", hint="write `void`, or `return` something"
        )


# ---------------------------------------------------------------------------------------------------------- host code
def _host_statement(state: State, stmt: ast.Stmt, found: FunctionModel, taken: set[str]) -> None:
    if isinstance(stmt, ast.Parallel):
        kernel(state, stmt, found, _fresh(found.function.name, taken), walk)
    elif isinstance(stmt, ast.Return):
        pass
    elif isinstance(stmt, ast.Assert):
        _require(state, stmt.condition, stmt, found)
    elif isinstance(stmt, (ast.If, ast.While, ast.Foreach, ast.With)):
        state.unsupported(stmt.span, "control flow outside `parallel`", "put it into the kernel, or into the caller")
    else:
        walk(state, (stmt,))
        if isinstance(stmt, (ast.ScalarDecl, ast.Assign)) and stmt in state.model.symbols:
            found.host.append(stmt)


def _require(state: State, condition: ast.Expr, stmt: ast.Assert, found: FunctionModel) -> None:
    """A comparison of integers that the host can compute, or several joined by `&&`."""
    if isinstance(condition, ast.Binary) and condition.op == "&&":
        _require(state, condition.left, stmt, found)
        _require(state, condition.right, stmt, found)
        return
    if not isinstance(condition, ast.Binary) or condition.op not in COMPARE:
        state.sink.error(
            "E-1210",
            condition.span,
            "only comparisons of dimensions and integers can be asserted here",
            notes=["what is asserted at host level is checked with the arguments of a launch"],
            hint="compare with `==`, `!=`, `<`, `<=`, `>` or `>=`, and join several by `&&`",
        )
        return
    reported = len(state.sink.diagnostics)
    left, right = (scalar(state, side).value for side in (condition.left, condition.right))
    if left is None or right is None:
        if len(state.sink.diagnostics) == reported:
            state.sink.error(
                "E-1210",
                condition.span,
                "the host cannot compute both sides of this comparison",
                hint="use dimensions, integer parameters, constants and arithmetic on them",
            )
        return
    if left.known is not None and right.known is not None and not COMPARE[condition.op](left.known, right.known):
        text = stmt.message or "it is false"
        state.sink.error("E-1211", condition.span, f"this assertion never holds: {text}", hint="check the macros in it")
        return
    found.requires.append(Requirement(condition.op, left, right, stmt.message, condition.span))


def _fresh(name: str, taken: set[str]) -> str:
    candidate, n = name, 1
    while candidate in taken:
        n += 1
        candidate = f"{name}_{n}"
    taken.add(candidate)
    return candidate
