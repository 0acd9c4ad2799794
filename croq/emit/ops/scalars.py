"""Scalar values, variables, element access, calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.emit import addresses, registers
from croq.emit.effects import MEMORY
from croq.emit.expressions import (
    NARROW_FLOATS,
    NARROW_INTEGERS,
    Expr,
    binary,
    call,
    cast,
    cpp_type,
    index,
    literal,
    name,
    ternary,
    unary,
    with_reads,
)
from croq.emit.registers import as_float, converted
from croq.emit.registry import StatementResult, expression, statement
from croq.emit.templating import Fields
from croq.emit.uses import hint
from croq.functions import FUNCTIONS
from croq.ir.core import Value
from croq.ir.objects import Buffer, FragRef, Param, View
from croq.ir.scalar import (
    Binary,
    BlockIndex,
    Call,
    Cast,
    Const,
    Cpp,
    LoadElement,
    Math,
    Select,
    StoreElement,
    Symbol,
    ThreadIndex,
    Unary,
    VarDeclare,
    VarGet,
    VarSet,
)
from croq.operators import OPERATORS, PREFIXES, PRIMARY, TRUTHS
from croq.target.cuda import WARP

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

_GUARDED = {"neg": "croq::neg"} | {name: row.guarded for name, row in OPERATORS.items()}


@expression(Const)
def const(emitter: Emitter, op: Const) -> Expr:
    return literal(op.value, op.result.type)


@expression(Symbol)
def symbol(emitter: Emitter, op: Symbol) -> Expr:
    return name(emitter.arguments.of_symbol(op.symbol).name)


@expression(ThreadIndex)
def thread_index(emitter: Emitter, op: ThreadIndex) -> Expr:
    thread = emitter.places["thread"]
    return thread if op.result.type == "s32" or op.result.name else cast(op.result.type, thread)


@expression(BlockIndex)
def block_index(emitter: Emitter, op: BlockIndex) -> Expr:
    axis = name(f"blockIdx.{'xyz'[op.axis]}")
    return axis if op.result.name or op.result.type == "u32" else cast(op.result.type, axis)


@expression(Binary)
def binary_op(emitter: Emitter, op: Binary) -> Expr:
    left, right, element = emitter.expr(op.left), emitter.expr(op.right), op.left.type
    if element in NARROW_FLOATS:
        left, right, element = as_float(left, element), as_float(right, element), "f32"
    if op.guarded:
        result = _guarded(op.op, element, left, right)
    elif op.op in ("min", "max") and element in NARROW_INTEGERS:
        result = call(f"croq::{op.op}<s32>", left, right)
    elif OPERATORS[op.op].level == PRIMARY:
        result = call(f"croq::{op.op}", left, right)
    elif op.op == "div" and element in ("f32", "tf32"):
        result = call("croq::div", left, right)
    else:
        result = binary(op.op, left, right)
    if op.op in TRUTHS:
        return result
    if op.result.type in NARROW_FLOATS:
        return converted(result, "f32", op.result.type)
    if op.result.type in NARROW_INTEGERS:
        return cast(op.result.type, result)
    return _uniform(emitter, op, result)


def _guarded(op: str, element: str, *operands: Expr) -> Expr:
    """The runtime's function, which is right for all operands; narrow integers are computed as s32."""
    return call(f"{_GUARDED[op]}<{'s32' if element in NARROW_INTEGERS else element}>", *operands)


def _uniform(emitter: Emitter, op: Binary, result: Expr) -> Expr:
    """Quotients of the thread index by whole warps are the same in all lanes: ptxas is told so."""
    amount = emitter.uses.definition.get(op.right)
    if op.op not in ("div", "shr") or not isinstance(amount, Const):
        return result
    divisor = int(amount.value) if op.op == "div" else 1 << int(amount.value)
    from_thread = isinstance(emitter.uses.definition.get(op.left), ThreadIndex)
    whole = op.threads is not None and op.threads.whole_warps() and emitter.map_place is None
    if not from_thread or divisor % WARP or not whole:
        return result
    return Expr(f"croq::uniform({result})", reads=result.reads, pinned=True)


@expression(Unary)
def unary_op(emitter: Emitter, op: Unary) -> Expr:
    operand = emitter.expr(op.operand)
    if op.result.type in NARROW_FLOATS:
        return converted(unary("-", as_float(operand, op.operand.type)), "f32", op.result.type)
    plain = unary(PREFIXES[op.op], operand)
    result = _guarded(op.op, op.operand.type, operand) if op.guarded else plain
    return cast(op.result.type, result) if op.result.type in NARROW_INTEGERS else result


@expression(Select)
def select(emitter: Emitter, op: Select) -> Expr:
    return ternary(emitter.expr(op.condition), emitter.expr(op.then), emitter.expr(op.otherwise))


@expression(Cast)
def cast_op(emitter: Emitter, op: Cast) -> Expr:
    return converted(emitter.expr(op.operand), op.operand.type, op.result.type)


@expression(Math)
def math(emitter: Emitter, op: Math) -> Expr:
    """By overload: the functions of f64 are f64 functions."""
    args = [as_float(emitter.expr(a), a.type) for a in op.args]
    return converted(call(FUNCTIONS[op.fn].cpp, *args), "f64" if op.args[0].type == "f64" else "f32", op.result.type)


# ----------------------------------------------------------------------------------------------------- variables
@expression(VarGet)
def var_get(emitter: Emitter, op: VarGet) -> Expr:
    return name(emitter.variable_names[op.var], frozenset({op.var}))


@statement(VarDeclare)
def var_declare(emitter: Emitter, op: VarDeclare) -> Fields:
    init = emitter.expr(op.value).text
    local = emitter.declare_object(op.var.name)
    emitter.variable_names[op.var] = local
    return {"type": cpp_type(op.var.type), "name": local, "init": init}


@statement(VarSet)
def var_set(emitter: Emitter, op: VarSet) -> Fields:
    value = emitter.expr(op.value)
    if op.uniform:
        value = call("croq::uniform", value)
    return {"text": assignment(emitter.variable_names[op.var], value)}


def assignment(target: str, value: Expr) -> str:
    """`x = value`, as `++x` or `x += e` where that says it."""
    if value.parts is None or value.parts[1].text != target or value.parts[0] in TRUTHS:
        return f"{target} = {value}"
    operation, _, amount = value.parts
    if amount.const == 1 and operation in ("add", "sub"):
        return f"{'++' if operation == 'add' else '--'}{target}"
    return f"{target} {OPERATORS[operation].spelling}= {amount}"


# ------------------------------------------------------------------------------------------------ element access
@expression(LoadElement)
def load_element(emitter: Emitter, op: LoadElement) -> Expr:
    indices = [emitter.expr(i) for i in op.indices]
    return with_reads(_element(emitter, op.view, indices), frozenset({MEMORY}))


def _element(emitter: Emitter, view: View, indices: list[Expr]) -> Expr:
    root = view.root
    if isinstance(root, Param):
        position = addresses.coordinates(addresses.offsets(emitter, view), view, indices)
        return index(addresses.pointer(emitter, root), addresses.subscript(emitter, root, position))
    if root.storage == "local":
        return addresses.local_element(emitter, view, indices)
    address = addresses.element_address(emitter, view, indices)
    return Expr(f"croq::ld_shared<{cpp_type(root.type)}>({address})", reads=address.reads)


@statement(StoreElement)
def store_element(emitter: Emitter, op: StoreElement) -> Fields:
    indices = [emitter.expr(i) for i in op.indices]
    value = converted(emitter.expr(op.value), op.value.type, op.view.root.type)
    root = op.view.root
    if isinstance(root, Buffer) and root.storage == "shared":
        address = addresses.element_address(emitter, op.view, indices)
        return {"text": f"croq::st_shared<{cpp_type(root.type)}>({address}, {value})"}
    return {"text": f"{_element(emitter, op.view, indices)} = {value}"}


# ---------------------------------------------------------------------------------------------------------- calls
@statement(Call)
def call_op(emitter: Emitter, op: Call) -> Fields:
    template = f"<{', '.join(op.template_args)}>" if op.template_args else ""
    text = f"{op.callee}{template}({', '.join(_argument(emitter, a) for a in op.args)})"
    if op.result is None or not emitter.uses.of(op.result):
        return {"type": "", "name": "", "call": text}
    local = emitter.names.declare(hint(op.result, op, emitter.uses))
    emitter.bind(op.result, name(local))
    return {"type": cpp_type(op.result.type), "name": local, "call": text}


def _argument(emitter: Emitter, arg: Value | FragRef | View) -> str:
    if isinstance(arg, Value):
        return emitter.expr(arg).exact
    if isinstance(arg, FragRef):
        text = registers.array(emitter, arg)
        return f"{text}[0]" if registers.shape_of(arg.frag).blocks > 1 else text
    root = arg.root
    starts = addresses.offsets(emitter, arg)
    if isinstance(root, Param):
        at = addresses.subscript(emitter, root, starts)
        base = addresses.pointer(emitter, root)
        return base if at.const == 0 else f"&{base}[{at}]"
    if root.storage == "local":
        at = addresses.local_element(emitter, arg, [0] * len(arg.kept))
        return f"&{at}"
    return (
        f"croq::shared_pointer<{cpp_type(root.type)}>({addresses.element_address(emitter, arg, [0] * len(arg.kept))})"
    )


@statement(Cpp)
def cpp(emitter: Emitter, op: Cpp) -> StatementResult:
    return {"text": op.text.strip("\n")}
