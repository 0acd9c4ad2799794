"""One computation for one value: repeated scalar expressions become one, under the name that the source gave it.

The lowering of waits, triggers and loads computes slots and parities wherever it needs them; the source often has the
same expression under a name (`k_slot = order % STAGES`). A pure operation, or the reading of a variable, whose value is
already available in the block or a block around it is replaced by that value. The compiler behind croq would find most
of this too: what is gained is text that reads like the source.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.objects import Kernel
from croq.ir.rewrite import remove_dead, replace_uses
from croq.ir.scalar import VarGet
from croq.passes.analysis.keys import expression_keys
from croq.passes.base import Pass

Available = dict[Hashable, Value]


@dataclass(frozen=True)
class Simplify(Pass):
    name: ClassVar[str] = "simplify"
    needs = ("operands", "narrow", "pace")

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        replaced: dict[Value, Value] = {}
        _block(kernel.body, {}, expression_keys(kernel), replaced)
        replace_uses(kernel.body, replaced)
        remove_dead(kernel.body, lambda op: isinstance(op, VarGet))


def _block(block: Block, available: Available, keys: dict[Value, Hashable], replaced: dict[Value, Value]) -> None:
    """`available`: values computed before, here or in a block around; what this block adds ends with it."""
    available = dict(available)
    for op in block.ops:
        if op.PURE or isinstance(op, VarGet):
            _meet(op, available, keys, replaced)
        for region in op.regions():
            _block(region, available, keys, replaced)


def _meet(op: Op, available: Available, keys: dict[Value, Hashable], replaced: dict[Value, Value]) -> None:
    (value,) = op.results()
    key = (keys.get(value, id(value)), value.type)
    earlier = available.setdefault(key, value)
    if earlier is value:
        return
    replaced[value] = earlier
    if earlier.name is None:
        earlier.name = value.name
