"""What a verdict takes for granted of one kernel, beside what holds of all (docs/memory-model.md)."""

from __future__ import annotations

from collections.abc import Iterator

from croq.ir.objects import Kernel, Param
from croq.ir.scalar import While
from croq.verify.slicing import Slice


def assumptions(kernel: Kernel, followed: Slice) -> tuple[str, ...]:
    return (*_distinct(kernel), *_endings(kernel, followed))


def written(kernel: Kernel) -> set[Param]:
    """The arguments that the kernel writes to."""
    return {e.root for e in kernel.effects() if e.kind == "write" and isinstance(e.root, Param)}


def _distinct(kernel: Kernel) -> Iterator[str]:
    """Arrays are told apart by name: one that is written could be another one, or a part of it, given twice."""
    data = [p for p in kernel.params if p.shape is not None]
    targets = written(kernel)
    said: set[Param] = set()
    for param in data:
        if param not in targets:
            continue
        said.add(param)
        others = [p.name for p in data if p not in said and p.type == param.type]
        if others:
            names = ", ".join(f"`{name}`" for name in others)
            yield f"`{param.name}` shares no memory with {names}"


def _endings(kernel: Kernel, followed: Slice) -> Iterator[str]:
    """Loops without a count that nothing in the protocol depends on are not followed."""
    for op in kernel.walk():
        if isinstance(op, While) and op not in followed.relevant:
            where = f"at line {op.span.line} " if op.span is not None else "without a count "
            yield f"the loop {where}ends"
