"""Fragments and elements in expressions: `x.at(i, j)`, `x.span`, and data where a scalar is needed."""

from __future__ import annotations

from croq.sema import names
from croq.sema.expressions import handles, integer_of, scalar
from croq.sema.model import FragmentUse
from croq.sema.state import State
from croq.sema.symbolic import Dim
from croq.sema.symbols import (
    DataSymbol,
    EventSymbol,
    FragmentSymbol,
    PoisonSymbol,
    ScalarSymbol,
)
from croq.sema.types import ERROR, Scalar, from_dim, shape_text
from croq.sema.views import denotes_data, outside, range_text, slot_index, view
from croq.syntax import ast


# ------------------------------------------------------------------------------------------------------- fragments
def fragment(state: State, expr: ast.Expr) -> FragmentUse | None:
    """The fragment that `expr` names, recorded in the model; reports and gives None when it names none."""
    base = expr.base if isinstance(expr, ast.Subscript) else expr
    if not isinstance(base, ast.Name):
        state.sink.error("E-1157", expr.span, "a fragment is needed here")
        return None
    symbol = names.use(state, base)
    if symbol is None or isinstance(symbol, PoisonSymbol):
        return None
    if not isinstance(symbol, FragmentSymbol):
        state.sink.error(
            "E-1157",
            expr.span,
            f"a fragment is needed here, `{symbol.name}` is {symbol.WORD}",
            labels=[(symbol.span, "declared here")],
        )
        return None
    found = _fragment_slot(state, expr, symbol)
    if found is not None:
        state.model.fragments[expr] = found
    return found


def _fragment_slot(state: State, expr: ast.Expr, symbol: FragmentSymbol) -> FragmentUse | None:
    subscript = expr if isinstance(expr, ast.Subscript) else None
    if (subscript is None) != (symbol.slots is None):
        what = "is an array of fragments: say which one" if subscript is None else "is not an array of fragments"
        state.sink.error("E-408", expr.span, f"`{symbol.name}` {what}", labels=[(symbol.span, "declared here")])
        return None
    if subscript is None or symbol.slots is None:
        return FragmentUse(symbol)
    index = slot_index(state, subscript, symbol.slots, symbol)
    if index is None:
        return None
    if index.known is None:
        state.unsupported(
            subscript.span,
            "an array of fragments with a subscript that is no constant",
            "registers have no addresses: use constant subscripts",
        )
        return None
    return FragmentUse(symbol, index.known)


def is_fragment(state: State, expr: ast.Expr) -> bool:
    base = expr.base if isinstance(expr, ast.Subscript) else expr
    return isinstance(base, ast.Name) and isinstance(names.find(state, base.id), FragmentSymbol)


# -------------------------------------------------------------------------------------------------- element access
@handles(ast.At)
def _at(state: State, expr: ast.At) -> Scalar:
    """`x.at(i, j)` as a value."""
    found = element(state, expr)
    if found is None:
        return ERROR
    if not state.on_device:
        state.sink.error(
            "E-321", expr.span, "an element is read outside `parallel`", hint="read it in the kernel, or pass a scalar"
        )
        return ERROR
    varies = frozenset[ScalarSymbol]()
    for index in state.model.indices[expr]:
        varies |= state.model.types[index].varies
    base = state.model.views.get(expr.base)
    if base is not None:
        varies |= base.varies
    return Scalar(found, varies=varies)


def element(state: State, expr: ast.At) -> str | None:
    """Check an element access (read or written) and give the element's type."""
    indices = names.expanded(state, expr.indices)
    state.model.indices[expr] = indices
    if is_fragment(state, expr.base):
        return _fragment_element(state, expr, indices)
    if isinstance(expr.base, (ast.Name, ast.Subscript)):
        base = expr.base.base if isinstance(expr.base, ast.Subscript) else expr.base
        if isinstance(base, ast.Name) and isinstance(names.find(state, base.id), EventSymbol):
            state.sink.error(
                "E-411",
                expr.span,
                "a generation of an event is not a value",
                hint="it stands only in `wait` and `trigger`",
            )
            return None
    found = view(state, expr.base)
    if found is None:
        for index in indices:
            scalar(state, index)
        return None
    if len(indices) != found.rank:
        state.sink.error(
            "E-406",
            expr.span,
            f"{len(indices)} indices are given for data of rank {found.rank}",
            notes=[f"its shape is {shape_text(found.shape)}"],
        )
        return None
    for index, extent in zip(indices, found.shape, strict=True):
        _element_index(state, index, extent)
    return found.element


def _element_index(state: State, expr: ast.Expr, extent: Dim) -> None:
    index = integer_of(state, expr, "E-406", "an index")
    limit = extent.known
    negative = index.interval.hi is not None and index.interval.hi < 0
    if index.is_error or (limit is None and not negative):
        return
    if negative or (limit is not None and outside(index.interval, limit)):
        state.sink.error(
            "E-407",
            expr.span,
            f"the index {range_text(index.interval)} is out of range",
            notes=[f"the dimension has {extent} elements"],
        )


def _fragment_element(state: State, expr: ast.At, given: tuple[ast.Expr, ...]) -> str | None:
    use = fragment(state, expr.base)
    indices = [integer_of(state, index, "E-406", "an index") for index in given]
    if use is None or any(index.is_error for index in indices):
        return None
    symbol = use.fragment
    if state.apply is None:
        state.sink.error(
            "E-1152",
            expr.span,
            f"an element of the fragment `{symbol.name}` outside `apply`",
            notes=["the elements of a fragment are spread over threads; `apply` visits each one in its owner"],
            hint=f"write `apply {{i, j}} in {symbol.name}.span ...`",
        )
        return None
    _check_iterators(state, expr, given, symbol)
    rank = len(given)

    def check() -> None:
        if symbol.shape is not None and len(symbol.shape) != rank:
            state.sink.error(
                "E-406",
                expr.span,
                f"{rank} indices are given for a fragment of rank {len(symbol.shape)}",
                labels=[(symbol.span, f"its shape is {shape_text(symbol.shape)}")],
            )

    state.deferred.append(check)
    return symbol.element


def _check_iterators(state: State, expr: ast.At, indices: tuple[ast.Expr, ...], symbol: FragmentSymbol) -> None:
    """Indices of a fragment are the iterators of the apply, in order: only then is the access inside the thread."""
    assert state.apply is not None
    iterators = state.apply.iterators
    given = [state.model.symbols.get(index) if isinstance(index, ast.Name) else None for index in indices]
    if given == list(iterators[: len(given)]):
        return
    wanted = ", ".join(i.name for i in iterators)
    state.sink.error(
        "E-1152",
        expr.span,
        f"an element of the fragment `{symbol.name}` that another thread may own",
        notes=["inside `apply` fragments are indexed by the iterators themselves, in order"],
        hint=f"write `.at({wanted})`" + (f" or `.at({iterators[0].name})`" if len(iterators) > 1 else ""),
    )


# ---------------------------------------------------------------------------------------------------------- shapes
def shape(state: State, expr: ast.Expr) -> tuple[Dim, ...] | None:
    """The shape of `x.span`, of data, a fragment or a data future."""
    base = expr.base if isinstance(expr, ast.SpanOf) else expr
    if is_fragment(state, base):
        use = fragment(state, base)
        if use is None:
            return None
        if use.fragment.shape is None:
            state.sink.error(
                "E-1118",
                expr.span,
                f"the shape of `{use.fragment.name}` is not known yet",
                labels=[(use.fragment.span, "its shape comes from the first mma that uses it")],
            )
            return None
        return tuple(Dim.of(d) for d in use.fragment.shape)
    symbol = _array_of(state, base)
    if symbol is not None:
        return symbol.shape
    found = view(state, base)
    return found.shape if found is not None else None


def _array_of(state: State, base: ast.Expr) -> DataSymbol | None:
    """An array of buffers named without subscript: all its tiles have one shape."""
    if not isinstance(base, ast.Name):
        return None
    symbol = names.find(state, base.id)
    if isinstance(symbol, DataSymbol) and symbol.slots is not None:
        state.model.symbols[base] = symbol
        return symbol
    return None


@handles(ast.SpanOf)
def _span_of(state: State, expr: ast.SpanOf) -> Scalar:
    found = shape(state, expr)
    if expr.axis is None:
        state.sink.error("E-411", expr.span, "a shape is not a scalar", hint="write `.span(k)` for one dimension")
        return ERROR
    axis = integer_of(state, expr.axis, "E-409", "the dimension")
    if found is None or axis.is_error:
        return ERROR
    if axis.known is None or not 0 <= axis.known < len(found):
        what = "is not a constant" if axis.known is None else "does not exist"
        state.sink.error("E-409", expr.axis.span, f"the dimension {what}", notes=[f"the shape is {shape_text(found)}"])
        return ERROR
    return from_dim(found[axis.known])


@handles(ast.CountOf)
def _count_of(state: State, expr: ast.CountOf) -> Scalar:
    found = shape(state, expr.shape)
    if found is None:
        return ERROR
    total = Dim.of(1)
    for extent in found:
        total = total * extent
    return from_dim(total)


@handles(ast.Subscript, ast.DataOf, ast.ChunkAt, ast.Subspan, ast.Squeeze)
def _data_as_value(state: State, expr: ast.Expr) -> Scalar:
    if isinstance(expr, ast.Subscript) and not denotes_data(state, expr) and isinstance(expr.base, ast.Name):
        symbol = names.use(state, expr.base)
        if symbol is not None and not isinstance(symbol, PoisonSymbol):
            state.sink.error(
                "E-411",
                expr.span,
                f"`{symbol.name}` is {symbol.WORD}, not a value",
                labels=[(symbol.span, "declared here")],
            )
        return ERROR
    if view(state, expr) is not None:
        state.sink.error("E-411", expr.span, "data is not a value", hint="read an element with `.at(...)`")
    return ERROR
