"""What the walk over a program carries along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from croq.diagnostics import Sink, make
from croq.sema.model import FunctionModel, KernelModel, Level, Model
from croq.sema.symbols import EventSymbol, FragmentSymbol, ScalarSymbol, Scope, ScopeKind, Symbol
from croq.sema.types import Interval
from croq.source import Span
from croq.syntax import ast


@dataclass(eq=False)
class ApplyContext:
    """The `apply` being walked: its iterators, in order."""

    iterators: tuple[ScalarSymbol, ...]


@dataclass(eq=False)
class State:
    sink: Sink
    model: Model
    scope: Scope = field(default_factory=lambda: Scope("function", None))
    function: FunctionModel | None = None
    kernel: KernelModel | None = None
    levels: list[Level] = field(default_factory=list)  # active, outermost first
    roles: list[ast.InThreads] = field(default_factory=list)  # active inthreads, outermost first
    loops: int = 0
    apply: ApplyContext | None = None
    facts: list[dict[ScalarSymbol, Interval]] = field(default_factory=list)  # from the conditions around us
    deferred: list[Callable[[], None]] = field(default_factory=list)  # checks that need all shapes of the kernel
    events: list[EventSymbol] = field(default_factory=list)  # of the kernel
    fragments: list[FragmentSymbol] = field(default_factory=list)  # of the kernel
    undefined: set[str] = field(default_factory=set)  # names already reported in this function
    misused: set[Symbol] = field(default_factory=set)  # reported as being of the wrong kind: once is enough
    level_of: dict[ast.ParallelBinding, ast.Level] = field(default_factory=dict)  # settled before the walk
    return_types: dict[str, str] = field(default_factory=dict)  # of the file's device functions
    counter: int = 0  # of names that are made

    @property
    def on_device(self) -> bool:
        return bool(self.levels)

    @contextmanager
    def enter(self, kind: ScopeKind) -> Iterator[Scope]:
        outer = self.scope
        self.scope = Scope(kind, outer)
        try:
            yield self.scope
        finally:
            self.scope = outer

    @contextmanager
    def assuming(self, facts: dict[ScalarSymbol, Interval]) -> Iterator[None]:
        self.facts.append(facts)
        try:
            yield
        finally:
            self.facts.pop()

    def interval_of(self, symbol: ScalarSymbol) -> Interval:
        """What is known of an immutable scalar here, with the conditions around taken into account."""
        interval = symbol.type.interval
        for facts in self.facts:
            if symbol in facts:
                interval = interval.meet(facts[symbol])
        return interval

    def unique(self, name: str) -> str:
        """A name that no other variable has."""
        self.counter += 1
        return f"{name}@{self.counter}"

    def first_misuse(self, symbol: Symbol) -> bool:
        """Whether a use of `symbol` as another kind of thing is worth a message: one slip often repeats."""
        known = symbol in self.misused
        self.misused.add(symbol)
        return not known

    def unsupported(self, span: Span, what: str, hint: str | None = None) -> None:
        self.sink.error(
            "E-3020",
            span,
            f"{what} is not supported",
            notes=["it is part of the language, not of this compiler"],
            hint=hint,
        )

    def note(self, code: str, span: Span, message: str, label: tuple[Span, str]) -> None:
        self.sink.add(make(code, span, message, severity="note", labels=[label]))
