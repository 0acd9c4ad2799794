"""Walks the body of one kernel and writes it as C++.

Pure operations are not written where they stand: a value with one use and no name of its own waits as an expression
until the operation that needs it, the way a person would have written it. Whatever the expression reads (a variable,
an element of a fragment, memory) may change in between; right before that happens, the value gets a name after all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from croq.emit.effects import clobbers, written, written_with_regions
from croq.emit.expressions import Expr, cpp_type, name
from croq.emit.names import Names, outside_names
from croq.emit.places import Places
from croq.emit.registers import slots_of
from croq.emit.registry import expression, statement
from croq.emit.signature import Arguments
from croq.emit.templating import Fields, render
from croq.emit.text import Line, base_name, statement_text
from croq.emit.uses import Uses, analyse, hint, rendered_operands
from croq.ir.core import Block, Op, Value
from croq.ir.hw import Elect, Section
from croq.ir.objects import Buffer, Fragment, Kernel, Variable
from croq.ir.scalar import Const, Symbol
from croq.ir.types import FUTURE
from croq.source import Span
from croq.target.sm90.descriptors import Descriptor, Major
from croq.target.sm90.instructions import RegisterKind, Wgmma

REPEATED = 4  # times that `bm * 128` may be written out before it gets a name


@dataclass
class Pending:
    expr: Expr
    op: Op
    value: Value


@dataclass
class MapPlace:
    """Where a map's body stands: the text of its register index, block and row register."""

    register: Expr
    block: Expr | None
    row: Expr
    used: set[str] = field(default_factory=set)  # "row": the row register was needed


class Emitter:
    """The state of emitting one kernel: names, pending expressions, the lines so far."""

    def __init__(self, kernel: Kernel, arguments: Arguments, why: bool = False) -> None:
        """`why`: beside each operation that orders stands the rule by which it is there."""
        self.kernel = kernel
        self.why = why
        self.arguments = arguments
        self.uses: Uses = analyse(kernel.body)
        self.names = Names({*outside_names(kernel), *arguments.names()})
        self.lines: list[Line] = []
        self.source: int | None = None
        self.map_place: MapPlace | None = None
        self.object_names = {o.name for group in (kernel.variables, kernel.fragments) for o in group}
        self.variable_names: dict[Variable, str] = {}
        self.fragment_names: dict[Fragment, str] = {}
        self.fragment_slots = slots_of(kernel)
        self.instructions: set[Wgmma] = set()  # what the file must define: WGMMA wrappers
        self.fences: set[tuple[int, RegisterKind]] = set()  # and register fences
        self.descriptors: dict[
            tuple[Buffer, Major, Descriptor], str
        ] = {}  # names of descriptor words, without _lo and _hi
        self._bound: dict[Value, Expr] = {}
        self._pending: dict[Value, Pending] = {}
        self._left: dict[Value, int] = dict(self.uses.count)
        self._quoted: set[int] = set()
        self._statements = _statements(kernel.body)
        self._with_body = {op.span.line for op in kernel.walk() if op.span is not None and _has_body(op)}
        self._last_quoted: int | None = None
        self._constants = Names()
        self.names.push()
        self.places = Places(kernel, self.names)
        self.names.push()

    # ------------------------------------------------------------------------------------------------------ blocks
    def block(self, block: Block, *, scope: bool = True) -> list[Line]:
        """The lines of a region; with `scope` its names go out of scope at its end (it stands in braces)."""
        with self.nested(scope=scope) as lines:
            for op in block.ops:
                self.op(op)
        return lines

    @contextmanager
    def nested(self, *, scope: bool = True) -> Iterator[list[Line]]:
        """Collect lines apart from those of the enclosing statement."""
        outer, self.lines = self.lines, []
        if scope:
            self.names.push()
        try:
            yield self.lines
        finally:
            if scope:
                self.names.pop()
            self.lines = outer

    def op(self, op: Op) -> None:
        previous, self.source = self.source, op.span.line if op.span else self.source
        if op.EXPRESSION:
            self._define(op)
        else:
            self._statement(op)
        self.source = previous

    def _statement(self, op: Op) -> None:
        if any(True for _ in op.regions()):
            self._region_statement(op)
            return
        at = len(self.lines)
        fields = statement[op](self, op)
        self.spent(op)
        self.settle(written(op))
        if fields is not None:
            self.quote(op, at)
            self.lines += self._reasoned(op, fields)

    def _region_statement(self, op: Op) -> None:
        """Its line is quoted above it; values of its regions are not visible after it."""
        if not isinstance(op, Section):
            self.quote(op)
        visible = set(self._pending)
        fields = statement[op](self, op)
        self._pending = {value: pending for value, pending in self._pending.items() if value in visible}
        if fields is not None:
            self.lines += self._reasoned(op, fields)

    def _reasoned(self, op: Op, fields: list[Line] | Fields) -> list[Line]:
        lines = fields if isinstance(fields, list) else render(op.NAME, fields, self.source)
        code = next((n for n, line in enumerate(lines) if line.text.strip() and not line.text.startswith("//")), None)
        if self.why and op.rule is not None and code is not None:
            place = f", line {op.span.line}" if op.span is not None else ""
            text, source = lines[code].text, lines[code].source
            mark = " " if "//" in text else "  // "
            lines = [*lines[:code], Line(f"{text}{mark}[{op.rule}{place}]", source), *lines[code + 1 :]]
        return lines

    def enter(self, op: Op) -> None:
        """Called by an operation with regions when its own operands are written, before its regions are."""
        self.spent(op)
        self.settle(written_with_regions(op))

    def spent(self, op: Op) -> None:
        for value in rendered_operands(op):
            self._left[value] = self._left.get(value, 0) - 1

    # ------------------------------------------------------------------------------------------------------ values
    def expr(self, value: Value) -> Expr:
        """The expression that stands for a value here."""
        if value in self._bound:
            return self._bound[value]
        if value in self._pending:
            return self._pending[value].expr
        raise KeyError(f"value {value.name or value.type} is used before it is defined")

    def bind(self, value: Value, expr: Expr) -> None:
        self._bound[value] = expr

    def atom(self, expr: Expr, wanted: str, element: str = "s32") -> Expr:
        """`expr`, named first unless it is free to write several times."""
        return expr if expr.atom else self.let(expr, wanted, element)

    def let(self, expr: Expr, wanted: str, element: str = "s32") -> Expr:
        """Declare a constant for `expr`."""
        local = self.names.declare(wanted)
        self.write("value", {"type": cpp_type(element), "name": local, "expr": expr.text, "keyword": "const"})
        return name(local)

    def write(self, template: str, fields: Fields) -> None:
        self.lines += render(template, fields, self.source)

    def _define(self, op: Any) -> None:
        value: Value = op.result
        count = self.uses.of(value)
        if count == 0 or value.type == FUTURE:
            return
        expr = expression[op](self, op)
        self.spent(op)
        if isinstance(op, Symbol) or self._inlined(value, expr, count):
            self._pending[value] = Pending(expr, op, value)
        else:
            self._declare(value, expr, op, quote=True)

    def _inlined(self, value: Value, expr: Expr, count: int) -> bool:
        """Whether the value is written out where it is used."""
        if value.name is not None or expr.pinned:
            return False
        if expr.atom or (expr.simple and count <= REPEATED):
            return True
        return count == 1 and value not in self.uses.carried

    def _declare(self, value: Value, expr: Expr, op: Op, *, quote: bool) -> None:
        local = self.names.declare(hint(value, op, self.uses))
        if quote:
            self.quote(op)
        keyword = "constexpr" if isinstance(op, Const) and "croq::" not in expr.text else "const"
        fields = {"type": cpp_type(value.type), "name": local, "expr": expr.text, "keyword": keyword}
        self.lines += render("value", fields, self.source)
        self._bound[value] = name(local)

    def settle(self, writes: frozenset[Any]) -> None:
        """Name what is pending, still needed and about to change its meaning."""
        for value, pending in list(self._pending.items()):
            if self._left.get(value, 0) > 0 and clobbers(writes, pending.expr.reads):
                del self._pending[value]
                self._declare(value, pending.expr, pending.op, quote=False)

    def reserve_constant(self, wanted: str) -> str:
        """A name at the top of the function, for something found out while the body is written."""
        while self.names.taken(wanted):
            wanted += "_2"
        return self._constants.declare(wanted)

    @contextmanager
    def once_more(self) -> Iterator[None]:
        """What is emitted inside is emitted again: uses are not counted off."""
        left = dict(self._left)
        yield
        self._left = left

    def declare_object(self, wanted: str) -> str:
        """A name for a variable or fragment, without the number that only tells it from one in another scope."""
        numbered = re.fullmatch(r"(.+)_\d+", wanted)
        if numbered and numbered[1] in self.object_names:
            wanted = numbered[1]
        return self.names.declare(wanted)

    # ---------------------------------------------------------------------------------------------------- comments
    def quote(self, op: Op, at: int | None = None) -> None:
        """The source line above what it became: in full once, by its number when the text returns to it."""
        if op.span is None:
            return
        span = self._statements.get(op.span.line, op.span)
        line = span.line
        if line == self._last_quoted:
            return
        place = f"// {base_name(span.file)}:{line}"
        if line not in self._quoted:
            place += "  " + statement_text(span, header_only=line in self._with_body)
        comment = [Line(place, line)]
        where = len(self.lines) if at is None else at
        if self.lines[:where] and _new_paragraph(span.file.line_text, self._last_quoted, line):
            comment.insert(0, Line(""))
        self.lines[where:where] = comment
        self.quoted_elsewhere(line)

    def quoted_elsewhere(self, line: int) -> None:
        """The line has been quoted (by other means: a section's heading)."""
        self._quoted.add(line)
        self._last_quoted = line


def _has_body(op: Op) -> bool:
    """Whether the statement has a body, so that its first line is enough of it. An election is no statement."""
    return not isinstance(op, Elect) and any(True for _ in op.regions())


def _statements(body: Block) -> dict[int, Span]:
    """For lines inside a statement of several lines, the statement."""
    found: dict[int, Span] = {}
    for op in body.walk():
        if op.span is not None and not _has_body(op):
            last = op.span.file.line_of(max(op.span.start, op.span.end - 1))
            found.update((line, op.span) for line in range(op.span.line, last + 1) if last > op.span.line)
    return found


def _new_paragraph(text_of: Any, last: int | None, line: int) -> bool:
    """Whether the source has an empty line between the statement quoted last and this one."""
    if last is None or line < last:
        return False
    return any(not text_of(n).strip() for n in range(last + 1, line))
