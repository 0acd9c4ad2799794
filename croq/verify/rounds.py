"""Variables that are counted up to a limit and begin again: `v = v + 1 == limit ? again : v + 1` (pass `counters`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from croq.ir.core import Op, Value
from croq.ir.objects import Variable
from croq.ir.scalar import Binary, Const, Select, VarGet
from croq.verify.slicing import Slice


@dataclass(frozen=True)
class Round:
    limit: int
    again: Value
    ops: tuple[Op, ...]  # the choice, and the comparison that it is made by


def round_of(definition: Mapping[Value, Op], var: Variable, value: Value) -> Round | None:
    """What a change of the variable to `value` is, where it is such a step."""
    choice = definition.get(value)
    if not isinstance(choice, Select):
        return None
    end, further = definition.get(choice.condition), definition.get(choice.otherwise)
    if not isinstance(end, Binary) or end.op != "eq" or end.left is not choice.otherwise:
        return None
    if not isinstance(further, Binary) or further.op != "add":
        return None
    before, one, limit = (definition.get(v) for v in (further.left, further.right, end.right))
    counts = isinstance(before, VarGet) and before.var is var and isinstance(one, Const) and one.value == 1
    if not counts or not isinstance(limit, Const):
        return None
    return Round(int(limit.value), choice.then, (choice, end))


def steps(followed: Slice) -> set[Op]:
    """Choices and comparisons that are steps in a ring of the kernel: arithmetic, as the remainder is that they stand
    for. Loops run often enough to come round in every ring, where inputs can make them."""
    kernel = followed.kernel
    deepest = max([event.slots for event in kernel.events] + [buffer.slots for buffer in kernel.buffers], default=0)
    found = (round_of(followed.definition, var, c.value) for var, changes in followed.sets.items() for c in changes)
    return {op for step in found if step is not None and step.limit <= deepest for op in step.ops}
