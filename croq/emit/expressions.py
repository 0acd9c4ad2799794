"""C++ expressions as text with a precedence, combined with as few parentheses as a careful person would write."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from croq.operators import ADD, AND, LAND, LOR, OPERATORS, OR, PRIMARY, SHIFT, TERNARY, UNARY, XOR

_BITS = frozenset({SHIFT, AND, XOR, OR})
_SIMPLE = frozenset({"add", "sub", "mul", "lt", "gt", "le", "ge", "eq", "ne"})

CPP_TYPES = {"f32": "float", "tf32": "float", "f64": "double"}
NARROW_FLOATS = frozenset({"bf16", "f16", "f8_e4m3", "f8_e5m2"})
NARROW_INTEGERS = frozenset({"s8", "u8", "s16", "u16"})
INT_MAX = 2**31 - 1


def cpp_type(element: str) -> str:
    """The C++ type of a scalar of an element type."""
    return CPP_TYPES.get(element, element)


@dataclass(frozen=True)
class Expr:
    """`text` binds as tightly as `prec`. `const`: its value, where it is an integer literal. `suffix`: what makes a
    literal have its type by itself (left out where the other operand says the type). `factor`: it is base * int.
    `reads`: the variables, fragments and memory whose present contents it means. `parts`: operator and operands.
    """

    text: str
    prec: int = PRIMARY
    const: int | None = None
    suffix: str = ""
    factor: tuple[Expr, int] | None = None
    reads: frozenset[Any] = field(default_factory=frozenset)
    parts: tuple[str, Expr, Expr] | None = None
    atom: bool = False  # a name, a literal, an element at a constant place: free to write twice
    pinned: bool = False  # must be computed where it stands, by all threads that come there

    @property
    def simple(self) -> bool:
        """A name combined with a literal, of things that never change: as easily read twice as once."""
        if self.parts is None or self.parts[0] not in _SIMPLE or self.reads:
            return False
        return self.parts[1].atom and self.parts[2].const is not None

    @property
    def exact(self) -> str:
        """The text with a literal's suffix."""
        return self.text + self.suffix

    def __str__(self) -> str:
        return self.text


def name(text: str, reads: frozenset[Any] = frozenset()) -> Expr:
    return Expr(text, atom=True, reads=reads)


def wrap(expr: Expr, prec: int) -> str:
    return expr.text if expr.prec >= prec else f"({expr.text})"


def _operand(expr: Expr, prec: int, parent: int) -> str:
    """An operand of an operator of precedence `parent`; bit operators never mix with others without parentheses."""
    mixed = expr.prec != parent and expr.prec < UNARY and (parent in _BITS or expr.prec in _BITS)
    mixed = mixed or (parent == LOR and expr.prec == LAND)
    return f"({expr.text})" if mixed or expr.prec < prec else expr.text


def binary(op: str, left: Expr, right: Expr) -> Expr:
    symbol, prec = OPERATORS[op].spelling, OPERATORS[op].level
    literals = left.const is not None and (right.const is not None or prec == SHIFT)
    a = left.exact if literals else _operand(left, prec, prec)
    b = _hex(right) if prec in (AND, OR, XOR) and right.const is not None else _operand(right, prec + 1, prec)
    factor = None
    if op == "mul":
        if right.const is not None and left.const is None:
            factor = (left, right.const)
        elif left.const is not None and right.const is None:
            factor = (right, left.const)
    return Expr(f"{a} {symbol} {b}", prec, factor=factor, reads=left.reads | right.reads, parts=(op, left, right))


def unary(symbol: str, operand: Expr) -> Expr:
    text = wrap(operand, UNARY)
    if text.startswith("-"):
        text = f"({text})"
    return Expr(symbol + text, UNARY, reads=operand.reads)


def ternary(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    a = then.exact if otherwise.const is not None else wrap(then, TERNARY + 1)
    text = f"{wrap(condition, TERNARY + 1)} ? {a} : {wrap(otherwise, TERNARY)}"
    return Expr(text, TERNARY, reads=condition.reads | then.reads | otherwise.reads)


def call(function: str, *args: Expr) -> Expr:
    reads: frozenset[Any] = frozenset().union(*(a.reads for a in args)) if args else frozenset()
    return Expr(f"{function}({', '.join(a.exact for a in args)})", reads=reads)


def cast(element: str, operand: Expr) -> Expr:
    """A conversion; one of an atom is as free as the atom."""
    return Expr(f"{cpp_type(element)}({operand.text})", reads=operand.reads, atom=operand.atom)


def index(array: str, at: Expr, reads: frozenset[Any] = frozenset()) -> Expr:
    return Expr(f"{array}[{at.text}]", reads=at.reads | reads)


# ------------------------------------------------------------------------------------------------------- literals
def literal(value: int | float | bool, element: str) -> Expr:
    if element == "bool":
        return Expr("true" if value else "false", atom=True)
    if element in ("f32", "tf32", "f64"):
        return _float(float(value), element)
    if element in NARROW_FLOATS:
        return Expr(f"{element}({_float(float(value), 'f32').text})", atom=True)
    return integer(int(value), element)


def integer(value: int, element: str = "s32") -> Expr:
    suffix = {"u32": "u", "s64": "ll", "u64": "ull"}.get(element, "")
    if element == "s32" and value == -INT_MAX - 1:
        return Expr(f"-{INT_MAX} - 1", ADD, const=value)
    text = str(value)
    if abs(value) > INT_MAX:
        text, suffix = text + suffix, ""
    return Expr(text, UNARY if value < 0 else PRIMARY, const=value, suffix=suffix, atom=True)


def _hex(expr: Expr) -> str:
    """A mask as people write it."""
    assert expr.const is not None
    return hex(expr.const) if expr.const > 9 else expr.text


def _float(value: float, element: str) -> Expr:
    if math.isnan(value):
        text = "croq::bits_float(0x7fc00000u)"
    elif math.isinf(value):
        text = "croq::infinity()"
    else:
        number = np.float64(value) if element == "f64" else np.float32(value)
        text = str(abs(number)) + ("" if element == "f64" else "f")
    negative = math.copysign(1.0, value) < 0 and not math.isnan(value)
    return Expr("-" + text if negative else text, UNARY if negative else PRIMARY, atom=True)


# ------------------------------------------------------------------------------- integer arithmetic for addresses
Term = Expr | int


def as_expr(term: Term) -> Expr:
    return integer(term) if isinstance(term, int) else term


def plus(*terms: Term) -> Expr:
    """The sum; constants are added up and stand last."""
    constant = 0
    total: Expr | None = None
    for term in terms:
        known = term if isinstance(term, int) else term.const
        if isinstance(term, Expr) and term.parts is not None and term.parts[0] in ("add", "sub"):
            split = term.parts[2].const
            if split is not None:
                constant += split if term.parts[0] == "add" else -split
                term = term.parts[1]
        if known is not None:
            constant += known
        elif isinstance(term, Expr):
            total = term if total is None else _flat_sum(total, term)
    if total is None:
        return integer(constant)
    if constant == 0:
        return total
    return binary("add" if constant > 0 else "sub", total, integer(abs(constant)))


def _flat_sum(left: Expr, right: Expr) -> Expr:
    """The sum of integers without parentheses around a sum on the right."""
    total = binary("add", left, right)
    if right.prec == ADD and left.prec >= ADD and left.const is None:
        return Expr(f"{left.text} + {right.text}", ADD, reads=total.reads, parts=total.parts)
    return total


def times(term: Term, by: int) -> Expr:
    term = as_expr(term)
    if term.const is not None:
        return integer(term.const * by)
    if by in (0, 1):
        return term if by else integer(0)
    if term.factor is not None:
        return times(term.factor[0], term.factor[1] * by)
    if term.parts is not None and term.parts[0] == "add" and term.parts[2].const is not None:
        return plus(times(term.parts[1], by), term.parts[2].const * by)
    return binary("mul", term, integer(by))


def divided(term: Term, by: int) -> Expr:
    """Quotient of non-negative integers."""
    term = as_expr(term)
    if term.const is not None:
        return integer(term.const // by)
    if by == 1:
        return term
    if term.factor is not None and term.factor[1] % by == 0:
        return times(term.factor[0], term.factor[1] // by)
    return binary("div", term, integer(by))


def modulo(term: Term, by: int) -> Expr:
    term = as_expr(term)
    if term.const is not None:
        return integer(term.const % by)
    if by == 1 or (term.factor is not None and term.factor[1] % by == 0):
        return integer(0)
    return binary("mod", term, integer(by))


def with_reads(expr: Expr, reads: frozenset[Any]) -> Expr:
    return replace(expr, reads=expr.reads | reads)
