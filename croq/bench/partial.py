"""Executing some blocks of the grid only: which, what inputs they touch, and whether they wrote all they should.

Simulating a whole grid of a published size would take hours; a few blocks, spread over it, show the same program.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from croq.bench.check import CheckReport, Rule, check_attention
from croq.bench.inputs import AttentionInputs, written_rows
from croq.bench.schedule import Schedule
from croq.bench.workload import AttentionWorkload, Binding, Slab

Block = tuple[int, int, int]


@dataclass(frozen=True)
class Part:
    """Some blocks of a grid. `slabs` holds every (batch, head) they touch; `rows` counts the output rows they must
    write, `None` where the kernel's grid does not tell."""

    blocks: tuple[Block, ...]
    total: int  # blocks of the whole grid
    slabs: tuple[Slab, ...]
    rows: int | None

    @property
    def whole(self) -> bool:
        return len(self.blocks) == self.total


def choose_blocks(
    plan: Any,
    binding: Binding,
    workload: AttentionWorkload,
    count: int | None,
    schedule: Schedule | None = None,
    tile: int = 128,
) -> Part:
    """`count` blocks of the first kernel of `plan` (`None`: all), evenly spread from the first to the last.

    `schedule` is a persistent kernel's work list, whose tasks are `tile` rows each; its blocks without tasks are not
    chosen.
    """
    names = _symbols(binding, workload)
    texts = [str(dim) for dim in plan[0]["grid"]]
    extents = [evaluate(text, names) for text in texts]
    extents += [1] * (3 - len(extents))
    total = math.prod(extents)
    able = range(total)
    if schedule is not None:
        able = range(min(total, schedule.blocks))
        busy = [i for i in able if schedule.offsets[i] < schedule.offsets[i + 1]]
        chosen = [busy[i] for i in _spread(len(busy), count)]
        tasks = [task for block in chosen for task in schedule.of_block(block)]
        slabs = {(batch, head) for _, head, batch in tasks}
        rows: int | None = sum(min(tile, workload.seq - t * tile) for t, _, _ in tasks)
    else:
        chosen = list(_spread(len(able), count))
        slabs, rows = _of_grid(texts, extents, binding, workload, chosen)
    blocks = tuple(_coordinates(index, extents) for index in chosen)
    whole = len(blocks) == total or (schedule is not None and count is None)
    return Part(blocks, len(blocks) if whole else total, tuple(sorted(slabs)), rows)


def check_part(inputs: AttentionInputs, part: Part, *, rule: Rule | None = None) -> CheckReport:
    """Check every row that was written; rows that `part` should have written and did not count as unwritten."""
    where = {slab: written_rows(inputs.o, slab) for slab in part.slabs}
    report = check_attention(inputs, where=where, rule=rule)
    written = sum(map(len, where.values()))
    lost = max(0, (part.rows or 0) - written) * inputs.workload.dim
    return replace(
        report,
        checked=report.checked + lost,
        not_numbers=report.not_numbers + lost,
        unwritten=report.unwritten + lost,
    )


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The value of a grid extent such as `cdiv(Q_SEQ, 128)`; raises `ValueError` for what is no such expression."""
    return _value(ast.parse(text, mode="eval").body, names)


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id="cdiv"), args=[left, right]):
            return -(-_value(left, names) // _value(right, names))
    raise ValueError(f"`{ast.unparse(node)}` is not known in a grid extent")


def _symbols(binding: Binding, workload: AttentionWorkload) -> dict[str, int]:
    """The value of each symbol in the shapes of Q, K, V and O."""
    names: dict[str, int] = {}
    for param, role in zip(binding.params, binding.roles, strict=True):
        if role in ("q", "k", "v", "o"):
            names |= {str(dim): size for dim, size in zip(param.shape or (), workload.shape, strict=True)}
    return {name: size for name, size in names.items() if name.isidentifier()}


def _of_grid(
    texts: list[str], extents: list[int], binding: Binding, workload: AttentionWorkload, chosen: list[int]
) -> tuple[set[Slab], int | None]:
    """Slabs and rows of blocks whose grid has an axis for the batch, one for the heads, and one for query tiles."""
    shape = [str(dim) for dim in binding.params[binding.roles.index("q")].shape or ()]
    axes = {name: texts.index(name) for name in (shape[0], shape[2]) if name in texts}
    if len(axes) != 2:
        return set(workload.slabs), None
    places = [_coordinates(index, extents) for index in chosen]
    slabs = {(place[axes[shape[0]]], place[axes[shape[2]]]) for place in places}
    tiles = math.prod(extents) // (workload.batch * workload.heads)
    # Which block has the short tile of an uneven sequence is the kernel's own affair.
    return slabs, None if workload.seq % tiles else len(chosen) * (workload.seq // tiles)


def _coordinates(index: int, extents: list[int]) -> Block:
    x, rest = index % extents[0], index // extents[0]
    return x, rest % extents[1], rest // extents[1]


def _spread(total: int, count: int | None) -> list[int]:
    """`count` different indices below `total`, the first and the last among them."""
    if count is None or count >= total:
        return list(range(total))
    if count == 1:
        return [0]
    return [i * (total - 1) // (count - 1) for i in range(count)]
