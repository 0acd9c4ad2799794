"""What passes use to change the IR: walk and replace, clone, build with folding, find uses, drop dead code."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import cast

import croq.numbers as numbers
from croq.ir.core import RESULT_FIELDS, Block, Op, Value
from croq.ir.notation import LEFT
from croq.ir.objects import Kernel, Variable
from croq.ir.scalar import (
    Binary,
    BinaryOp,
    BlockIndex,
    Cast,
    Const,
    Math,
    Select,
    Symbol,
    ThreadIndex,
    Unary,
    VarDeclare,
    VarGet,
    VarSet,
)
from croq.ir.types import FLOATS, INTEGERS, ThreadSet
from croq.operators import OPERATORS, TRUTHS
from croq.source import Span

Number = int | float | bool
Rewriter = Callable[[Op], "Sequence[Op] | None"]


# ------------------------------------------------------------------------------------------------ walk and replace
def rewrite_blocks(block: Block, fn: Rewriter) -> None:
    """Replace operations in the block and in all its regions, in place and in program order.

    An operation's regions are rewritten before `fn` sees it (innermost first). `fn` gives None to keep the operation,
    or what stands in its place (an empty list deletes it); replacements are not visited again.
    """
    new: list[Op] = []
    for op in block.ops:
        for region in op.regions():
            rewrite_blocks(region, fn)
        replacement = fn(op)
        new.extend([op] if replacement is None else replacement)
    block.ops = new


def replace_uses(block: Block, value_map: dict[Value, Value]) -> None:
    """Replace operands everywhere in the block."""
    for op in block.walk():
        op.map_operands(lambda value: value_map.get(value, value))


def clone_ops(ops: Iterable[Op], value_map: dict[Value, Value]) -> list[Op]:
    """Deep copies with fresh results; `value_map` (old -> new) is applied to operands and grows by the new results."""
    return [_clone(op, value_map) for op in ops]


def clone_block(block: Block, value_map: dict[Value, Value]) -> Block:
    return Block(clone_ops(block.ops, value_map))


def fresh_value(value: Value, op: Op | None = None) -> Value:
    return Value(value.type, value.name, value.bounds, op)


def _clone(op: Op, value_map: dict[Value, Value]) -> Op:
    new = copy.copy(op)
    for value in op.results():
        value_map[value] = fresh_value(value, None if value.op is None else new)
    for f in fields(op):
        item = getattr(op, f.name)
        if f.name in RESULT_FIELDS and item is not None:
            setattr(new, f.name, tuple(value_map[v] for v in item) if isinstance(item, tuple) else value_map[item])
        elif isinstance(item, Block):
            setattr(new, f.name, clone_block(item, value_map))
    # After the regions: a `while` takes its condition from inside its head.
    new.map_operands(lambda value: value_map.get(value, value))
    return new


# ------------------------------------------------------------------------------------------------------- questions
def uses(block: Block) -> dict[Value, list[Op]]:
    """Who has a value as an operand, in program order; values without a use have no entry."""
    found: dict[Value, list[Op]] = {}
    for op in block.walk():
        for value in op.operands():
            users = found.setdefault(value, [])
            if not users or users[-1] is not op:
                users.append(op)
    return found


def parent_map(kernel: Kernel) -> dict[Op, Op | None]:
    """The operation whose region holds each operation; None at the top of the kernel."""
    parents: dict[Op, Op | None] = dict.fromkeys(kernel.body.ops)
    for op in kernel.walk():
        for region in op.regions():
            for inner in region.ops:
                parents[inner] = op
    return parents


def ancestors(op: Op, parents: dict[Op, Op | None]) -> Iterable[Op]:
    """The operations around `op`, innermost first."""
    around = parents.get(op)
    while around is not None:
        yield around
        around = parents.get(around)


def constant(value: Value) -> Number | None:
    """What the value is, when a `const` defines it."""
    return value.op.value if isinstance(value.op, Const) else None


def remove_dead(block: Block, also: Callable[[Op], bool] = lambda op: False) -> None:
    """Remove pure operations (and those that `also` says may go) whose results nothing uses.

    `block` must hold every use of the values that it defines.
    """
    counts: dict[Value, int] = {}
    for op in block.walk():
        for value in op.operands():
            counts[value] = counts.get(value, 0) + 1
    _sweep(block, counts, also)


def _sweep(block: Block, counts: dict[Value, int], also: Callable[[Op], bool]) -> None:
    kept: list[Op] = []
    for op in reversed(block.ops):
        for region in reversed(list(op.regions())):
            _sweep(region, counts, also)
        removable = op.PURE or also(op)
        if removable and not any(counts.get(value) for value in op.results()):
            for value in op.operands():
                counts[value] -= 1
        else:
            kept.append(op)
    block.ops = kept[::-1]


# ----------------------------------------------------------------------------------------------------------- build
def by(rule: str, ops: Iterable[Op]) -> list[Op]:
    """The operations, of which those that order say why they are here; what has a reason keeps it."""
    made = list(ops)
    for op in (inner for outer in made for inner in outer.walk()):
        if op.ORDERS and op.rule is None:
            op.rule = rule
    return made


@dataclass
class Builder:
    """Collects operations that all carry one span and one set of threads. Arithmetic on constants is folded."""

    span: Span | None = None
    threads: ThreadSet | None = None
    ops: list[Op] = field(default_factory=list)

    def add(self, op: Op) -> None:
        """Append an operation; its span and threads become the builder's where they are not set."""
        op.span = op.span or self.span
        op.threads = op.threads if op.threads is not None else self.threads
        for name in LEFT:
            value = getattr(op, name, None)
            if value is not None:
                value.op = op
        self.ops.append(op)

    def take(self) -> list[Op]:
        """What was collected so far; the builder starts anew."""
        taken, self.ops = self.ops, []
        return taken

    def const(self, type: str, value: Number, name: str | None = None) -> Value:
        value = _of_type(type, value)
        whole = isinstance(value, int) and not isinstance(value, bool)
        return self._result(
            Const(value, Value(type, name, (cast(int, value), cast(int, value) + 1) if whole else None))
        )

    def symbol(self, symbol: str, type: str = "s32") -> Value:
        return self._result(Symbol(symbol, Value(type, symbol)))

    def thread_index(self, count: int | None = None) -> Value:
        """Linear index of the thread in its CTA of `count` threads."""
        return self._result(ThreadIndex(Value("s32", None, None if count is None else (0, count))))

    def block_index(self, axis: int, name: str | None = None) -> Value:
        return self._result(BlockIndex(axis, Value("s32", name)))

    def binary(self, op: BinaryOp, left: Value, right: Value | Number, name: str | None = None) -> Value:
        """`left op right`; a number on the right is a constant of left's type."""
        a = constant(left)
        b = constant(right) if isinstance(right, Value) else right
        type = "bool" if op in TRUTHS else left.type
        if a is not None and b is not None and (folded := _fold(op, left.type, a, b)) is not None:
            return self.const(type, folded, name)
        if name is None and b is not None and left.type in INTEGERS and OPERATORS[op].neutral == b:
            return left
        if not isinstance(right, Value):
            right = self.const(left.type, right)
        return self._result(Binary(op, left, right, Value(type, name, _bounds(op, left, right))))

    def unary(self, op: str, operand: Value, name: str | None = None) -> Value:
        value = constant(operand)
        if value is not None and op == "neg":
            negative = -value if isinstance(value, float) else numbers.wrap(-value, operand.type)
            return self.const(operand.type, negative, name)
        if value is not None and op == "lnot":
            return self.const("bool", not value, name)
        return self._result(Unary(op, operand, Value(operand.type, name)))  # type: ignore[arg-type]

    def select(self, condition: Value, then: Value, otherwise: Value, name: str | None = None) -> Value:
        known = constant(condition)
        if known is not None:
            return then if known else otherwise
        return self._result(Select(condition, then, otherwise, Value(then.type, name)))

    def cast(self, operand: Value, type: str, name: str | None = None) -> Value:
        """`operand` as a value of `type`: itself when it has the type already."""
        if operand.type == type:
            return operand
        value = constant(operand)
        if value is not None:
            return self.const(type, numbers.convert(numbers.convert(value, operand.type), type), name)
        interval = known_interval(operand) if {operand.type, type} <= INTEGERS else None
        keeps = interval is not None and numbers.fits(interval, type)
        return self._result(Cast(operand, Value(type, name, operand.bounds if keeps else None)))

    def math(self, fn: str, args: Sequence[Value], name: str | None = None) -> Value:
        return self._result(Math(fn, tuple(args), Value(args[0].type, name)))

    def var_declare(self, var: Variable, init: Value) -> None:
        self.add(VarDeclare(var, self.cast(init, var.type)))

    def var_get(self, var: Variable, name: str | None = None) -> Value:
        return self._result(VarGet(var, Value(var.type, name)))

    def var_set(self, var: Variable, value: Value) -> None:
        self.add(VarSet(var, self.cast(value, var.type)))

    def _result(self, op: Op) -> Value:
        self.add(op)
        return next(iter(op.results()))


def _of_type(type: str, value: Number) -> Number:
    if type == "bool":
        return bool(value)
    return float(value) if type in FLOATS else int(value)


def _fold(op: str, type: str, a: Number, b: Number) -> Number | None:
    if type == "bool":
        return {"land": a and b, "lor": a or b, "eq": a == b, "ne": a != b}.get(op)
    if isinstance(a, float) or isinstance(b, float):
        return None  # rounding is the target's business
    if op in numbers.DIVISIONS and b == 0:
        return None
    return numbers.integer(op, a, b, type)


def _bounds(op: str, left: Value, right: Value) -> tuple[int, int] | None:
    """Bounds of an integer result that cannot wrap, from those of the operands."""
    if left.type not in INTEGERS or op in TRUTHS:
        return None
    a, b = known_interval(left), known_interval(right)
    if b is None or (a is None and op not in ("mod", "and", "min", "max")):
        return None
    found = numbers.exact_interval(op, a or numbers.limits(left.type), b, left.type)
    return (found[0], found[1] + 1) if numbers.fits(found, left.type) else None


def known_interval(value: Value) -> numbers.Interval | None:
    """The bounds of a value with both ends."""
    return None if value.bounds is None else (value.bounds[0], value.bounds[1] - 1)
