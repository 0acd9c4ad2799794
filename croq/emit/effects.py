"""What an operation changes, as far as pending expressions care: variables, fragments, memory."""

from __future__ import annotations

from typing import Any

from croq.emit.uses import EXPRESSIONS
from croq.ir.core import Op
from croq.ir.hw import REGISTER_OPS, Section, SetMaxNReg
from croq.ir.objects import Fragment, FragRef, Variable
from croq.ir.scalar import Break, Call, Continue, Cpp, FragDeclare, FragWrite, If, StoreElement, VarDeclare, VarSet

MEMORY = "memory"  # all of shared and global memory, as one thing
ANYTHING = "anything"  # stands for every variable and fragment as well

_QUIET = (*EXPRESSIONS, VarDeclare, VarSet, FragWrite, FragDeclare, Break, Continue, SetMaxNReg, Section, If)


def written(op: Op) -> frozenset[Any]:
    """What the operation itself writes (its regions apart)."""
    if isinstance(op, (Call, Cpp)):
        return frozenset({ANYTHING, MEMORY})
    found: set[Any] = set()
    for effect in op.effects():
        if effect.kind == "write":
            target = effect.target.frag if isinstance(effect.target, FragRef) else effect.target
            if isinstance(target, (Variable, Fragment)):
                found.add(target)
    if isinstance(op, StoreElement) or not isinstance(op, (*_QUIET, *REGISTER_OPS)):
        found.add(MEMORY)
    return frozenset(found)


def written_with_regions(op: Op) -> frozenset[Any]:
    found = set(written(op))
    for region in op.regions():
        for inner in region.walk():
            found |= written(inner)
    return frozenset(found)


def clobbers(writes: frozenset[Any], reads: frozenset[Any]) -> bool:
    return bool(writes & reads) or (ANYTHING in writes and bool(reads))
