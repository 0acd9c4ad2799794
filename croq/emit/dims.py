"""Symbolic dimensions as C++ expressions over the kernel's symbol arguments."""

from __future__ import annotations

from collections.abc import Callable

from croq.emit.expressions import Expr, as_expr, binary, call, integer, plus
from croq.sema.symbolic import Atom, Dim

Symbols = Callable[[str], Expr]


def dim_expr(dim: Dim, symbols: Symbols) -> Expr:
    """The value of `dim`; `symbols` gives the C++ name of a symbol."""
    known = dim.known
    if known is not None:
        return integer(known)
    total: Expr | None = None
    for atoms, coefficient in sorted(dim.terms, key=lambda term: term[1] < 0):
        term = _product(atoms, abs(coefficient), symbols)
        if total is None:
            total = term if coefficient > 0 else binary("sub", integer(0), term)
        elif coefficient > 0:
            total = plus(total, term)
        else:
            total = binary("sub", total, term)
    assert total is not None
    return total


def _product(atoms: tuple[Atom, ...], coefficient: int, symbols: Symbols) -> Expr:
    product: Expr | None = None
    for atom in atoms:
        factor = _atom(atom, symbols)
        product = factor if product is None else binary("mul", product, factor)
    if product is None:
        return integer(coefficient)
    return product if coefficient == 1 else binary("mul", product, as_expr(coefficient))


def _atom(atom: Atom, symbols: Symbols) -> Expr:
    if atom.op == "sym":
        return symbols(str(atom.args[0]))
    left, right = (dim_expr(arg, symbols) for arg in atom.args if isinstance(arg, Dim))
    if atom.op in ("div", "mod"):
        return binary(atom.op, left, right)
    return call(f"croq::{atom.op}", left, right)
