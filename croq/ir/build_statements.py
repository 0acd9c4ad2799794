"""Statements to tile operations: one function a statement, registered by node class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from croq.ir import scalar, tile
from croq.ir.build_async import mma, move, trigger, wait
from croq.ir.build_context import KernelBuilder
from croq.ir.build_expressions import advance, arithmetic, call, scalar_symbol, value
from croq.ir.build_views import element_indices, view, whole
from croq.ir.core import Block, Value
from croq.ir.objects import Buffer, Event, FragRef
from croq.sema.calls import SETREG
from croq.sema.model import Level
from croq.sema.statements import sync_level_of
from croq.sema.symbols import DataSymbol, EventSymbol, FragmentSymbol, PoisonSymbol, ScalarSymbol, Symbol, ViewSymbol
from croq.sema.types import Scalar, promote
from croq.source import Span
from croq.syntax import ast

MOST_COPIES = 32  # of a loop's body: as many warps as a CTA can have
Handler = Callable[[KernelBuilder, Any], None]


def statements(b: KernelBuilder, body: tuple[ast.Stmt, ...]) -> None:
    for stmt in body:
        with b.spanned(stmt.span):
            _HANDLERS[type(stmt)](b, stmt)


def block(b: KernelBuilder, node: ast.Block) -> Block:
    with b.region() as region:
        statements(b, node.body)
    return region


# -------------------------------------------------------------------------------------------------------- declarations
def _scalar_decl(b: KernelBuilder, stmt: ast.ScalarDecl) -> None:
    symbol = b.model.symbols[stmt]
    assert isinstance(symbol, ScalarSymbol)
    element = symbol.type.element
    made = value(b, stmt.init, element) if stmt.init is not None else b.ir.const(element, 0)
    _bind(b, symbol, made)


def _bind(b: KernelBuilder, symbol: ScalarSymbol, made: Value) -> None:
    if symbol.mutable:
        b.variable(symbol, made)
    else:
        b.values[symbol] = b.named(made, symbol.name, symbol.type)


def _buffer_decl(b: KernelBuilder, stmt: ast.BufferDecl) -> None:
    symbol = b.model.symbols[stmt]
    assert isinstance(symbol, DataSymbol) and symbol.storage != "global"
    buffer = Buffer(
        b.kernel.fresh(symbol.name),
        symbol.element,
        symbol.static_shape,
        symbol.slots or 1,
        symbol.storage,
        symbol.swizzle,
        symbol.slots is not None,
        span=symbol.span,
    )
    b.kernel.buffers.append(buffer)
    b.data[symbol] = buffer
    if stmt.init is not None:
        b.ir.add(tile.BufferFill(whole(buffer), value(b, stmt.init, symbol.element)))


def _frag_decl(b: KernelBuilder, stmt: ast.FragDecl) -> None:
    symbol = b.model.symbols[stmt]
    assert isinstance(symbol, FragmentSymbol)
    for frag in b.fragment(symbol):
        b.ir.add(scalar.FragDeclare(frag))
        if stmt.init is not None:
            b.ir.add(tile.FragFill(FragRef(frag), value(b, stmt.init, symbol.element)))


def _event_decl(b: KernelBuilder, stmt: ast.EventDecl) -> None:
    symbol = b.model.symbols[stmt]
    assert isinstance(symbol, EventSymbol)
    event = Event(b.kernel.fresh(symbol.name), symbol.slots, symbol.ready, symbol.array, span=symbol.span)
    b.kernel.events.append(event)
    b.events[symbol] = event


# --------------------------------------------------------------------------------------------------------- assignments
def _assign(b: KernelBuilder, stmt: ast.Assign) -> None:
    declared = b.model.symbols.get(stmt)
    if isinstance(stmt.target, ast.At):
        _store(b, stmt, stmt.target)
    elif isinstance(declared, ViewSymbol):
        b.places[declared] = view(b, stmt.value)
    elif isinstance(declared, ScalarSymbol):
        _bind(b, declared, value(b, stmt.value, declared.type.element))
    else:
        symbol = b.model.targets[stmt]
        assert isinstance(symbol, ScalarSymbol)
        b.ir.var_set(b.variables[symbol], _updated(b, stmt, symbol.type, lambda: scalar_symbol(b, symbol)))


def _updated(b: KernelBuilder, stmt: ast.Assign, target: Scalar, read: Callable[[], Value]) -> Value:
    """The new value for a target of type `target` of `x = e` or `x op= e`; `read` gives its old value."""
    if stmt.op == "=":
        return value(b, stmt.value, target.element)
    if stmt.op in ("<<=", ">>="):
        return arithmetic(b, stmt.op[:-1], read(), value(b, stmt.value))
    common = promote(Scalar(target.element), b.model.types[stmt.value])
    assert common is not None
    old = b.ir.cast(read(), common)
    return b.ir.cast(arithmetic(b, stmt.op[:-1], old, value(b, stmt.value, common)), target.element)


def _store(b: KernelBuilder, stmt: ast.Assign, target: ast.At) -> None:
    indices = element_indices(b, target)
    known = b.model.types[target]
    if target.base in b.model.fragments:
        ref = b.frag_ref(target.base)

        def read_fragment() -> Value:
            old = Value(known.element)
            b.ir.add(scalar.FragRead(ref, indices, old))
            return old

        b.ir.add(scalar.FragWrite(ref, indices, _updated(b, stmt, known, read_fragment)))
        return
    place = view(b, target.base)

    def read_element() -> Value:
        old = Value(known.element)
        b.ir.add(scalar.LoadElement(place, indices, old))
        return old

    b.ir.add(scalar.StoreElement(place, indices, _updated(b, stmt, known, read_element)))


def _expression(b: KernelBuilder, stmt: ast.ExprStmt) -> None:
    if isinstance(stmt.value, ast.DeviceCall):
        _call_statement(b, stmt.value)
    elif isinstance(stmt.value, ast.IncDec):
        advance(b, stmt.value, value(b, stmt.value.target))
    else:
        value(b, stmt.value)


def _call_statement(b: KernelBuilder, expr: ast.DeviceCall) -> None:
    if expr.name not in SETREG:
        call(b, expr, None)
        return
    count = b.model.types[expr.args[0]].known
    assert count is not None
    b.ir.add(tile.SetReg("inc" if SETREG[expr.name] == "inc" else "dec", count))


# -------------------------------------------------------------------------------------------------------- control flow
def _if(b: KernelBuilder, stmt: ast.If) -> None:
    condition = value(b, stmt.condition, "bool")
    otherwise = block(b, stmt.otherwise) if stmt.otherwise is not None else None
    b.ir.add(scalar.If(condition, block(b, stmt.then), otherwise))


def _while(b: KernelBuilder, stmt: ast.While) -> None:
    with b.region() as head:
        condition = value(b, stmt.condition, "bool")
    b.ir.add(scalar.While(head, condition, block(b, stmt.body)))


Loop = tuple[ScalarSymbol, Value]


def _foreach(b: KernelBuilder, stmt: ast.Foreach) -> None:
    loops: list[Loop] = []
    for within in stmt.iterators:
        if within.ranges:
            loops += zip(_symbols(b, within.names), _counts(b, within), strict=True)
        else:
            loops += [(b.model.loops[name], b.counts[b.model.symbols[name]]) for name in within.names]
    _nest(b, stmt, loops)


def _symbols(b: KernelBuilder, names: tuple[ast.Name, ...]) -> list[ScalarSymbol]:
    found = [b.model.symbols[name] for name in names]
    return [symbol for symbol in found if isinstance(symbol, ScalarSymbol)]


def _counts(b: KernelBuilder, within: ast.Within) -> list[Value]:
    """The trip counts, evaluated once, outermost first, of the types of their variables."""
    counts, elements = b.model.ranges[within], [symbol.type.element for symbol in _symbols(b, within.names)]
    if len(within.ranges) == len(counts) and not isinstance(within.ranges[0], ast.SpanOf):
        return [_count(b, expr, element) for expr, element in zip(within.ranges, elements, strict=True)]
    return [b.dim(count.value, element) for count, element in zip(counts, elements, strict=True) if count.value]


def _count(b: KernelBuilder, expr: ast.Expr, element: str) -> Value:
    """A u64 beyond the range of an s64 would never be reached: the largest s64 stands for it."""
    if b.model.types[expr].element == "u64" and b.model.types[expr].known is None:
        return b.ir.cast(b.ir.binary("min", value(b, expr), 2**63 - 1), element)
    return value(b, expr, element)


def _nest(b: KernelBuilder, stmt: ast.Foreach, loops: list[Loop]) -> None:
    if not loops:
        statements(b, stmt.body.body)
        return
    symbol, count = loops[0]
    turns = _written_out(stmt, count)
    if turns:
        for turn in range(turns):
            b.values[symbol] = b.ir.const(symbol.type.element, turn)
            _nest(b, stmt, loops[1:])
        return
    iv = Value(symbol.type.element, symbol.name, symbol.type.interval.half_open)
    b.values[symbol] = iv
    with b.region() as body:
        _nest(b, stmt, loops[1:])
    b.ir.add(scalar.For(iv, count, body))


def _written_out(stmt: ast.Foreach, count: Value) -> int:
    """How many copies of the body stand for the loop, 0 where it stays one. A loop of constant count over nothing but
    `inthreads.async` is written out: each copy then is a role of threads that are known, and those of different threads
    do not take turns."""
    roles = bool(stmt.body.body) and all(
        isinstance(inner, ast.InThreads) and inner.is_async for inner in stmt.body.body
    )
    known = int(count.op.value) if roles and isinstance(count.op, scalar.Const) else 0
    return known if known <= MOST_COPIES else 0


def _with(b: KernelBuilder, stmt: ast.With) -> None:
    for within in stmt.iterators:
        for symbol, count in zip(_symbols(b, within.names), _counts(b, within), strict=True):
            b.counts[symbol] = count
            b.values[symbol] = b.ir.const(symbol.type.element, 0, symbol.name)
    statements(b, stmt.body.body)


def _break(b: KernelBuilder, stmt: ast.Break) -> None:
    b.ir.add(scalar.Break())


def _continue(b: KernelBuilder, stmt: ast.Continue) -> None:
    b.ir.add(scalar.Continue())


# ------------------------------------------------------------------------------------------------------------ parallel
def parallel(b: KernelBuilder, stmt: ast.Parallel) -> None:
    """A `parallel` with its body; the block level adds no operation but its variables."""
    with b.spanned(stmt.span):
        _bindings(b, stmt, stmt.bindings)


def _bindings(b: KernelBuilder, stmt: ast.Parallel, bindings: tuple[ast.ParallelBinding, ...]) -> None:
    if not bindings:
        statements(b, stmt.body.body)
        return
    binding, level = bindings[0], b.model.levels[bindings[0]]
    b.levels.append(level)
    with b.spanned(binding.span):
        if level.level == "block":
            _block_variables(b, level)
            _bindings(b, stmt, bindings[1:])
        else:
            with b.region() as body:
                _unit_variables(b, level)
                _bindings(b, stmt, bindings[1:])
            b.ir.add(tile.Scope(level.level, body))
    b.levels.pop()


def _block_variables(b: KernelBuilder, level: Level) -> None:
    for axis, symbol in enumerate(level.variables):
        made = Value("s32", symbol.name, symbol.type.interval.half_open)
        b.ir.add(scalar.BlockIndex(axis, made))
        b.values[symbol] = made


def _unit_variables(b: KernelBuilder, level: Level) -> None:
    """`p = thread_index / unit % count`, where the remainder is not needed for the outermost level."""
    if not level.variables:
        return
    b.ir.span = level.variables[0].span
    units = level.total
    linear = b.ir.thread_index(b.kernel.threads)
    if level.unit > 1:
        linear = b.ir.binary("div", linear, level.unit)
    if level.unit * units < b.kernel.threads:
        linear = b.ir.binary("mod", linear, units)
    for axis, symbol in enumerate(level.variables):
        b.ir.span = symbol.span
        count = level.counts[axis].known or 1
        last = axis + 1 == len(level.counts)
        made = linear if last else b.ir.binary("mod", linear, count)
        b.values[symbol] = b.named(made, symbol.name, symbol.type)
        if not last:
            linear = b.ir.binary("div", linear, count)


def _inthreads(b: KernelBuilder, stmt: ast.InThreads) -> None:
    condition = value(b, stmt.condition, "bool")
    b.ir.add(tile.Role(_label(stmt.span), condition, stmt.is_async, block(b, stmt.body)))


def _label(span: Span) -> str:
    """The condition as the source has it: what stands between the first `(` and its match."""
    text = span.text
    start = text.find("(")
    depth = 0
    for position in range(max(start, 0), len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return " ".join(text[start + 1 : position].split())
    return ""


# ----------------------------------------------------------------------------------------------------------- fragments
def _fill(b: KernelBuilder, stmt: ast.MmaFill) -> None:
    declared: Symbol = b.model.symbols.get(stmt) or b.model.targets[stmt]
    assert isinstance(declared, FragmentSymbol)
    frag = b.fragment(declared)[0]
    if stmt in b.model.symbols:
        b.ir.add(scalar.FragDeclare(frag))
    b.ir.add(tile.FragFill(FragRef(frag), value(b, stmt.value, declared.element)))


def _apply(b: KernelBuilder, stmt: ast.Apply) -> None:
    domain = b.frag_ref(stmt.frag)
    iterators = []
    for axis, symbol in enumerate(_symbols(b, stmt.iterators)):
        extent = domain.frag.shape[axis] if domain.frag.shape is not None else None
        iterators.append(Value("s32", symbol.name, None if extent is None else (0, extent)))
        b.values[symbol] = iterators[-1]
    b.ir.add(tile.FragMap(domain, tuple(iterators), block(b, stmt.body)))


def _copy(b: KernelBuilder, stmt: ast.FragCopy) -> None:
    b.ir.add(tile.FragCopy(b.frag_ref(stmt.dest), b.frag_ref(stmt.source)))


def _reduce(b: KernelBuilder, stmt: ast.FragReduce) -> None:
    b.ir.add(tile.FragReduce(stmt.kind, b.frag_ref(stmt.dest), b.frag_ref(stmt.source)))


def _all_reduce(b: KernelBuilder, stmt: ast.FragAllReduce) -> None:
    b.ir.add(tile.FragAllReduce(stmt.kind, b.frag_ref(stmt.frag)))


def _mma_load(b: KernelBuilder, stmt: ast.MmaLoad) -> None:
    symbol = b.model.symbols[stmt]
    assert not isinstance(symbol, PoisonSymbol)
    b.places[symbol] = view(b, stmt.source)


def _mma_store(b: KernelBuilder, stmt: ast.MmaStore) -> None:
    b.ir.add(tile.FragStore(b.frag_ref(stmt.acc), view(b, stmt.dest)))


# --------------------------------------------------------------------------------------------------------------- other
def _sync(b: KernelBuilder, stmt: ast.Sync) -> None:
    b.ir.add(tile.Sync(sync_level_of(stmt, b.levels)))


def _cpp(b: KernelBuilder, stmt: ast.CppText) -> None:
    b.ir.add(scalar.Cpp(stmt.text))


_HANDLERS: dict[type[ast.Stmt], Handler] = {
    ast.ScalarDecl: _scalar_decl,
    ast.BufferDecl: _buffer_decl,
    ast.FragDecl: _frag_decl,
    ast.EventDecl: _event_decl,
    ast.Assign: _assign,
    ast.ExprStmt: _expression,
    ast.Move: move,
    ast.MmaFill: _fill,
    ast.MmaLoad: _mma_load,
    ast.Mma: mma,
    ast.MmaStore: _mma_store,
    ast.FragCopy: _copy,
    ast.FragReduce: _reduce,
    ast.FragAllReduce: _all_reduce,
    ast.Apply: _apply,
    ast.Wait: wait,
    ast.Trigger: trigger,
    ast.If: _if,
    ast.While: _while,
    ast.Foreach: _foreach,
    ast.With: _with,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Parallel: parallel,
    ast.InThreads: _inthreads,
    ast.Sync: _sync,
    ast.CppText: _cpp,
}
