"""Mutants of the `.co` text: one slip of the pen each, at places that the syntax tree names.

Only text that the user wrote in the function is edited: what a macro produced has no place of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from croq.source import Span
from croq.syntax import ast
from tools.mutants.model import Edit, Mutant, Names


@dataclass(frozen=True)
class Change:
    """Edits that together are one mutation of the statement at `span`."""

    span: Span
    what: str  # short, for the id
    about: str  # what it is done to, for the id
    description: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class SourceMutant:
    mutant: Mutant
    edits: tuple[Edit, ...]


def source_mutants(program: ast.Program, function: str, kernel: str) -> list[SourceMutant]:
    """All of them, in order of the text."""
    (node,) = [f for f in program.functions if f.name == function]
    found = _Finder(node)
    changes = [c for rule in RULES for c in rule(found)]
    changes.sort(key=lambda c: (c.span.start, c.what))
    names = Names()
    mutants = []
    for number, change in enumerate(changes):
        line = change.span.line
        about = "".join(change.about.split()).replace("|", "or")  # a bar would end a cell of a Markdown table
        name = names.unique(f"{kernel}:S:{change.what}:{about}")
        mutants.append(SourceMutant(Mutant(kernel, "source", number, name, line, change.description), change.edits))
    return mutants


# ------------------------------------------------------------------------------------------------------------- tree
def children(node: ast.Node) -> Iterator[ast.Node]:
    for f in fields(node):
        item = getattr(node, f.name)
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, ast.Node):
                yield part


def walk(node: ast.Node) -> Iterator[ast.Node]:
    yield node
    for child in children(node):
        yield from walk(child)


def _number(e: ast.Expr) -> int | None:
    """The value of an expression of literals (macros are expanded by now)."""
    if isinstance(e, ast.IntLit):
        return e.value
    if isinstance(e, ast.Binary) and e.op in ("+", "-", "*"):
        left, right = _number(e.left), _number(e.right)
        if left is not None and right is not None:
            return left + right if e.op == "+" else left - right if e.op == "-" else left * right
    return None


class _Finder:
    """The function's nodes, and what names stand for."""

    def __init__(self, function: ast.Function) -> None:
        self.function = function
        self.nodes = [n for n in walk(function) if n.span.expansion is None]
        self.text = function.span.file.text
        self.events = {n.name: n for n in self.nodes if isinstance(n, ast.EventDecl)}
        self.buffers = {n.name: n for n in self.nodes if isinstance(n, ast.BufferDecl)}
        self.units: dict[str, tuple[str, int | None]] = {}  # parallel variables: level, bound where it is a number
        for n in self.nodes:
            if isinstance(n, ast.ParallelBinding) and len(n.names) == len(n.bounds):
                for name, bound in zip(n.names, n.bounds, strict=True):
                    self.units[name.id] = (n.level or "", _number(bound))
        self.counters = self._counters()

    def of(self, *kinds: type[Any]) -> Iterator[Any]:
        return (n for n in self.nodes if isinstance(n, kinds))

    def blocks(self) -> Iterator[tuple[ast.Stmt, ...]]:
        return (n.body for n in self.of(ast.Block))

    def _counters(self) -> set[str]:
        """Mutable scalars that orders are made of."""
        mutable = {n.name for n in self.of(ast.ScalarDecl) if n.mutable}
        used: set[str] = set()
        for n in self.of(ast.Wait, ast.Trigger):
            for ref in n.refs if isinstance(n, ast.Wait) else n.events:
                used |= {inner.id for inner in walk(ref) if isinstance(inner, ast.Name)}
        return mutable & used

    def is_event(self, ref: ast.Expr) -> bool:
        base = ref.base if isinstance(ref, ast.At | ast.Subscript) else ref
        return isinstance(base, ast.Name) and base.id in self.events

    def written(self, span: Span) -> str:
        return self.text[span.start : span.end]


def _replace(span: Span, text: str) -> Edit:
    return Edit(span.start, span.end, text)


def _without(items: tuple[Any, ...], at: int) -> Edit:
    """Remove one of several items of a comma list."""
    if at + 1 < len(items):
        return Edit(items[at].span.start, items[at + 1].span.start, "")
    return Edit(items[at - 1].span.end, items[at].span.end, "")


# ------------------------------------------------------------------------------------------------ waits and triggers
def removed_waits(f: _Finder) -> Iterator[Change]:
    for n in f.of(ast.Wait):
        yield Change(
            n.span, "wait-removed", f.written(n.span)[5:], f"`{f.written(n.span)}` removed", (_replace(n.span, ""),)
        )
        for at, ref in enumerate(n.refs):
            if len(n.refs) > 1:
                text = f"`{f.written(ref.span)}` dropped from `{f.written(n.span)}`"
                yield Change(n.span, "wait-dropped", f.written(ref.span), text, (_without(n.refs, at),))


def removed_triggers(f: _Finder) -> Iterator[Change]:
    for n in f.of(ast.Trigger):
        text = f.written(n.span)
        events = ",".join(f.written(e.span) for e in n.events)
        yield Change(n.span, "trigger-removed", events, f"`{text}` removed", (_replace(n.span, ""),))
        for at, event in enumerate(n.events):
            if len(n.events) > 1:
                dropped = f"`{f.written(event.span)}` dropped from `{text}`"
                yield Change(n.span, "trigger-dropped", f.written(event.span), dropped, (_without(n.events, at),))
        if n.after:
            edit = Edit(n.events[-1].span.end, n.after[-1].span.end, "")
            yield Change(n.span, "after-removed", events, f"`after ..` removed from `{text}`", (edit,))
        for at, future in enumerate(n.after):
            if len(n.after) > 1:
                dropped = f"`{future.id}` dropped from `{text}`"
                yield Change(n.span, "after-dropped", future.id, dropped, (_without(n.after, at),))


def swapped_waits(f: _Finder) -> Iterator[Change]:
    """Each wait with the next one of its block."""
    for body in f.blocks():
        waits = [s for s in body if isinstance(s, ast.Wait) and s.span.expansion is None]
        for one, two in pairwise(waits):
            a, b = f.written(one.span), f.written(two.span)
            if a != b:
                edits = (_replace(one.span, b), _replace(two.span, a))
                yield Change(one.span, "waits-swapped", f"{a[5:]}~{b[5:]}", f"`{a}` and `{b}` swapped", edits)


def early_triggers(f: _Finder) -> Iterator[Change]:
    """Each trigger before the wait that precedes it in its block."""
    for body in f.blocks():
        wait: ast.Wait | None = None
        for s in body:
            if isinstance(s, ast.Wait):
                wait = s
            elif isinstance(s, ast.Trigger) and wait is not None:
                moved = f.written(s.span)
                edits = (Edit(wait.span.start, wait.span.start, f"{moved}; "), _replace(s.span, ""))
                text = f"`{moved}` moved before `{f.written(wait.span)}`"
                yield Change(s.span, "trigger-early", moved[8:].partition(" after ")[0], text, edits)


# --------------------------------------------------------------------------------------------------- orders and slots
def orders(f: _Finder) -> Iterator[Change]:
    for n in f.of(ast.Wait, ast.Trigger):
        for ref in n.refs if isinstance(n, ast.Wait) else n.events:
            if not (isinstance(ref, ast.At) and f.is_event(ref)):
                continue
            order = ref.indices[0].span
            text = f"`{f.written(ref.span)}` one generation later"
            yield Change(n.span, "order+1", f.written(ref.span), text, (Edit(order.end, order.end, " + 1"),))


def steps(f: _Finder) -> Iterator[Change]:
    """`order++` and `order = order + 1` without the step."""
    for n in f.of(ast.IncDec):
        if isinstance(n.target, ast.Name) and n.target.id in f.counters:
            name = f.written(n.target.span)
            text = f"`{f.written(n.span)}` without the step"
            yield Change(n.span, "step-removed", name, text, (_replace(n.span, name),))
    for n in f.of(ast.Assign):
        if isinstance(n.target, ast.Name) and n.target.id in f.counters:
            text = f"`{f.written(n.span)}` removed"
            yield Change(n.span, "step-removed", n.target.id, text, (_replace(n.span, ""),))


def counters(f: _Finder) -> Iterator[Change]:
    """Started at 1 instead of 0; declared inside the loop that counts with it."""
    for body in f.blocks():
        for at, s in enumerate(body):
            if not (isinstance(s, ast.ScalarDecl) and s.name in f.counters):
                continue
            if isinstance(s.init, ast.IntLit):
                text = f"`{s.name}` starts at {s.init.value + 1}"
                yield Change(s.span, "start+1", s.name, text, (_replace(s.init.span, str(s.init.value + 1)),))
            loop = next((t for t in body[at:] if isinstance(t, ast.Foreach) and _mentions(t, s.name)), None)
            if loop is not None and f.text[loop.body.span.start] == "{":
                inside = loop.body.span.start + 1
                edits = (_replace(s.span, ""), Edit(inside, inside, f" {f.written(s.span)};"))
                yield Change(s.span, "reset", s.name, f"`{s.name}` declared inside the loop that it counts", edits)


def _mentions(node: ast.Node, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in walk(node))


def slots(f: _Finder) -> Iterator[Change]:
    for n in f.of(ast.Subscript):
        base = n.base.id if isinstance(n.base, ast.Name) else ""
        decl = f.buffers.get(base) or f.events.get(base)
        if decl is None or not decl.array or len(n.indices) != 1:
            continue
        depth = f.written(decl.array[0].span)
        if isinstance(decl.array[0], ast.IntLit) and decl.array[0].value == 1:
            continue
        index = n.indices[0].span
        shifted = f"({f.written(index)} + 1) % {depth}"
        yield Change(
            n.span, "slot+1", f.written(n.span), f"`{f.written(n.span)}` one slot further", (_replace(index, shifted),)
        )


# -------------------------------------------------------------------------------------------------------- declarations
def declarations(f: _Finder) -> Iterator[Change]:
    for n in f.of(ast.EventDecl):
        if n.ready:
            text = f.written(n.span)
            cut = n.span.start + text.rindex("=")
            edit = Edit(cut, n.span.end, "")
            yield Change(n.span, "not-ready", n.name, f"`= ready` removed from `{n.name}`", (edit,))
        else:
            edit = Edit(n.span.end, n.span.end, " = ready")
            yield Change(n.span, "ready", n.name, f"`= ready` added to `{n.name}`", (edit,))
    for n in f.of(ast.EventDecl, ast.BufferDecl):
        if n.array:
            depth = n.array[0].span
            for sign in "+-":
                edit = _replace(depth, f"{f.written(depth)} {sign} 1")
                text = f"`{n.name}` has one slot {'more' if sign == '+' else 'less'}"
                yield Change(n.span, f"depth{sign}1", n.name, text, (edit,))


def barriers(f: _Finder) -> Iterator[Change]:
    for n in f.of(ast.Sync):
        yield Change(
            n.span, "sync-removed", f.written(n.span), f"`{f.written(n.span)}` removed", (_replace(n.span, ""),)
        )


# --------------------------------------------------------------------------------------------------------------- roles
def roles(f: _Finder) -> Iterator[Change]:
    """The condition of `inthreads` off by a warpgroup (of a thread index: by a warp), or only a warp of it."""
    threads = [name for name, (level, bound) in f.units.items() if level == "thread" and (bound or 33) > 32]
    for n in f.of(ast.InThreads):
        text = f.written(n.condition.span)
        for part in walk(n.condition):
            if isinstance(part, ast.Binary) and isinstance(part.right, ast.IntLit):
                for what, changed in _shifted(f, part, part.right.value):
                    description = f"`{f.written(part.span)}` of `{text}` became `{changed}`"
                    yield Change(n.span, what, text, description, (_replace(part.span, f"({changed})"),))
        for name in threads[-1:]:
            if f"{name} < 32" in text or f"{name} ==" in text:
                continue  # no more than a warp already
            edit = _replace(n.condition.span, f"({text}) && {name} < 32")
            yield Change(n.span, "role-warp", text, f"`{text}` only in threads `{name} < 32`", (edit,))


def _shifted(f: _Finder, part: ast.Binary, bound: int) -> Iterator[tuple[str, str]]:
    """Comparisons that hold for a unit more or less, of those that make a difference within the variable's bounds."""
    left = f.written(part.left.span)
    level, most = f.units.get(left, ("group-4", None))
    step = 32 if level == "thread" else 1
    if part.op == "==":
        for other in (bound + step, bound - step):
            if 0 <= other < (most or other + 1):
                yield f"role-or-{other}", f"{left} == {bound} || {left} == {other}"
    elif part.op in ("<", "<=", ">", ">="):
        last = {"<": bound - 1, "<=": bound, ">": bound, ">=": bound - 1}[part.op]  # below or at the cut
        for sign, other in (("+", bound + step), ("-", bound - step)):
            cut = last + other - bound
            if -1 <= cut < (most or cut + 1):
                yield f"role{sign}{step}", f"{left} {part.op} {other}"


Rule = Callable[[_Finder], Iterator[Change]]
RULES: tuple[Rule, ...] = (
    removed_waits,
    removed_triggers,
    swapped_waits,
    early_triggers,
    orders,
    steps,
    counters,
    slots,
    declarations,
    barriers,
    roles,
)
