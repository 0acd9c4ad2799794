"""Builtin functions (section 13) and calls of device functions (section 12)."""

from __future__ import annotations

import difflib
import re

from croq import cuda_names
from croq.functions import FUNCTIONS
from croq.sema import names
from croq.sema.elements import fragment, is_fragment
from croq.sema.expressions import binary, constant_of, handles, no_common_type, scalar
from croq.sema.state import State
from croq.sema.symbols import DataSymbol, EventSymbol, FutureSymbol, ScalarSymbol
from croq.sema.types import ERROR, NARROW_FLOATS, Scalar, promote
from croq.sema.views import denotes_data, view
from croq.syntax import ast

ON_TWO = {"cdiv": "cdiv", "__max": "max", "__min": "min"}
SETREG = {"croq::cuda::setreg_inc": "inc", "croq::cuda::setreg_dec": "dec"}


@handles(ast.Builtin)
def _builtin(state: State, expr: ast.Builtin) -> Scalar:
    args = [scalar(state, arg) for arg in expr.args]
    wanted = 2 if expr.name in ON_TWO else FUNCTIONS[expr.name.removeprefix("__")].arity
    if len(args) != wanted:
        state.sink.error(
            "E-1303",
            expr.span,
            f"`{expr.name}` takes {wanted} argument{'s' if wanted != 1 else ''}, {len(args)} are given",
        )
        return ERROR
    if any(arg.is_error for arg in args):
        return ERROR
    if expr.name in ON_TWO:
        return _on_two(state, expr, args[0], args[1])
    return _math(state, expr, args)


def _on_two(state: State, expr: ast.Builtin, left: Scalar, right: Scalar) -> Scalar:
    if expr.name != "cdiv" and promote(left, right) is None:
        state.sink.error(
            "E-1301",
            expr.span,
            f"the arguments of `{expr.name}` have no common type: `{left.element}` and `{right.element}`",
            hint="convert one of them with `__to<T>(...)`",
        )
        return ERROR
    return binary(state, expr.span, ON_TWO[expr.name], left, right)


def _math(state: State, expr: ast.Builtin, args: list[Scalar]) -> Scalar:
    element = args[0].element
    for arg, found in zip(expr.args, args, strict=True):
        if not found.is_float:
            state.sink.error(
                "E-1302",
                arg.span,
                f"`{expr.name}` needs a float, this is a `{found.element}`",
                hint="convert it with `__to<f32>(...)`",
            )
            return ERROR
        common = promote(Scalar(element), found)
        if common is None:
            no_common_type(state, arg.span, Scalar(element), found)
            return ERROR
        element = common
    if element in NARROW_FLOATS or all(found.literal for found in args):
        element = "f32"
    varies = frozenset[ScalarSymbol]().union(*(found.varies for found in args))
    return Scalar(element, varies=varies, mutable=any(found.mutable for found in args))


# ------------------------------------------------------------------------------------------------------ device calls
def call(state: State, expr: ast.DeviceCall, wanted: str | None) -> Scalar:
    """Check a call whose result is used as a `wanted`, or as whatever the function returns where that is None."""
    found = _check_call(state, expr)
    element = wanted or state.return_types.get(expr.name.rsplit("::", 1)[-1])
    if found and element is None:
        state.sink.error(
            "E-1205",
            expr.span,
            f"what `{expr.name}` returns is not known",
            hint=f"write the type of the variable: `float x = call {expr.name}(...);`",
        )
    result = Scalar(element) if found and element is not None else ERROR
    state.model.types[expr] = result
    return result


def call_statement(state: State, expr: ast.DeviceCall) -> None:
    if expr.name in SETREG:
        _setreg(state, expr)
    else:
        _check_call(state, expr)


def _check_call(state: State, expr: ast.DeviceCall) -> bool:
    if not state.on_device:
        state.sink.error("E-901", expr.span, "`call` outside `parallel`", notes=["only kernels call device functions"])
        return False
    if any(expr.name == function.name for function in state.model.program.functions):
        state.sink.error(
            "E-101", expr.span, f"`{expr.name}` is a `__co__` function: kernels call device functions only"
        )
        return False
    for arg in expr.template_args:
        _template_argument(state, arg)
    return False not in [_argument(state, arg) for arg in expr.args] and _declared(state, expr)


def _declared(state: State, expr: ast.DeviceCall) -> bool:
    """Whether the C++ of the file, CUDA or the runtime may declare what is called; reports what nothing declares."""
    outside = state.model.program.outside
    if outside.resolves(expr.name) or cuda_names.callable_from_device(expr.name):
        return True
    unread = [i for i in outside.includes if not i.is_of_host]
    known = sorted(outside.names | cuda_names.functions())
    close = difflib.get_close_matches(expr.name.rsplit("::", 1)[-1], known, n=1, cutoff=0.75)
    state.sink.error(
        "E-1208",
        expr.name_span,
        f"nothing declares the device function `{expr.name}`",
        labels=[(include.span, "croq does not read headers: it may be declared in there") for include in unread],
        notes=["a kernel calls `__device__` functions of its own file, CUDA's built-in functions, and croq's runtime"],
        hint=f"did you mean `{close[0]}`?" if close else f"write the `__device__` function `{expr.name}` in this file",
    )
    return False


def _template_argument(state: State, arg: ast.Expr) -> None:
    """A constant; a name that is not declared is taken for a C++ type."""
    if isinstance(arg, ast.Name) and names.find(state, arg.id) is None:
        return
    if isinstance(arg, ast.BoolLit):
        scalar(state, arg)
        return
    constant_of(state, arg, "E-1207", "a template argument")


def _argument(state: State, arg: ast.Expr) -> bool:
    if is_fragment(state, arg):
        return fragment(state, arg) is not None
    base = arg.base if isinstance(arg, ast.Subscript) else arg
    symbol = names.find(state, base.id) if isinstance(base, ast.Name) else None
    if isinstance(symbol, EventSymbol) or (isinstance(symbol, FutureSymbol) and symbol.view is None):
        state.sink.error(
            "E-1201",
            arg.span,
            f"{symbol.WORD} cannot be passed to a device function",
            labels=[(symbol.span, "declared here")],
        )
        return False
    if isinstance(arg, ast.SpanOf) and arg.axis is None:
        state.sink.error(
            "E-1201",
            arg.span,
            "a shape cannot be passed to a device function",
            hint="pass its dimensions one by one: `.span(k)`",
        )
        return False
    if isinstance(arg, ast.Name) and isinstance(symbol, DataSymbol) and symbol.slots is not None:
        return view(state, arg) is not None
    if denotes_data(state, arg):
        return view(state, arg) is not None
    return not scalar(state, arg).is_error


def _setreg(state: State, expr: ast.DeviceCall) -> None:
    if not state.on_device:
        state.sink.error("E-901", expr.span, "`call` outside `parallel`")
        return
    if len(expr.args) != 1 or expr.template_args:
        state.sink.error("E-1202", expr.span, f"`{expr.name}` takes exactly one number of registers")
        return
    count = constant_of(state, expr.args[0], "E-1202", "the number of registers")
    allowed = state.model.target.register_requests
    if count is not None and count not in allowed:
        state.sink.error(
            "E-1202",
            expr.args[0].span,
            f"{count} registers cannot be asked for",
            notes=[f"the hardware takes multiples of {allowed.step} from {allowed[0]} to {allowed[-1]}"],
        )


# ------------------------------------------------------------------------------------------------------ return types
_CPP_TYPES = {
    "float": "f32", "double": "f64", "int": "s32", "unsigned": "u32", "bool": "bool", "int32_t": "s32",
    "uint32_t": "u32", "int64_t": "s64", "uint64_t": "u64", "size_t": "u64", "half": "f16", "__half": "f16",
    "__nv_bfloat16": "bf16", "bf16": "bf16", "f16": "f16", "f32": "f32", "s32": "s32", "u32": "u32",
}  # fmt: skip


def return_types(program: ast.Program) -> dict[str, str]:
    """The element types that device functions of the file return, where the text in front of the name says so."""
    found: dict[str, str] = {}
    for item in program.items:
        if isinstance(item, ast.DeviceText) and item.name is not None:
            head = re.split(rf"\b{re.escape(item.name)}\s*\(", item.text, maxsplit=1)[0]
            words = re.findall(r"[A-Za-z_]\w*", head)
            if "*" not in head and words and words[-1] in _CPP_TYPES:
                found[item.name] = _CPP_TYPES[words[-1]]
    return found
