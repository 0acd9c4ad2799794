"""What building a kernel carries along: where operations go, and what each symbol has become."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.objects import Buffer, Event, Fragment, FragRef, Kernel, Param, Variable, View
from croq.ir.rewrite import Builder
from croq.ir.scalar import Symbol as SymbolOp
from croq.sema.model import KernelModel, Level, Model
from croq.sema.symbolic import Atom, Dim
from croq.sema.symbols import DataSymbol, EventSymbol, FragmentSymbol, FutureSymbol, ScalarSymbol, Symbol
from croq.sema.types import Scalar
from croq.source import Span
from croq.syntax import ast


class KernelBuilder:
    """State of one kernel. `ir` collects the operations of the block being built, `entry` those of the start."""

    def __init__(self, model: Model, made_from: KernelModel, sink: Sink, kernel: Kernel) -> None:
        self.model = model
        self.made_from = made_from
        self.sink = sink
        self.kernel = kernel
        self.ir = Builder()
        self.entry: list[Op] = []
        self.values: dict[Symbol, Value] = {}
        self.variables: dict[ScalarSymbol, Variable] = {}
        self.counts: dict[Symbol, Value] = {}  # of the variables of a `with`
        self.data: dict[DataSymbol, Param | Buffer] = {}
        self.places: dict[Symbol, View] = {}  # of named views, futures, buffers of one unit
        self.fragments: dict[FragmentSymbol, tuple[Fragment, ...]] = {}
        self.events: dict[EventSymbol, Event] = {}
        self.futures: dict[FutureSymbol, Value] = {}
        self.levels: list[Level] = []
        self.from_host: dict[str, Value] = {}
        self.host_values: dict[Symbol, ast.Expr] = {
            model.symbols[stmt]: value
            for stmt in made_from.function.host
            if (value := stmt.init if isinstance(stmt, ast.ScalarDecl) else stmt.value) is not None
        }

    # ----------------------------------------------------------------------------------------------- where things go
    @contextmanager
    def region(self) -> Iterator[Block]:
        """Collect operations in a block of their own."""
        outer, self.ir.ops = self.ir.ops, []
        block = Block()
        try:
            yield block
        finally:
            block.ops, self.ir.ops = self.ir.ops, outer

    @contextmanager
    def at_entry(self, span: Span | None) -> Iterator[None]:
        """Put operations at the start of the kernel."""
        outer, old = self.ir.ops, self.ir.span
        self.ir.ops, self.ir.span = self.entry, span
        try:
            yield
        finally:
            self.ir.ops, self.ir.span = outer, old

    @contextmanager
    def spanned(self, span: Span) -> Iterator[None]:
        old, self.ir.span = self.ir.span, span
        try:
            yield
        finally:
            self.ir.span = old

    # -------------------------------------------------------------------------------------------------------- naming
    def named(self, value: Value, name: str, known: Scalar | None = None) -> Value:
        """Give a value that was just made the name of what it is assigned to."""
        if value.name is None and self.ir.ops and value.op is self.ir.ops[-1]:
            value.name = name
        if known is not None:
            self.bounded(value, known)
        return value

    def bounded(self, value: Value, known: Scalar) -> None:
        """Note what the analysis found out about the value that was just made."""
        found = known.interval.half_open
        if found is None or not self.ir.ops or value.op is not self.ir.ops[-1] or not known.is_integer:
            return
        lo, hi = value.bounds or found
        lo, hi = max(lo, found[0]), min(hi, found[1])
        value.bounds = (lo, hi) if lo < hi else None  # empty: code that is never executed

    def variable(self, symbol: ScalarSymbol, init: Value) -> Variable:
        made = self.temporary(symbol.name, symbol.type.element, init, symbol.span)
        self.variables[symbol] = made
        return made

    def temporary(self, name: str, element: str, init: Value, span: Span | None) -> Variable:
        made = Variable(self.kernel.fresh(name), element, span=span)
        self.kernel.variables.append(made)
        self.ir.var_declare(made, init)
        return made

    # ------------------------------------------------------------------------------------------- symbols and dimensions
    def host_symbol(self, name: str, element: str, span: Span | None) -> Value:
        """A dimension or a scalar parameter."""
        if name not in self.from_host:
            with self.at_entry(span):
                value = Value(element, name)
                self.ir.add(SymbolOp(name, value))
            self.from_host[name] = value
        return self.from_host[name]

    def dim(self, dim: Dim, element: str = "s32") -> Value:
        """The value of a symbolic integer, as `element`."""
        total: Value | None = None
        for monomial, coefficient in sorted(dim.terms, key=lambda term: term[0] == ()):
            part = self._monomial(monomial, abs(coefficient), element)
            if total is None:
                total = part if coefficient > 0 else self.ir.unary("neg", part)
            else:
                total = self.ir.binary("add" if coefficient > 0 else "sub", total, part)
        return total if total is not None else self.ir.const(element, 0)

    def _monomial(self, monomial: tuple[Atom, ...], coefficient: int, element: str) -> Value:
        product: Value | None = None
        for atom in monomial:
            factor = self._atom(atom, element)
            product = factor if product is None else self.ir.binary("mul", product, factor)
        if product is None:
            return self.ir.const(element, coefficient)
        return product if coefficient == 1 else self.ir.binary("mul", product, coefficient)

    def _atom(self, atom: Atom, element: str) -> Value:
        if atom.op == "sym":
            name = str(atom.args[0])
            return self.ir.cast(self.host_symbol(name, self._symbol_type(name), None), element)
        left, right = (d for d in atom.args if isinstance(d, Dim))
        known = right.known
        divisor = known if known is not None else self.dim(right, element)
        return self.ir.binary(atom.op, self.dim(left, element), divisor)  # type: ignore[arg-type]

    def _symbol_type(self, name: str) -> str:
        for symbol in self.made_from.function.params:
            if symbol.name == name and isinstance(symbol, ScalarSymbol):
                return symbol.type.element
        return "s32"

    # ------------------------------------------------------------------------------------------------------- fragments
    def fragment(self, symbol: FragmentSymbol) -> tuple[Fragment, ...]:
        """The objects of a fragment symbol, one an element of an array."""
        if symbol not in self.fragments:
            count = symbol.slots or 1
            names = [symbol.name] if symbol.slots is None else [f"{symbol.name}_{k}" for k in range(count)]
            made = []
            for name in names:
                made.append(Fragment(self.kernel.fresh(name), symbol.element, symbol.shape, span=symbol.span))
                self.kernel.fragments.append(made[-1])
            self.fragments[symbol] = tuple(made)
        return self.fragments[symbol]

    def frag_ref(self, expr: ast.Expr) -> FragRef:
        use = self.model.fragments[expr]
        return FragRef(self.fragment(use.fragment)[use.index or 0])
