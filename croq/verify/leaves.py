"""The arithmetic of a kernel, as functions of what is not computed: symbols, the block's place, scalars of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from croq.ir.core import Op, Value
from croq.ir.scalar import Assignment, Binary, BlockIndex, Cast, Const, For, LoadElement, Select, Symbol, Unary, VarGet
from croq.ir.types import INTEGERS
from croq.verify.slicing import Slice, control_values
from croq.verify.values import BINARY, convert, lnot, wrap

Leaf = tuple[str, Any]  # ("symbol", name), ("block", axis), ("load", Value), ("other", Value)
Get = Callable[[Leaf], int]


class Unsolved(Exception):
    pass


class Expressions:
    """The arithmetic of a kernel, as functions of its leaves."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_
        self.definition = slice_.definition
        self._leaves: dict[Value, frozenset[Leaf]] = {}
        self._reach: dict[Value, frozenset[Leaf]] = {}
        self._reaching: dict[VarGet, list[Assignment]] = {}

    def leaf(self, value: Value) -> Leaf | None:
        op = self.definition.get(value)
        if isinstance(op, Symbol):
            return ("symbol", op.symbol)
        if isinstance(op, BlockIndex):
            return ("block", op.axis)
        if isinstance(op, LoadElement) and op.result.type in INTEGERS:
            return ("load", value)
        if isinstance(op, Binary | Unary | Cast | Select | Const):
            return None
        return ("other", value)

    def leaves(self, value: Value) -> frozenset[Leaf]:
        if value not in self._leaves:
            leaf = self.leaf(value)
            if leaf is not None:
                self._leaves[value] = frozenset([leaf])
            else:
                found: frozenset[Leaf] = frozenset()
                for operand in self.definition[value].operands():
                    found |= self.leaves(operand)
                self._leaves[value] = found
        return self._leaves[value]

    def evaluate(self, value: Value, get: Get) -> int:
        leaf = self.leaf(value)
        if leaf is not None:
            return get(leaf)
        op = self.definition[value]
        if isinstance(op, Const):
            if isinstance(op.value, float):
                raise Unsolved
            return op.value
        parts = [self.evaluate(v, get) for v in op.operands()]
        if isinstance(op, Binary):
            if op.op in ("div", "mod", "cdiv") and parts[1] == 0:
                raise Unsolved
            return int(wrap(BINARY[op.op](*parts) + 0, op.result.type))
        if isinstance(op, Select):
            return parts[1] if parts[0] else parts[2]
        if isinstance(op, Cast):
            return int(convert(parts[0], op.operand.type, op.result.type))
        assert isinstance(op, Unary)
        return int(lnot(parts[0])) if op.op == "lnot" else -parts[0] if op.op == "neg" else ~parts[0]

    # ------------------------------------------------------------------------------------------- by way of variables
    def given(self, get: VarGet) -> list[Value]:
        """What a variable may hold where it is read."""
        return [change.value for change in self.reaching(get)]

    def reaching(self, get: VarGet) -> list[Assignment]:
        """The changes of a variable that a reading may see: those between the last that certainly comes before it and
        the reading, and later ones of a loop around both in which that last one is not."""
        if get not in self._reaching:
            around = [op for op in self.slice.around[get] if op.CONTROL == "loop"]
            blocks = {self.slice.block[op] for op in (get, *self.slice.around[get])}
            changes = self.slice.sets.get(get.var, [])
            at = self.slice.order[get]
            certain = [c for c in changes if self.slice.order[c] < at and self.slice.block[c] in blocks]
            last = certain[-1] if certain else None
            outside = self.slice.around[last] if last is not None else ()
            loops = {op for op in around if op not in outside}
            start = self.slice.order[last] if last is not None else -1
            self._reaching[get] = [
                c
                for c in changes
                if start <= self.slice.order[c] < at or any(op in loops for op in self.slice.around[c])
            ]
        return self._reaching[get]

    def same(self, get: VarGet) -> VarGet:
        """The first reading of the variable that certainly gives the same value: in the block or one around it, with no
        change in between, nor in a loop around the later one alone."""
        blocks = {self.slice.block[op] for op in (get, *self.slice.around[get])}
        changes = self.slice.sets.get(get.var, [])
        for first in self.slice.gets.get(get.var, []):
            between = range(self.slice.order[first], self.slice.order[get])
            loops = [op for op in self.slice.around[get] if op not in self.slice.around[first]]
            if self.slice.block[first] in blocks and not any(
                self.slice.order[c] in between or any(op in loops for op in self.slice.around[c]) for c in changes
            ):
                return first
        return get

    def inputs(self, values: Iterable[Value], control: bool = False) -> set[Leaf]:
        """The leaves other than threads and loops that decide the values, also by way of variables; with `control`,
        also those that decide which of its values a variable has."""
        found: set[Leaf] = set()
        seen: set[Value] = set()
        work = list(values)
        while work:
            item = work.pop()
            if item in seen:
                continue
            seen.add(item)
            for kind, name in self.leaves(item):
                if kind != "other":
                    found.add((kind, name))
                    continue
                op = self.definition.get(name)
                if isinstance(op, VarGet):
                    work += self.given(op)
                    if control:
                        for change in self.reaching(op):
                            work += self._around(change)
                elif isinstance(op, For):
                    work.append(op.count)
        return found

    def _around(self, op: Op) -> Iterator[Value]:
        """What decides whether and how often an operation runs."""
        for outer in self.slice.around[op]:
            yield from control_values(outer)
            if outer.CONTROL == "loop":
                for leaving in self.slice.exits(outer):
                    for inner in self.slice.around[leaving]:
                        yield from control_values(inner)

    def reach(self, value: Value) -> frozenset[Leaf]:
        """The leaves of a value, and of all that its variables may hold."""
        if value not in self._reach:
            found: set[Leaf] = set()
            work, seen = [value], set()
            while work:
                item = work.pop()
                if item in seen:
                    continue
                seen.add(item)
                for leaf in self.leaves(item):
                    found.add(leaf)
                    op = self.definition.get(leaf[1]) if leaf[0] == "other" else None
                    if isinstance(op, VarGet):
                        work += self.given(op)
            self._reach[value] = frozenset(found)
        return self._reach[value]
