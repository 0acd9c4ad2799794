"""What of a kernel must be followed, and which of its values differ between the lanes of a warp.

The slice: every operation of the protocol, the control around it, and backwards everything that decides slots,
parities, places, trip counts and conditions. Arithmetic on data falls away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from croq.ir.core import Block, Op, Value
from croq.ir.hw import Elect
from croq.ir.objects import Buffer, Kernel, Variable, View
from croq.ir.scalar import (
    Assignment,
    Binary,
    Cast,
    Const,
    For,
    LoadElement,
    Select,
    StoreElement,
    ThreadIndex,
    Unary,
    VarGet,
    VarSet,
)
from croq.target.cuda import WARP
from croq.verify.values import BINARY, convert, lnot


def is_shared(view: object) -> bool:
    return isinstance(view, View) and isinstance(view.root, Buffer) and view.root.storage == "shared"


def invariant(op: Op) -> list[Op]:
    """Operations in a map's body whose results are the same for all elements: they count as standing in front of it."""
    if op.CONTROL != "map":
        return []
    inside = [inner for inner in op.walk() if inner is not op]
    varies = set(op.results())
    changed = {inner.var for inner in inside if isinstance(inner, Assignment)}
    found: list[Op] = []
    for inner in inside:
        fixed = inner.PURE or (isinstance(inner, VarGet) and inner.var not in changed)
        if fixed and not any(inner.regions()) and not any(v in varies for v in inner.operands()):
            found.append(inner)
        else:
            varies.update(inner.results())
    return found


def changed_inside(op: Op) -> list[VarSet]:
    """Changes that a map makes to variables from outside it: once an element, by what each element holds."""
    if op.CONTROL != "map":
        return []
    inside = [inner for inner in op.walk() if isinstance(inner, Assignment)]
    own = {inner.var for inner in inside if not isinstance(inner, VarSet)}
    return [inner for inner in inside if isinstance(inner, VarSet) and inner.var not in own]


class Slice:
    """`relevant`: the operations to follow, `needed`: the values among their operands that must be computed."""

    def __init__(
        self, kernel: Kernel, protocol: Callable[[Op], bool], operands: Callable[[Op], Iterable[Value]]
    ) -> None:
        self.kernel = kernel
        self.around: dict[Op, tuple[Op, ...]] = {}
        self.block: dict[Op, Block] = {}
        self.order: dict[Op, int] = {}  # in the program's text
        self.definition: dict[Value, Op] = {}
        self.sets: dict[Variable, list[Assignment]] = {}
        self.gets: dict[Variable, list[VarGet]] = {}
        self.stores: dict[Buffer, list[StoreElement]] = {}
        self.relevant: set[Op] = set()
        self.needed: set[Value] = set()
        self.protocol: set[Op] = set()
        self._operands = operands
        self._work: list[Value] = []
        self._index(kernel.body, ())
        for op in list(self.around):
            if protocol(op):
                self.protocol.add(op)
                self._mark(op)
                self._need(operands(op))
        self._close()

    def _index(self, block: Block, around: tuple[Op, ...]) -> None:
        for op in block.ops:
            self.around[op] = around
            self.block[op], self.order[op] = block, len(self.order)
            for value in op.results():
                self.definition[value] = op
            if isinstance(op, Assignment):
                self.sets.setdefault(op.var, []).append(op)
            if isinstance(op, VarGet):
                self.gets.setdefault(op.var, []).append(op)
            if isinstance(op, StoreElement) and isinstance(op.view.root, Buffer):
                self.stores.setdefault(op.view.root, []).append(op)
            for inner in invariant(op):
                self.around[inner] = around
                self.block[inner], self.order[inner] = block, len(self.order)
                self.definition.update((value, inner) for value in inner.results())
            if op.CONTROL != "map":
                for region in op.regions():
                    self._index(region, (*around, op))
            for change in changed_inside(op):
                self.around[change], self.block[change] = (*around, op), Block([change])
                self.order[change] = len(self.order)
                self.sets.setdefault(change.var, []).append(change)

    def _mark(self, op: Op) -> None:
        if op in self.relevant:
            return
        self.relevant.add(op)
        for outer in self.around[op]:
            if outer not in self.relevant:
                self.relevant.add(outer)
                self._need(control_values(outer))
        self._need(control_values(op))

    def _need(self, values: Iterable[Value]) -> None:
        for value in values:
            if value not in self.needed:
                self.needed.add(value)
                self._work.append(value)

    def _close(self) -> None:
        while self._work or self._exits():
            if not self._work:
                continue
            op = self.definition.get(self._work.pop())
            if op is None or isinstance(op, For):
                continue
            self._mark(op)
            if isinstance(op, VarGet):
                for change in self.sets.get(op.var, []):
                    self._mark(change)
                    self._need([change.value])
            elif isinstance(op, LoadElement):
                self._need(v for v in (*op.indices, *op.view.offsets, op.view.slot) if isinstance(v, Value))
                for store in self.stores.get(op.view.root, []) if isinstance(op.view.root, Buffer) else ():
                    self._mark(store)
                    self._need([store.value])
            elif op.PURE:
                self._need(op.operands())

    def _exits(self) -> bool:
        """Mark the `break`s and `continue`s of loops that are followed; whether there were new ones."""
        found = False
        for op, around in self.around.items():
            leaves = op.CONTROL == "exit" and op not in self.relevant
            if leaves and self._innermost(around) in self.relevant:
                self._mark(op)
                found = True
        return found

    @staticmethod
    def _innermost(around: tuple[Op, ...]) -> Op | None:
        return next((o for o in reversed(around) if o.CONTROL == "loop"), None)

    def ordered(self) -> list[Op]:
        """The relevant operations as the text has them."""
        return sorted(self.relevant, key=lambda op: self.order[op])

    def exits(self, loop: Op) -> Iterator[Op]:
        """The `break`s and `continue`s of a loop."""
        for op, around in self.around.items():
            if op.CONTROL == "exit" and self._innermost(around) is loop:
                yield op


def consulted(slice_: Slice) -> set[Buffer]:
    """Buffers in shared memory whose contents decide something."""
    loads = [op for op in slice_.relevant if isinstance(op, LoadElement) and op.result in slice_.needed]
    return {op.view.root for op in loads if isinstance(op.view.root, Buffer) and op.view.root.storage == "shared"}


def control_values(op: Op) -> list[Value]:
    """What decides whether and how often the regions of `op` run."""
    return [op.decided_by] if op.decided_by is not None else []


class Lanes:
    """`fixed(v)`: the value in every thread, where constants and the thread index decide it; `vary(v)`: whether lanes
    of one warp may disagree about it."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_
        self.threads = -(-slice_.kernel.threads // WARP) * WARP
        self._fixed: dict[Value, NDArray[np.int64] | None] = {}
        self._vary: dict[Value, bool] = {}
        self.varying: set[Variable] = set()
        while True:
            before = len(self.varying)
            self._vary.clear()
            self._visit(slice_.kernel.body, False)
            if len(self.varying) == before:
                return

    def fixed(self, value: Value) -> NDArray[np.int64] | None:
        """[threads, padded to whole warps] int64, or None."""
        if value not in self._fixed:
            self._fixed[value] = self._evaluate(value)
        return self._fixed[value]

    def _evaluate(self, value: Value) -> NDArray[np.int64] | None:
        op = self.slice.definition.get(value)
        if isinstance(op, ThreadIndex):
            return np.arange(self.threads, dtype=np.int64)
        if isinstance(op, Const) and not isinstance(op.value, float):
            return np.full(self.threads, int(op.value), dtype=np.int64)
        if not isinstance(op, Binary | Unary | Select | Cast):
            return None
        parts = [self.fixed(v) for v in op.operands()]
        if any(part is None for part in parts):
            return None
        return evaluated(op, parts, self.threads)

    def uniform(self, value: Value) -> bool:
        """Whether a fixed value is the same in all lanes of each warp."""
        found = self.fixed(value)
        assert found is not None
        rows = found.reshape(-1, WARP)
        return bool((rows == rows[:, :1]).all())

    def vary(self, value: Value) -> bool:
        if value not in self._vary:
            self._vary[value] = self._decide(value)
        return self._vary[value]

    def _decide(self, value: Value) -> bool:
        if self.fixed(value) is not None:
            return not self.uniform(value)
        op = self.slice.definition.get(value)
        if isinstance(op, VarGet):
            return op.var in self.varying
        if isinstance(op, LoadElement) or (op is not None and op.PURE):
            return any(self.vary(v) for v in op.operands())
        return False

    def _visit(self, block: Block, divergent: bool) -> None:
        for op in block.ops:
            parted = divergent and isinstance(op, VarSet)
            if isinstance(op, Assignment) and op in self.slice.relevant and (parted or self.vary(op.value)):
                self.varying.add(op.var)
            self.varying |= {change.var for change in changed_inside(op)}
            if op.CONTROL != "map":
                inner = divergent or isinstance(op, Elect) or any(self.vary(v) for v in control_values(op))
                for region in op.regions():
                    self._visit(region, inner)


def evaluated(op: Op, parts: list[NDArray[np.int64] | None], threads: int) -> NDArray[np.int64] | None:
    """An operation on one value a thread; None where it has none."""
    if isinstance(op, Binary) and op.op in ("div", "mod", "cdiv") and (parts[1] == 0).any():  # type: ignore[union-attr]
        return None
    found = _combine(op, parts)
    return None if not isinstance(found, np.ndarray | int | bool) else _full(found, threads)


def _combine(op: Op, parts: list[NDArray[np.int64] | None]) -> object:
    if isinstance(op, Binary):
        return BINARY[op.op](*parts)
    if isinstance(op, Cast):
        return convert(parts[0], op.operand.type, op.result.type)
    if isinstance(op, Select):
        condition, then, otherwise = parts
        assert condition is not None and then is not None and otherwise is not None
        return np.where(condition != 0, then, otherwise)
    assert isinstance(op, Unary)
    operand = parts[0]
    assert operand is not None
    if op.op == "lnot":
        return lnot(operand)
    return -operand if op.op == "neg" else ~operand


def _full(found: NDArray[np.int64] | int | bool, threads: int) -> NDArray[np.int64]:
    return np.broadcast_to(np.asarray(found).astype(np.int64), (threads,))
