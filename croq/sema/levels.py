"""Levels of `parallel` (7.2): which level each one has, and how many threads that makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from croq.sema.state import State
from croq.sema.symbolic import Dim
from croq.syntax import ast
from croq.target.cuda import MAX_THREADS, UNITS

ORDER: tuple[ast.Level, ...] = ("block", "group-4", "group", "thread")


# ------------------------------------------------------------------------------------------------- settling levels
def nested(node: ast.Node) -> Iterator[ast.Parallel]:
    """The `parallel` statements directly inside `node`: not those inside other ones."""
    for f in fields(node):
        item = getattr(node, f.name)
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, ast.Parallel):
                yield part
            elif isinstance(part, (ast.Stmt, ast.Block)):
                yield from nested(part)


def settle(state: State, root: ast.Parallel) -> None:
    """Give every binding of a kernel its level, from what is annotated and how the `parallel`s nest (7.2)."""
    _settle(state, root, None, any_annotated(root))


def any_annotated(node: ast.Parallel) -> bool:
    return any(b.level for b in node.bindings) or any(any_annotated(inner) for inner in nested(node.body))


def _depth(node: ast.Parallel) -> int:
    return len(node.bindings) + max((_depth(inner) for inner in nested(node.body)), default=0)


def _settle(state: State, node: ast.Parallel, above: ast.Level | None, annotated: bool) -> None:
    below = max((_depth(inner) for inner in nested(node.body)), default=0)
    for position, binding in enumerate(node.bindings):
        remaining = len(node.bindings) - position + below
        level = binding.level or _inferred(state, binding, above, remaining, annotated, node, position)
        if above is not None and ORDER.index(level) <= ORDER.index(above):
            state.sink.error(
                "E-710",
                binding.span,
                f"a `{level}` level inside a `{above}` level",
                notes=["levels nest as block, group-4, group, thread"],
            )
        state.level_of[binding] = level
        above = level
    for inner in nested(node.body):
        _settle(state, inner, above, annotated)


def _inferred(
    state: State,
    binding: ast.ParallelBinding,
    above: ast.Level | None,
    remaining: int,
    annotated: bool,
    node: ast.Parallel,
    position: int,
) -> ast.Level:
    """The level of a binding without annotation; `remaining` levels are left from this one inwards."""
    if annotated:
        state.sink.warning(
            "W-701",
            binding.span,
            "the level of this `parallel` is not written while others are",
            hint="write `: block`, `: group-4`, `: group` or `: thread`",
        )
        return _between(above, _next_annotated(node, position))
    return _by_depth(state, binding, above, remaining)


def _next_annotated(node: ast.Parallel, position: int) -> ast.Level | None:
    for binding in node.bindings[position + 1 :]:
        if binding.level:
            return binding.level
    for inner in nested(node.body):
        found = _next_annotated(inner, -1)
        if found:
            return found
    return None


def _between(above: ast.Level | None, below: ast.Level | None) -> ast.Level:
    if above is None:
        return "block" if below is not None else "thread"
    if below is None:
        return "thread"
    choices = ORDER[ORDER.index(above) + 1 : ORDER.index(below)]
    return choices[-1] if choices else below


def _by_depth(state: State, binding: ast.ParallelBinding, above: ast.Level | None, remaining: int) -> ast.Level:
    if remaining > len(ORDER):
        state.sink.error("E-710", binding.span, f"{remaining} nested levels, the target has {len(ORDER)}")
        return "thread"
    if above is not None:
        return _INNER[min(remaining, 3)]
    return "thread" if remaining == 1 else "block"


# of a level inside another one, by the number of levels from it inwards
_INNER: dict[int, ast.Level] = {1: "thread", 2: "group", 3: "group-4"}


# ------------------------------------------------------------------------------------------------- counts of threads
def count_threads(state: State, root: ast.Parallel) -> int:
    """Number of threads of the CTA; fills in `unit` of every level."""
    block = [b for b in root.bindings if state.level_of[b] == "block"]
    assert state.kernel is not None
    for binding in block[:1]:
        counts = state.model.levels[binding].counts
        state.kernel.grid = tuple([*counts, Dim.of(1), Dim.of(1), Dim.of(1)][:3])  # type: ignore[assignment]
        state.kernel.grid_rank = len(counts)
    threads = _threads(state, root, 0)
    for binding in block[:1]:
        state.model.levels[binding].unit = threads
    return threads


def _threads(state: State, node: ast.Parallel, position: int) -> int:
    """Threads in all units of binding `position` of `node` together (for `block`: in one CTA)."""
    if position == len(node.bindings):
        return _inside(state, node)
    binding = node.bindings[position]
    level = state.model.levels[binding]
    inner = _threads(state, node, position + 1)
    if level.level == "block":
        return inner
    size = UNITS[level.level]
    if inner == 0 or level.level == "thread":
        inner = size
    if inner % size:
        state.sink.error(
            "E-711",
            binding.span,
            f"a unit of level `{level.level}` has {inner} threads",
            notes=[f"it must be a multiple of {size}"],
            hint="change the number of threads inside",
        )
    level.unit = inner
    total = level.total * inner
    if inner <= MAX_THREADS < total:
        state.sink.error("E-713", binding.span, f"{total} threads a CTA, the hardware takes {MAX_THREADS}")
    return total


def _inside(state: State, node: ast.Parallel) -> int:
    """Threads of the parallels inside the body; 0 when there are none (1 directly under `block`)."""
    totals = [(inner, _threads(state, inner, 0)) for inner in nested(node.body)]
    if not totals:
        return 1 if state.level_of[node.bindings[-1]] == "block" else 0
    first, threads = totals[0]
    for inner, other in totals[1:]:
        if other != threads:
            state.sink.error(
                "E-714",
                inner.bindings[0].span,
                f"this `parallel` has {other} threads, an earlier one {threads}",
                labels=[(first.bindings[0].span, "the earlier one")],
                notes=["all parallels of a block run on the same threads"],
            )
    return threads
