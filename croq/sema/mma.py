"""`mma` statements (section 11.2): accumulators, shapes and types of operands, stores."""

from __future__ import annotations

from dataclasses import dataclass

from croq.sema import names
from croq.sema.elements import fragment, is_fragment
from croq.sema.expressions import scalar
from croq.sema.model import FragmentUse
from croq.sema.state import State
from croq.sema.symbols import FragmentSymbol, FutureSymbol, PoisonSymbol, Symbol, ViewSymbol
from croq.sema.types import shape_text
from croq.sema.views import view
from croq.source import Span
from croq.syntax import ast
from croq.target.base import Product


# --------------------------------------------------------------------------------------------------------------- fill
def fill(state: State, stmt: ast.MmaFill) -> None:
    found = scalar(state, stmt.value)
    if not found.is_error and found.element == "bool":
        state.sink.error("E-317", stmt.value.span, "an accumulator cannot be filled with a `bool`")
    if not state.on_device:
        state.sink.error("E-1150", stmt.span, "a fragment outside `parallel`")
    old = names.find(state, stmt.name)
    if stmt.refill:
        _refill(state, stmt, old)
        return
    if isinstance(old, FragmentSymbol) and state.scope.names.get(stmt.name) is old and old.accumulator:
        state.sink.error(
            "E-1116",
            stmt.name_span,
            f"the accumulator `{stmt.name}` is declared twice in one scope",
            labels=[(old.span, "first declared here")],
            hint=f"to fill it again write `mma.fill {stmt.name}, value;`",
        )
        return
    outer = old is not None and stmt.name not in state.scope.names and _same_parallel(state, old)
    if outer and old is not None and not isinstance(old, PoisonSymbol):
        if isinstance(old, FragmentSymbol):
            _refill(state, stmt, old)
            return
        names.shadows(state, FragmentSymbol(stmt.name, stmt.name_span, "f32", None), old)
    symbol = FragmentSymbol(stmt.name, stmt.name_span, stmt.element or "f32", None, accumulator=True)
    state.fragments.append(symbol)
    names.declare(state, symbol, stmt)


def _same_parallel(state: State, symbol: Symbol) -> bool:
    for scope in state.scope.chain():
        if scope.names.get(symbol.name) is symbol:
            return True
        if scope.kind == "parallel":
            return False
    return False


def _refill(state: State, stmt: ast.MmaFill, old: Symbol | None) -> None:
    if old is None:
        names.use(state, ast.Name(stmt.name_span, stmt.name))
        return
    if isinstance(old, PoisonSymbol):
        return
    accumulator = isinstance(old, FragmentSymbol) and (old.shape is None or len(old.shape) == 2)
    if not isinstance(old, FragmentSymbol) or not accumulator:
        state.sink.error(
            "E-1117",
            stmt.name_span,
            f"`mma.fill` fills accumulators, `{stmt.name}` is not one",
            labels=[(old.span, "declared here")],
            hint="write an `apply`, or `{value}` in its declaration",
        )
        return
    if stmt.element is not None and stmt.element != old.element:
        state.sink.error(
            "E-1117",
            stmt.span,
            f"`{stmt.name}` has elements of `{old.element}`, not `{stmt.element}`",
            labels=[(old.span, "declared here")],
        )
    state.model.targets[stmt] = old


# ---------------------------------------------------------------------------------------------------------------- mma
@dataclass(frozen=True)
class Operand:
    """Element type and shape of an operand, and the fragment when it is in registers."""

    span: Span
    element: str
    shape: tuple[int, ...]
    use: FragmentUse | None = None


def mma(state: State, stmt: ast.Mma) -> None:
    if not state.on_device:
        state.sink.error("E-1150", stmt.span, "an `mma` outside `parallel`")
    if any(level.level == "group" for level in state.levels):
        state.unsupported(stmt.span, "an mma of a single warp", "use a `group-4` level: a warpgroup computes together")
    acc = fragment(state, stmt.acc)
    a = _operand(state, stmt.a, "A")
    b = _operand(state, stmt.b, "B")
    if stmt.name is not None and stmt.name_span is not None:
        future = FutureSymbol(stmt.name, stmt.name_span, "mma", stmt.is_async, state.scope, None)
        names.declare(state, future, stmt)
    if acc is None or a is None or b is None:
        if acc is not None and acc.fragment.shape is None:
            acc.fragment.shape = (0, 0)  # its operands are faulty: no echo about its shape
        return
    _check(state, stmt, acc, a, b)


def _operand(state: State, expr: ast.Expr, role: str) -> Operand | None:
    if is_fragment(state, expr):
        return _register_operand(state, expr, role)
    found = view(state, expr)
    if found is None:
        return None
    if found.storage != "shared":
        state.sink.error(
            "E-1115",
            expr.span,
            f"{role} is in {found.storage} memory",
            labels=[(found.root.span, "declared here")],
            notes=["an mma reads shared tiles"],
            hint="load it with `tma.load` or `dma.copy` first",
        )
        return None
    shape = found.static_shape
    if shape is None or len(shape) != 2:
        state.sink.error(
            "E-1112",
            expr.span,
            f"{role} has shape {shape_text(found.shape)}",
            notes=["an operand is a 2-D tile of constant extents"],
        )
        return None
    return Operand(expr.span, found.element, shape)


def _register_operand(state: State, expr: ast.Expr, role: str) -> Operand | None:
    use = fragment(state, expr)
    if use is None:
        return None
    if role == "B":
        state.sink.error(
            "E-1114",
            expr.span,
            "B is in registers",
            labels=[(use.fragment.span, "declared here")],
            notes=["only A may be a fragment: B comes from shared memory"],
        )
        return None
    shape = use.fragment.shape
    if shape is None or len(shape) != 2:
        state.sink.error(
            "E-1112",
            expr.span,
            f"the shape of `{use.fragment.name}` is not that of an operand",
            labels=[(use.fragment.span, "declared here")],
        )
        return None
    return Operand(expr.span, use.fragment.element, shape, use)


def _check(state: State, stmt: ast.Mma, acc: FragmentUse, a: Operand, b: Operand) -> None:
    m, k = a.shape if stmt.a_layout == "row" else (a.shape[1], a.shape[0])
    n, k_of_b = b.shape if stmt.b_layout == "row" else (b.shape[1], b.shape[0])
    _fix_accumulator(state, stmt, acc.fragment, m, n)
    if k != k_of_b:
        expected = f"[{n}, {k}]" if stmt.b_layout == "row" else f"[{k}, {n}]"
        state.sink.error(
            "E-1110",
            b.span,
            f"K is {k_of_b} here and {k} in A",
            labels=[(a.span, f"A is {shape_text(a.shape)}")],
            notes=[
                f"`{stmt.a_layout}.{stmt.b_layout}` takes B as {'[N, K]' if stmt.b_layout == 'row' else '[K, N]'}: "
                f"{expected} would fit"
            ],
        )
        return
    _check_product(state, stmt, acc, a, b, (m, n, k))


def _fix_accumulator(state: State, stmt: ast.Mma, acc: FragmentSymbol, m: int, n: int) -> None:
    if acc.shape is None:
        acc.shape, acc.shape_span = (m, n), stmt.span
    elif acc.shape != (m, n) and acc.shape != (0, 0):
        state.sink.error(
            "E-1111",
            stmt.acc.span,
            f"`{acc.name}` is {shape_text(acc.shape)}, the product is [{m}, {n}]",
            labels=[(acc.shape_span or acc.span, "its shape was fixed here")],
        )


def _check_product(
    state: State, stmt: ast.Mma, acc: FragmentUse, a: Operand, b: Operand, sizes: tuple[int, int, int]
) -> None:
    transposed = stmt.a_layout == "col", stmt.b_layout == "col"
    product = Product(*sizes, a.element, b.element, acc.fragment.element, a.use is not None, *transposed)
    spans = {"a": a.span, "b": b.span, "acc": stmt.acc.span}
    for fault in state.model.target.tensor_core.faults(product):
        labels = [(a.span, "A")] if fault.against == "a" else []
        labels += [(acc.fragment.span, "declared here")] if fault.at == "acc" else []
        notes = [fault.note] if fault.note else []
        state.sink.error(fault.code, spans[fault.at], fault.message, labels=labels, notes=notes, hint=fault.hint)


# --------------------------------------------------------------------------------------------------- load and store
def load(state: State, stmt: ast.MmaLoad) -> None:
    """A shared operand under another name: the tensor cores read it where it is."""
    found = view(state, stmt.source)
    if found is None:
        names.poison(state, stmt.name, stmt.name_span, stmt)
        return
    state.sink.warning(
        "W-1103",
        stmt.span,
        "`mma.load` loads nothing: a warpgroup mma reads shared tiles in place",
        hint="use the view itself as the operand",
    )
    asked = found.root.swizzle
    if stmt.swizzle is not None and asked is not None and asked != stmt.swizzle:
        labels = [(found.root.swizzle_span, "asked for here")] if found.root.swizzle_span else []
        state.sink.warning(
            "W-1101", stmt.span, f"a swizzle of {stmt.swizzle} bytes, the buffer has {asked}", labels=labels
        )
    names.declare(state, ViewSymbol(stmt.name, stmt.name_span, found), stmt)


def store(state: State, stmt: ast.MmaStore) -> None:
    use = fragment(state, stmt.acc)
    dest = view(state, stmt.dest)
    if use is None or dest is None:
        return
    symbol = use.fragment

    def check() -> None:
        shape = dest.static_shape
        if symbol.shape is None or symbol.shape == (0, 0):
            return
        if len(symbol.shape) != dest.rank or (shape is not None and shape != symbol.shape):
            state.sink.error(
                "E-1133",
                stmt.dest.span,
                f"`{symbol.name}` is {shape_text(symbol.shape)}, the destination {shape_text(dest.shape)}",
                labels=[(symbol.shape_span or symbol.span, "its shape was fixed here")],
            )

    state.deferred.append(check)
