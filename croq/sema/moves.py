"""`dma` and `tma` moves (section 8)."""

from __future__ import annotations

from croq.sema import names
from croq.sema.state import State
from croq.sema.symbols import DataSymbol, FutureKind, FutureSymbol, ScalarSymbol
from croq.sema.types import BYTES, View, shape_text
from croq.sema.views import view, whole
from croq.syntax import ast
from croq.target.cuda import TMA_INNER_MULTIPLE, TMA_MAX_RANK, TMA_SWIZZLES


def move(state: State, stmt: ast.Move) -> None:
    _check_form(state, stmt)
    source = view(state, stmt.source)
    dest = _destination(state, stmt, source)
    if source is None or dest is None:
        if stmt.name is not None and stmt.name_span is not None:
            names.poison(state, stmt.name, stmt.name_span, stmt)
        return
    _check_shapes(state, stmt, source, dest)
    kind = _direction(state, stmt, source, dest)
    if stmt.engine == "tma":
        _check_tma(state, stmt, source, dest)
    else:
        _warn_thread_variable(state, stmt, source, dest)
    _request_swizzle(state, stmt, dest if kind != "tma store" else source)
    if stmt.name is not None and stmt.name_span is not None:
        future = FutureSymbol(stmt.name, stmt.name_span, kind, stmt.is_async, state.scope, dest)
        names.declare(state, future, stmt)


def _check_form(state: State, stmt: ast.Move) -> None:
    if stmt.is_async and stmt.name is None:
        state.sink.error(
            "E-813",
            stmt.span,
            "an asynchronous move without a name",
            notes=["nothing could wait for it"],
            hint=f"write `f = {stmt.engine}.{stmt.op}.async ...`",
        )
    if not state.on_device:
        state.sink.error("E-816", stmt.span, "a move outside `parallel`")


# ------------------------------------------------------------------------------------------------------ destinations
def _destination(state: State, stmt: ast.Move, source: View | None) -> View | None:
    if isinstance(stmt.dest, ast.Expr):
        return view(state, stmt.dest)
    if stmt.dest == "global":
        state.sink.error("E-320", stmt.span, "a kernel cannot make global data", hint="move to a parameter")
        return None
    if stmt.dest == "local":
        state.unsupported(stmt.span, "a move to a local buffer", "move to `shared`")
        return None
    if source is None:
        return None
    return _made_buffer(state, stmt, source)


def _made_buffer(state: State, stmt: ast.Move, source: View) -> View | None:
    """The buffer of `=> shared`: one a statement, or one a warpgroup (warp) where the source depends on which it is."""
    for extent in source.shape:
        if extent.known is None:
            state.sink.error(
                "E-120",
                stmt.source.span,
                f"a shared buffer of shape {shape_text(source.shape)}",
                notes=["shared data needs constant extents"],
                hint="cut a tile of constant size: `.subspan(M, N)`",
            )
            return None
    name = stmt.name or f"{source.root.name}_tile"
    span = stmt.name_span or stmt.span
    unit = _unit_variable(state, source)
    slots = None
    if unit is not None and unit.type.bound is not None:
        slots = _units(state, unit)
        if slots == 1:
            unit = slots = None
    buffer = DataSymbol(name, span, source.element, source.shape, "shared", slots=slots, per_unit=unit)
    state.model.buffers[stmt] = buffer
    return whole(buffer)


def _unit_variable(state: State, source: View) -> ScalarSymbol | None:
    """The variable of the innermost warpgroup or warp level that the tile depends on."""
    found = [v for v in source.varies if v.level in ("group-4", "group")]
    for level in reversed(state.levels):
        for variable in level.variables:
            if variable in found:
                return variable
    return None


def _units(state: State, unit: ScalarSymbol) -> int:
    """Units of the level of `unit` in a CTA."""
    total = 1
    for level in state.levels:
        if level.level != "block":
            total *= level.total
        if unit in level.variables:
            break
    return total


# ------------------------------------------------------------------------------------------------------------- rules
def _check_shapes(state: State, stmt: ast.Move, source: View, dest: View) -> None:
    span = stmt.dest.span if isinstance(stmt.dest, ast.Expr) else stmt.span
    label = [(stmt.source.span, f"the source is `{source.element}` {shape_text(source.shape)}")]
    if source.element != dest.element:
        state.sink.error(
            "E-810",
            span,
            f"a move from `{source.element}` to `{dest.element}`",
            labels=label,
            notes=["moves copy, they do not convert"],
        )
    elif source.rank != dest.rank:
        state.sink.error(
            "E-811",
            span,
            f"a move from rank {source.rank} to rank {dest.rank}",
            labels=label,
            hint="drop dimensions of extent 1 with `.sqz()`",
        )
    elif any(a.equals(b) is False for a, b in zip(source.shape, dest.shape, strict=True)):
        state.sink.error(
            "E-812", span, f"a move from shape {shape_text(source.shape)} to {shape_text(dest.shape)}", labels=label
        )


def _direction(state: State, stmt: ast.Move, source: View, dest: View) -> FutureKind:
    way = f"{source.storage} to {dest.storage}"
    if stmt.engine == "tma":
        if way not in ("global to shared", "shared to global"):
            state.sink.error(
                "E-820",
                stmt.span,
                f"a `tma` move from {way}",
                notes=["the copy engine moves between global and shared memory"],
            )
        elif stmt.op == "load" and way != "global to shared":
            state.sink.error("E-821", stmt.span, f"`tma.load` from {way}", hint="write `tma.copy`")
        return "tma store" if dest.storage == "global" else "tma load"
    if stmt.is_async and way != "global to shared":
        state.sink.error(
            "E-822",
            stmt.span,
            f"an asynchronous `dma` move from {way}",
            notes=["only global to shared can be asynchronous"],
            hint="drop `.async`",
        )
    elif way == "global to global":
        state.sink.error("E-823", stmt.span, "a `dma` move from global to global", hint="go through a shared tile")
    return "dma"


def _check_tma(state: State, stmt: ast.Move, source: View, dest: View) -> None:
    memory, expr = (source, stmt.source) if source.storage == "global" else (dest, stmt.dest)
    span = expr.span if isinstance(expr, ast.Expr) else stmt.span
    inner = memory.shape[-1].known if memory.shape else 1
    size = BYTES.get(memory.element, 1)
    if inner is not None and inner * size % TMA_INNER_MULTIPLE:
        state.sink.error(
            "E-831",
            span,
            f"rows of {inner * size} bytes cannot be moved by the copy engine",
            notes=[f"its innermost extent is a multiple of {TMA_INNER_MULTIPLE} bytes"],
            hint="use `dma.copy`",
        )
    if memory.axes and not memory.axes[-1].kept and memory.rank:
        state.sink.error(
            "E-831", span, "the innermost dimension of the tensor is not a dimension of the tile", hint="use `dma.copy`"
        )
    if len(memory.axes) > TMA_MAX_RANK:
        state.sink.error("E-831", span, f"a tensor of rank {len(memory.axes)}, the copy engine takes {TMA_MAX_RANK}")
    _check_coordinates(state, span_owner=expr, memory=memory)


def _check_coordinates(state: State, span_owner: object, memory: View) -> None:
    """One thread issues for all: coordinates may not differ between them (8.4)."""
    span = span_owner.span if isinstance(span_owner, ast.Expr) else memory.root.span
    thread = next((v for v in memory.varies if v.level == "thread"), None)
    if thread is not None:
        state.sink.error(
            "E-832",
            span,
            f"the tile depends on `{thread.name}`, which differs between threads",
            labels=[(thread.span, "declared here")],
            notes=["one thread issues the copy for all"],
        )
        return
    if state.roles:
        return
    for axis in memory.axes:
        for term in axis.terms:
            symbol = state.model.symbols.get(term.index) if isinstance(term.index, ast.Name) else None
            if isinstance(symbol, ScalarSymbol) and symbol.direct and symbol.level != "block":
                state.sink.error(
                    "E-832",
                    term.index.span,
                    f"`{symbol.name}` differs between the units that execute this",
                    labels=[(symbol.span, "declared here")],
                    hint="put the move into an `inthreads`",
                )


def _warn_thread_variable(state: State, stmt: ast.Move, source: View, dest: View) -> None:
    thread = next((v for v in source.varies | dest.varies if v.level == "thread"), None)
    if thread is not None:
        state.sink.warning(
            "W-801",
            stmt.span,
            f"a cooperative copy whose tile depends on the thread variable `{thread.name}`",
            labels=[(thread.span, "declared here")],
            notes=["all threads of the unit copy one tile together"],
        )


def _request_swizzle(state: State, stmt: ast.Move, shared: View) -> None:
    buffer = shared.root
    if stmt.swizzle not in TMA_SWIZZLES or buffer.storage != "shared":
        return
    row = (buffer.shape[-1].known or 0) * BYTES.get(buffer.element, 1) if buffer.shape else 0
    if row % stmt.swizzle:
        state.sink.error(
            "E-805",
            stmt.span,
            f"a swizzle of {stmt.swizzle} bytes on rows of {row} bytes",
            labels=[(buffer.span, "the shared tile")],
            notes=["a row must be a multiple of the swizzle's width"],
        )
    elif buffer.swizzle is not None and buffer.swizzle != stmt.swizzle and buffer.swizzle_span is not None:
        state.sink.error(
            "E-806",
            stmt.span,
            f"a swizzle of {stmt.swizzle} bytes, an earlier move asked for {buffer.swizzle}",
            labels=[(buffer.swizzle_span, "the earlier move")],
            notes=["a buffer has one layout"],
        )
    else:
        buffer.swizzle, buffer.swizzle_span = stmt.swizzle, stmt.span
