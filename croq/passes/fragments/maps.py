"""`apply` as `reg.map`: the split into row and element statements (rules F8 to F10 of pass `fragments`).

A statement is an operation with an effect; pure operations and reads belong to the statements that use them, so both
sections start as the whole body and keep their own statements and what those need.
"""

from __future__ import annotations

from collections.abc import Iterator

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.hw import RegMap
from croq.ir.objects import Buffer, Fragment, FragRef, Kernel, Param, Variable, View
from croq.ir.rewrite import Builder, clone_block, fresh_value, remove_dead
from croq.ir.scalar import Assignment, FragDeclare, FragRead, FragWrite, If, LoadElement, StoreElement, VarGet
from croq.ir.tile import FragMap
from croq.passes.fragments.checks import report
from croq.target.fragments import QUAD, AccumulatorLayout, RowLayout, UniformLayout


def lower_map(op: FragMap, kernel: Kernel, sink: Sink) -> list[Op]:
    """The `reg.map` of one `apply`, and what must stand before it."""
    layout = op.domain.frag.layout
    before = Builder(op.span, op.threads)
    guard = isinstance(layout, UniformLayout) and layout.ragged
    if not isinstance(layout, AccumulatorLayout):
        if len(op.iterators) == 2:
            _no_row_statements(op, sink)
        if isinstance(layout, RowLayout):
            _one_writer(op.body, before)
        new = RegMap(op.domain, (), None, op.iterators, op.body, guard, span=op.span, threads=op.threads)
        return [*before.take(), new]
    split = _Split(op, kernel, sink)
    split.classify()
    row_iterator, row_body = split.sections(before)
    if not row_body.ops:
        new = RegMap(op.domain, (), None, op.iterators, op.body, guard, span=op.span, threads=op.threads)
    else:
        _one_writer(row_body, before)
        new = RegMap(
            op.domain, (row_iterator,), row_body, op.iterators, op.body, guard, span=op.span, threads=op.threads
        )
    return [*before.take(), new]


def _is_statement(op: Op) -> bool:
    return not op.EXPRESSION and not isinstance(op, If)


class _Split:
    """Which statements of a 2-D map depend on the column."""

    def __init__(self, op: FragMap, kernel: Kernel, sink: Sink) -> None:
        self.op = op
        self.kernel = kernel
        self.sink = sink
        self.varying: set[Value] = set()  # values that depend on the column
        self.varying_vars: set[Variable] = set()
        self.elements: set[Op] = set()  # statements that run for each element

    # --------------------------------------------------------------------------------------------- classification
    def classify(self) -> None:
        self._fixpoint()
        natural = set(self.elements)
        while forced := self._vars_read_by_elements():
            # A variable that the row's statements set is not visible to the elements': its statements move there.
            self.varying_vars |= forced
            self._fixpoint()
        for op in self.op.body.walk():
            if op in self.elements and op not in natural and not isinstance(op, Assignment):
                report(
                    self.sink,
                    "E-2112",
                    op.span,
                    "this runs once a row, but uses a mutable scalar that other statements use for each element",
                    labels=[(self.op.span, "in this `apply`")],
                    notes=["statements that depend on the row only run before all others of their row"],
                    hint="use an `apply` of its own for the rows, or an immutable name",
                )

    def _fixpoint(self) -> None:
        size = -1
        while size != (size := len(self.varying) + len(self.varying_vars) + len(self.elements)):
            self.varying.add(self.op.iterators[1])
            self._mark(self.op.body, False)

    def _mark(self, block: Block, inside: bool) -> None:
        """`inside`: under control flow that depends on the column."""
        for op in block.ops:
            depends = inside or any(value in self.varying for value in op.operands())
            if op.CONTROL == "loop":
                # A loop is one statement: its body cannot be cut in two without changing what it computes.
                depends = depends or any(map(self._touches_column, op.walk()))
            if isinstance(op, VarGet):
                depends = depends or op.var in self.varying_vars
            if isinstance(op, Assignment):
                if depends:
                    self.varying_vars.add(op.var)
                depends = depends or (op.var in self.varying_vars and self._set_inside(op.var))
            if depends:
                self.varying.update(op.results())
                if _is_statement(op):
                    self.elements.add(op)  # F9: writes to 1-D data among them
            for region in op.regions():
                self._mark(region, depends)

    def _touches_column(self, op: Op) -> bool:
        read = isinstance(op, VarGet) and op.var in self.varying_vars
        return read or any(value in self.varying for value in op.operands())

    def _set_inside(self, var: Variable) -> bool:
        return any(isinstance(op, Assignment) and op.var is var for op in self.op.body.walk())

    def _vars_read_by_elements(self) -> set[Variable]:
        needed = self._needed(self.elements)
        return {
            op.var
            for op in self.op.body.walk()
            if isinstance(op, VarGet)
            and op.result in needed
            and op.var not in self.varying_vars
            and self._set_inside(op.var)
        }

    def _needed(self, statements: set[Op]) -> set[Value]:
        """Values that the statements use, directly or over pure operations and reads, and their conditions'."""
        needed: set[Value] = set()
        ops = list(self.op.body.walk())
        around = _conditions(self.op.body)
        for op in reversed(ops):
            if op in statements or any(value in needed for value in op.results()):
                needed.update(op.operands())
                needed.update(around.get(op, ()))
                if op.CONTROL == "loop":
                    needed.update(v for inner in op.walk() for v in inner.operands())
        return needed

    # --------------------------------------------------------------------------------------------------- sections
    def sections(self, before: Builder) -> tuple[Value, Block]:
        """Cut the body: gives the row section with its iterator; the map's own body becomes the element section."""
        row = self.op.iterators[0]
        kept = self._keep_in_registers(before)
        row_iterator = fresh_value(row)
        value_map = {row: row_iterator}
        row_body = clone_block(self.op.body, value_map)
        originals = list(self.op.body.walk())
        row_class = {new: old not in self.elements for old, new in zip(originals, row_body.walk(), strict=True)}
        element_class = {op: op in self.elements for op in originals}
        for value, frag in kept:
            ref = FragRef(frag)
            new = value_map[value]
            write = FragWrite(ref, (row_iterator,), new, span=self.op.span, threads=self.op.threads)
            row_class[write] = True
            _insert_after(row_body, new, write)
            read = FragRead(ref, (row,), value, span=self.op.span, threads=self.op.threads)
            _replace_definition(self.op.body, value, read)
        for block, keep in ((row_body, row_class), (self.op.body, element_class)):
            _filter(block, keep)
            remove_dead(block, lambda op: op.EXPRESSION)
            _prune(block)
            remove_dead(block, lambda op: op.EXPRESSION)
        return row_iterator, row_body

    def _keep_in_registers(self, before: Builder) -> list[tuple[Value, Fragment]]:
        """Named row values that a write in the map would change if the elements' statements computed them again."""
        layout = self.op.domain.frag.layout
        assert isinstance(layout, AccumulatorLayout)
        written = {root for op in self.op.body.walk() if (root := _written(op)) is not None}
        needed = self._needed(self.elements)
        sources: dict[Value, set[object]] = {}
        kept: list[tuple[Value, Fragment]] = []
        for op in self.op.body.walk():
            read = (
                {op.frag.frag} if isinstance(op, FragRead) else {op.view.root} if isinstance(op, LoadElement) else set()
            )
            found: set[object] = set(read).union(*(sources.get(value, set()) for value in op.operands()))
            for value in op.results():
                sources[value] = found
                if value.name and value in needed and value not in self.varying and found & written:
                    frag = Fragment(self.kernel.fresh(value.name), value.type, (layout.m,), RowLayout(layout.m))
                    frag.why = f"keeps `{value.name}` of each row for the row's elements (fragments.F8)"
                    frag.span = self.op.span
                    self.kernel.fragments.append(frag)
                    before.add(FragDeclare(frag))
                    kept.append((value, frag))
                    sources[value] = set()
        return kept


def _written(op: Op) -> Fragment | Param | Buffer | None:
    if isinstance(op, FragWrite):
        return op.frag.frag
    return op.view.root if isinstance(op, StoreElement) else None


def _conditions(block: Block, outer: tuple[Value, ...] = ()) -> dict[Op, tuple[Value, ...]]:
    """The conditions of the `if`s around each operation."""
    found: dict[Op, tuple[Value, ...]] = {}
    for op in block.ops:
        found[op] = outer
        inner = (*outer, op.condition) if isinstance(op, If) else outer
        for region in op.regions():
            found.update(_conditions(region, inner))
    return found


def _filter(block: Block, keep: dict[Op, bool]) -> None:
    """Drop statements of the other class; loops go or stay whole."""
    block.ops = [op for op in block.ops if not _is_statement(op) or keep[op]]
    for op in block.ops:
        if isinstance(op, If):
            for region in op.regions():
                _filter(region, keep)


def _prune(block: Block) -> None:
    """Drop `if`s in which nothing is left."""
    kept: list[Op] = []
    for op in block.ops:
        if isinstance(op, If):
            for region in op.regions():
                _prune(region)
            if op.otherwise is not None and not any(map(_matters, op.otherwise.ops)):
                op.otherwise = None
            if op.otherwise is None and not any(map(_matters, op.then.ops)):
                continue
        kept.append(op)
    block.ops = kept


def _matters(op: Op) -> bool:
    return isinstance(op, If) or _is_statement(op)


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for region in op.regions():
            yield from _blocks(region)


def _insert_after(block: Block, value: Value, new: Op) -> None:
    for inner in _blocks(block):
        for position, op in enumerate(inner.ops):
            if any(result is value for result in op.results()):
                inner.ops.insert(position + 1, new)
                return


def _replace_definition(block: Block, value: Value, new: Op) -> None:
    for inner in _blocks(block):
        for position, op in enumerate(inner.ops):
            if any(result is value for result in op.results()):
                inner.ops[position] = new
                value.op = new
                return


def _one_writer(block: Block, before: Builder) -> None:
    """Rule F10: one of the four lanes of a row stores to memory."""
    first: Value | None = None
    for inner in list(_blocks(block)):
        new: list[Op] = []
        for op in inner.ops:
            if isinstance(op, StoreElement):
                if first is None:
                    first = before.binary("eq", before.binary("mod", before.thread_index(), QUAD), 0, "first_lane")
                new.append(If(first, Block([op]), None, span=op.span, threads=op.threads))
            else:
                new.append(op)
        inner.ops = new


def _no_row_statements(op: FragMap, sink: Sink) -> None:
    """An evenly spread fragment has no rows in a thread: every statement must be an element's."""
    column = {op.iterators[1]}
    for inner in op.body.walk():
        depends = any(value in column for value in inner.operands())
        if depends:
            column.update(inner.results())
        elif isinstance(inner, StoreElement) and not _is_view_of_local(inner.view):
            report(
                sink,
                "E-1152",
                inner.span,
                "this depends on the row only, but no thread holds whole rows",
                labels=[(op.domain.frag.span, f"`{op.domain.frag.name}`: {op.domain.frag.why}")],
                hint="do it outside the `apply`, once for each row",
            )


def _is_view_of_local(view: View) -> bool:
    return isinstance(view.root, Buffer) and view.root.storage == "local"
