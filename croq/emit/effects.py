"""What an operation changes, as far as pending expressions care: variables, fragments, memory."""

from __future__ import annotations

from typing import Any

from croq.ir.core import Op
from croq.ir.objects import Buffer, Fragment, Param, Variable

MEMORY = "memory"  # all of shared and global memory, as one thing
ANYTHING = "anything"  # stands for every variable and fragment as well


def written(op: Op) -> frozenset[Any]:
    """What the operation itself writes (its regions apart)."""
    if op.OPAQUE:
        return frozenset({ANYTHING, MEMORY})
    found: set[Any] = {e.root for e in op.own_effects() if e.kind == "write"}
    if not _quiet(op) or any(isinstance(root, (Buffer, Param)) for root in found):
        found.add(MEMORY)
    return frozenset(root for root in found if isinstance(root, (str, Variable, Fragment)))


def _quiet(op: Op) -> bool:
    """Whether memory is behind it what it was before, but for what its effects say. A loop's rounds are many."""
    return op.REGISTERS or (op.ORDINARY and op.CONTROL != "loop") or (op.CONTROL == "threads" and op.MEETS is None)


def written_with_regions(op: Op) -> frozenset[Any]:
    return frozenset().union(*(written(inner) for inner in op.walk()))


def clobbers(writes: frozenset[Any], reads: frozenset[Any]) -> bool:
    return bool(writes & reads) or (ANYTHING in writes and bool(reads))
