"""`parallel` (section 7): kernels, counts, attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from croq.sema import names
from croq.sema.events import check_kernel_events
from croq.sema.expressions import constant_of, integer_of
from croq.sema.futures import close_scope
from croq.sema.levels import count_threads, settle
from croq.sema.model import FunctionModel, KernelModel, Level
from croq.sema.state import State
from croq.sema.symbolic import Dim
from croq.sema.symbols import ScalarSymbol
from croq.sema.types import bounded
from croq.syntax import ast

Walk = Callable[[State, tuple[ast.Stmt, ...]], None]


# ----------------------------------------------------------------------------------------------------------- kernels
def kernel(state: State, node: ast.Parallel, function: FunctionModel, name: str, walk: Walk) -> None:
    """Analyse a `parallel` at host level: one launch."""
    found = KernelModel(name, function, node, node.is_async)
    function.kernels.append(found)
    state.kernel, state.events, state.fragments, state.deferred = found, [], [], []
    settle(state, node)
    parallel(state, node, walk)
    for check in state.deferred:
        check()
    _check_shapes_known(state)
    check_kernel_events(state)
    found.threads = count_threads(state, node)
    _check_launch_bounds(state, node, found)
    state.kernel = None


def _check_shapes_known(state: State) -> None:
    for fragment in state.fragments:
        if fragment.shape is None:
            state.sink.error(
                "E-1118",
                fragment.span,
                f"the shape of the accumulator `{fragment.name}` is not known",
                notes=["the first mma that uses an accumulator gives it its shape, and there is none"],
                hint="declare it with its shape: `frag f32 [M, N] name {0.0f};`",
            )


def parallel(state: State, node: ast.Parallel, walk: Walk) -> None:
    """Analyse a `parallel` statement and its body."""
    if state.roles:
        state.sink.error(
            "E-734",
            node.span,
            "`parallel` inside `inthreads`",
            labels=[(state.roles[-1].condition.span, "inside this")],
            hint="open the inner level outside and select threads inside",
        )
    if node.is_async and state.on_device:
        state.sink.error(
            "E-707",
            node.span,
            "`.async` on an inner `parallel`",
            notes=["it says that the launch does not wait, so it belongs to the outermost one"],
        )
    if node.attributes and state.on_device:
        _misplaced(state, node)
    depth = len(state.levels)
    with state.enter("parallel") as scope:
        names.announce(scope, node.body.body)
        for binding in node.bindings:
            _binding(state, binding)
        walk(state, node.body.body)
        close_scope(state, scope)
    del state.levels[depth:]


def _binding(state: State, binding: ast.ParallelBinding) -> None:
    level = state.level_of[binding]
    counts = tuple(_count(state, bound, level) for bound in binding.bounds)
    if len(counts) > 3:
        state.sink.error("E-704", binding.span, f"{len(counts)} counts are given, CUDA has three dimensions")
    if binding.names and len(binding.names) != len(counts):
        state.sink.error(
            "E-703",
            binding.span,
            f"{len(binding.names)} names and {len(counts)} counts",
            hint="write one count for each name: `{x, y} by [m, n]`",
        )
    if binding.level == "group" and state.levels and state.levels[-1].level == "group-4":
        state.sink.error(
            "E-712", binding.span, "a `group` level inside `group-4`", hint="put `thread` directly inside `group-4`"
        )
    variables = []
    seen: set[str] = set()
    for name, count in zip(binding.names, counts, strict=False):
        if name.id in seen:
            state.sink.error("E-705", name.span, f"`{name.id}` is given twice")
            continue
        seen.add(name.id)
        variables.append(_variable(state, name, count, level))
    names.declare_group(state, binding.tuple_name, binding)
    found = Level(level, counts, tuple(variables))
    state.model.levels[binding] = found
    state.levels.append(found)


def _variable(state: State, name: ast.Name, count: Dim, level: ast.Level) -> ScalarSymbol:
    symbol = ScalarSymbol(
        name.id, name.span, bounded(state.unique(name.id), count), origin="parallel", level=level, direct=True
    )
    symbol.type = replace(symbol.type, varies=frozenset({symbol}))
    names.declare(state, symbol, name)
    return symbol


def _count(state: State, bound: ast.Expr, level: ast.Level) -> Dim:
    found = integer_of(state, bound, "E-702", "the count of a `parallel`")
    if found.is_error:
        return Dim.of(1)
    if found.known is not None and found.known <= 0:
        state.sink.error(
            "E-701", bound.span, f"the count of a `parallel` is {found.known}", hint="at least 1 is needed"
        )
        return Dim.of(1)
    if level != "block" and found.known is None:
        state.sink.error(
            "E-715",
            bound.span,
            f"the number of units of a `{level}` level must be a compile-time constant",
            notes=["it decides how many threads a CTA has"],
        )
        return Dim.of(1)
    if found.value is None:
        state.sink.error(
            "E-702",
            bound.span,
            "the count of a `parallel` must be computable on the host",
            notes=["only constants, dimensions and scalar parameters are known there"],
        )
        return Dim.of(1)
    return found.value


# -------------------------------------------------------------------------------------------------------- attributes
def _misplaced(state: State, node: ast.Parallel) -> None:
    for attribute in node.attributes:
        state.sink.error("E-720", attribute.span, f"`{attribute.name}` belongs to the outermost `parallel`")


def _check_launch_bounds(state: State, node: ast.Parallel, found: KernelModel) -> None:
    for attribute in node.attributes:
        if attribute.name != "launch_bounds":
            state.unsupported(attribute.span, f"the attribute `{attribute.name}`")
            continue
        if state.level_of[node.bindings[0]] != "block":
            state.sink.error("E-720", attribute.span, "`launch_bounds` needs a block-level `parallel`")
            continue
        _launch_bounds(state, attribute, found)


def _launch_bounds(state: State, attribute: ast.Attribute, found: KernelModel) -> None:
    if not 1 <= len(attribute.args) <= 3:
        state.sink.error("E-721", attribute.span, "`launch_bounds` takes one to three arguments")
        return
    values: list[int | None] = []
    for position, arg in enumerate(attribute.args):
        if position == 0 and isinstance(arg, ast.Wildcard):
            values.append(None)
            continue
        value = constant_of(state, arg, "E-721", "an argument of `launch_bounds`")
        if value is not None and value < 1:
            state.sink.error("E-721", arg.span, f"an argument of `launch_bounds` is {value}", hint="use at least 1")
        values.append(value)
    found.max_threads = values[0]
    found.min_blocks = values[1] if len(values) > 1 else None
    if found.max_threads is not None and found.max_threads < found.threads:
        state.sink.error(
            "E-722",
            attribute.args[0].span,
            f"at most {found.max_threads} threads, but the kernel has {found.threads}",
            hint="write `_` for the number of threads of the kernel",
        )
    if len(values) > 2 and values[2] not in (None, 1):
        state.unsupported(attribute.args[2].span, "a cluster of several CTAs")
