"""Sections, loops, branches, elections: who executes what, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croq.emit import registers
from croq.emit.effects import written_with_regions
from croq.emit.expressions import cpp_type, name, unary
from croq.emit.registry import StatementResult, statement
from croq.emit.templating import Fields, render
from croq.emit.text import Line, base_name
from croq.ir.core import Block
from croq.ir.hw import Elect, Section, SetMaxNReg
from croq.ir.scalar import Break, Continue, For, FragDeclare, If, While
from croq.ir.types import ThreadSet
from croq.operators import LAND

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

HEADING_WIDTH = 100
MANY_RANGES = 4  # of threads, beyond which they are not listed


def threads_text(threads: ThreadSet | None) -> str:
    """`threads 0..127`, bounds included."""
    if threads is None or not threads.ranges:
        return ""
    if len(threads.ranges) > MANY_RANGES:
        return f"{len(threads)} of threads {threads.first}..{threads.ranges[-1][1] - 1}"
    parts = [f"{a}..{b - 1}" if b - a > 1 else str(a) for a, b in threads.ranges]
    return f"thread{'s' if len(threads) > 1 else ''} {', '.join(parts)}"


@statement(Section)
def section(emitter: Emitter, op: Section) -> list[Line]:
    lines = _heading(emitter, op) if op.role or op.condition is not None else []
    if op.condition is None:
        emitter.enter(op)
        emitter.lines += lines
        emitter.lines += emitter.block(op.body, scope=False)
        return []
    condition = emitter.expr(op.condition).text
    emitter.enter(op)
    body = emitter.block(op.body)
    if not body:
        return []
    return [*lines, *render("section", {"condition": condition, "body": body}, emitter.source)]


def _heading(emitter: Emitter, op: Section) -> list[Line]:
    threads = threads_text(op.threads)
    text = f"// ---- {op.label}" + (f": {threads}" if threads else "")
    if op.span is not None:
        text += f"  ({base_name(op.span.file)}:{op.span.line})"
        emitter.quoted_elsewhere(op.span.line)
    text += " "
    return [Line(""), Line(text + "-" * max(0, HEADING_WIDTH - len(text)), emitter.source)]


@statement(Elect)
def elect(emitter: Emitter, op: Elect) -> StatementResult:
    emitter.enter(op)
    body = emitter.block(op.body)
    thread = emitter.places["thread"]
    if op.scope == "set":
        return {"sync": False, "condition": f"{thread} == {op.thread}", "body": body}
    if op.scope == "warpgroup":
        return {"sync": False, "condition": f"{thread} % 128 == 0", "body": body}
    return {"sync": True, "condition": f"{emitter.places['lane']} == 0", "body": body}


@statement(For)
def for_op(emitter: Emitter, op: For) -> Fields:
    count = emitter.expr(op.count)
    if count.reads:  # evaluated once, before the loop
        count = emitter.let(count, f"{op.iv.name or 'loop'}_count", op.count.type)
    emitter.enter(op)
    emitter.names.push()
    iv = emitter.names.declare(op.iv.name or "i")
    emitter.bind(op.iv, name(iv))
    body = emitter.block(op.body, scope=False)
    emitter.names.pop()
    # a loop that holds a pipeline is never unrolled: ptxas must see one copy of each
    keep_rolled = count.const is None or any(inner.awaits or inner.UNTIL == "commit group" for inner in op.walk())
    limit = count.text if count.prec > LAND else f"({count.text})"
    return {"rolled": keep_rolled, "type": cpp_type(op.iv.type), "iv": iv, "count": limit, "body": body}


@statement(While)
def while_op(emitter: Emitter, op: While) -> list[Line]:
    emitter.settle(written_with_regions(op))
    emitter.names.push()
    head = emitter.block(op.head, scope=False)
    condition = emitter.expr(op.condition)
    emitter.spent(op)
    body = emitter.block(op.body, scope=False)
    emitter.names.pop()
    if not head:
        return render("while", {"condition": condition.text, "body": body}, emitter.source)
    leave = unary("!", condition).text
    return render("while_head", {"head": head, "leave": leave, "body": body}, emitter.source)


@statement(If)
def if_op(emitter: Emitter, op: If) -> StatementResult:
    condition = emitter.expr(op.condition).text
    emitter.enter(op)
    then = emitter.block(op.then)
    otherwise = emitter.block(op.otherwise) if op.otherwise is not None else []
    if not then and not otherwise:
        return None
    chained = _chained(op.otherwise, otherwise)
    has_else = bool(otherwise) and not chained
    fields = {"condition": condition, "then": then, "has_else": has_else, "otherwise": otherwise}
    if not chained:
        return fields
    return [*render("if", fields, emitter.source)[:-1], *chained]


def _chained(block: Block | None, lines: list[Line]) -> list[Line]:
    """The lines of an `else` that is nothing but another `if`, joined to the one before; empty where it is not."""
    if block is None or not block.ops or not isinstance(block.ops[-1], If):
        return []
    if not all(op.EXPRESSION for op in block.ops[:-1]):
        return []
    comments = [line for line in lines if line.text.startswith("//")][:1]
    rest = lines[len(comments) :]
    if not rest or not rest[0].text.startswith("if (") or lines[: len(comments)] != comments:
        return []
    quote = f"  {comments[0].text}" if comments else ""
    return [Line(f"}} else {rest[0].text}{quote}", rest[0].source), *rest[1:]]


@statement(Break)
def break_op(emitter: Emitter, op: Break) -> Fields:
    return {}


@statement(Continue)
def continue_op(emitter: Emitter, op: Continue) -> Fields:
    return {}


@statement(SetMaxNReg)
def setmaxnreg(emitter: Emitter, op: SetMaxNReg) -> Fields:
    return {"direction": op.direction, "count": op.count}


@statement(FragDeclare)
def frag_declare(emitter: Emitter, op: FragDeclare) -> Fields:
    local = emitter.declare_object(op.frag.name)
    emitter.fragment_names[op.frag] = local
    slots = emitter.fragment_slots.get(op.frag)
    shape = registers.shape_of(op.frag)
    logical = ", ".join(str(extent) for extent in op.frag.shape or ())
    return {"declaration": registers.declaration(local, shape, slots), "type": op.frag.type, "shape": logical}
