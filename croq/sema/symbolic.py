"""Integers over symbolic dimensions: `cdiv(Q_SEQ, 128)`, `2*K + 1`.

A `Dim` is kept in a normal form: a sum of integer coefficients times products of atoms, where an atom is a symbol or an
irreducible quotient, remainder or minimum. Two equal normal forms are equal expressions; unequal ones may still be
equal in value, so comparison has three answers. Symbols stand for positive integers of 32 bits (they are extents of
arrays).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Union

import croq.numbers as numbers

DimLike = Union["Dim", int]


@dataclass(frozen=True)
class Atom:
    """`op` is `sym` (args: the name), `index` (the name of a variable and the count that it runs up to), or `div`,
    `cdiv`, `mod`, `min`, `max` (two dims)."""

    op: str
    args: tuple[str] | tuple[str, Dim] | tuple[Dim, Dim]

    def __str__(self) -> str:
        if self.op in ("sym", "index"):
            return str(self.args[0])
        left, right = (arg for arg in self.args if isinstance(arg, Dim))
        if self.op == "div":
            return f"{_factor(left)}/{_factor(right)}"
        if self.op == "mod":
            return f"{_factor(left)}%{_factor(right)}"
        return f"{self.op}({left}, {right})"

    def evaluate(self, bindings: Mapping[str, int]) -> int:
        if self.op == "sym":
            return bindings[str(self.args[0])]
        a, b = (d.evaluate(bindings) for d in self.args if isinstance(d, Dim))
        return numbers.ARITHMETIC[self.op].exact(a, b)

    @property
    def count(self) -> Dim | None:
        """Of an index: it lies in 0 .. count - 1."""
        return self.args[1] if self.op == "index" and isinstance(self.args[-1], Dim) else None

    def interval(self) -> numbers.Interval:
        if self.op == "sym":
            return 1, 2**31 - 1
        if self.count is not None:
            return 0, max(self.count.interval()[1] - 1, 0)
        a, b = (d.interval() for d in self.args if isinstance(d, Dim))
        return numbers.exact_interval(self.op, a, b, "s64")

    def symbols(self) -> set[str]:
        if self.op == "sym":
            return {str(self.args[0])}
        return {s for d in self.args if isinstance(d, Dim) for s in d.symbols()}


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Monomial = tuple[Atom, ...]  # sorted by text; () is the constant term


@dataclass(frozen=True)
class Dim:
    """The sum of `coefficient * product(atoms)` over `terms`, which are sorted and have no zero coefficient."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(value: DimLike) -> Dim:
        if isinstance(value, Dim):
            return value
        return Dim((((), value),)) if value else Dim(())

    @staticmethod
    def symbol(name: str) -> Dim:
        return Dim((((Atom("sym", (name,)),), 1),))

    @property
    def known(self) -> int | None:
        """The value, when it is a constant."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    def symbols(self) -> set[str]:
        return {s for monomial, _ in self.terms for atom in monomial for s in atom.symbols()}

    def evaluate(self, bindings: Mapping[str, int]) -> int:
        """The value under `bindings`. Raises KeyError for an unbound symbol, ZeroDivisionError for a zero divisor."""
        total = 0
        for monomial, coefficient in self.terms:
            for atom in monomial:
                coefficient *= atom.evaluate(bindings)
            total += coefficient
        return total

    @staticmethod
    def index(name: str, count: Dim) -> Dim:
        """A variable that takes the values 0 .. count-1."""
        return Dim((((Atom("index", (name, count)),), 1),))

    def interval(self) -> numbers.Interval:
        """Where the value lies, whatever the symbols are. It does not wrap."""
        return self._least(), -(self * -1)._least()

    def _least(self) -> int:
        """An index that is subtracted counts with its last value, which may cancel other terms."""
        for monomial, coefficient in self.terms:
            if len(monomial) == 1 and coefficient < 0 and (count := monomial[0].count) is not None:
                return (self - Dim(((monomial, coefficient),)) + (count - 1) * coefficient)._least()
        total = 0
        for monomial, coefficient in self.terms:
            term = (coefficient, coefficient)
            for atom in monomial:
                term = numbers.ARITHMETIC["mul"].interval(term, atom.interval())
            total += term[0]
        return total

    def __add__(self, other: DimLike) -> Dim:
        return _sum([*self.terms, *Dim.of(other).terms])

    def __sub__(self, other: DimLike) -> Dim:
        return self + Dim.of(other) * -1

    def __mul__(self, other: DimLike) -> Dim:
        pairs = ((m1 + m2, c1 * c2) for m1, c1 in self.terms for m2, c2 in Dim.of(other).terms)
        return _sum([(tuple(sorted(m, key=str)), c) for m, c in pairs])

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: DimLike) -> Dim:
        return Dim.of(other) - self

    def div(self, other: DimLike) -> Dim:
        """The quotient, rounded towards zero."""
        return self._quotient("div", Dim.of(other))

    def cdiv(self, other: DimLike) -> Dim:
        """The quotient, rounded up."""
        return self._quotient("cdiv", Dim.of(other))

    def mod(self, other: DimLike) -> Dim:
        divisor = Dim.of(other)
        if self._exact(divisor) is not None:
            return Dim(())
        return self._atom("mod", divisor)

    def min(self, other: DimLike) -> Dim:
        return self if self == Dim.of(other) else self._atom("min", Dim.of(other))

    def max(self, other: DimLike) -> Dim:
        return self if self == Dim.of(other) else self._atom("max", Dim.of(other))

    def _quotient(self, op: str, divisor: Dim) -> Dim:
        exact = self._exact(divisor)
        return exact if exact is not None else self._atom(op, divisor)

    def _exact(self, divisor: Dim) -> Dim | None:
        """self / divisor when every term is divisible by a one-term divisor."""
        if len(divisor.terms) != 1:
            return Dim.of(1) if self == divisor and divisor.terms else None
        monomial, coefficient = divisor.terms[0]
        terms = []
        for m, c in self.terms:
            rest = list(m)
            for atom in monomial:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if c % coefficient:
                return None
            terms.append((tuple(rest), c // coefficient))
        return _sum(terms)

    def _atom(self, op: str, other: Dim) -> Dim:
        a, b = self.known, other.known
        if a is not None and b is not None and not (b == 0 and op in ("div", "cdiv", "mod")):
            return Dim.of(numbers.ARITHMETIC[op].exact(a, b))
        return Dim((((Atom(op, (self, other)),), 1),))

    def equals(self, other: DimLike) -> bool | None:
        """True or False when it can be proved, else None."""
        difference = self - other
        if difference.known is not None:
            return difference.known == 0
        if all(c > 0 for _, c in difference.terms) and _positive_constant(difference):
            return False
        return None

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts: list[str] = []
        ordered = sorted(self.terms, key=lambda t: (t[0] == (), [str(a) for a in t[0]]))
        for monomial, coefficient in ordered:
            factors = [str(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            text = "*".join(factors)
            sign = "-" if coefficient < 0 else "+"
            parts.append(f" {sign} {text}" if parts else (f"-{text}" if coefficient < 0 else text))
        return "".join(parts)


def _sum(terms: list[tuple[Monomial, int]]) -> Dim:
    totals: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        totals[monomial] = totals.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in totals.items() if c]
    return Dim(tuple(sorted(kept, key=lambda t: (len(t[0]), [str(a) for a in t[0]]))))


def _positive_constant(dim: Dim) -> bool:
    return any(m == () and c > 0 for m, c in dim.terms)


def _factor(dim: Dim) -> str:
    """An operand of a quotient or remainder: in parentheses unless it is one number, name or call."""
    if len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 1:
        single = dim.terms[0][0][0].op in ("sym", "cdiv", "min", "max")
    else:
        single = dim.known is not None and dim.known >= 0
    return str(dim) if single else f"({dim})"
