"""What names stand for, and the scopes that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from croq.sema.symbolic import Dim
from croq.sema.types import Scalar, View
from croq.source import Span
from croq.syntax import ast


@dataclass(eq=False)
class Symbol:
    name: str
    span: Span

    WORD = "a name"  # what messages call it


@dataclass(eq=False)
class PoisonSymbol(Symbol):
    """Declared by something faulty: every use is silently accepted."""

    WORD = "a faulty declaration"


@dataclass(eq=False)
class ScalarSymbol(Symbol):
    """`origin` tells parameters and dimensions (known to the host) from variables of the device."""

    type: Scalar
    mutable: bool = False
    origin: Literal["param", "dim", "host", "parallel", "iterator", "local"] = "local"
    level: str | None = None  # of a parallel variable
    direct: bool = False  # the parallel variable itself, not something derived from it

    WORD = "a scalar"


@dataclass(eq=False)
class TupleSymbol(Symbol):
    """`t` of `t = {i, j} in [m, n]`: as an index it stands for i, j."""

    members: tuple[ScalarSymbol, ...]

    WORD = "a group of variables"


@dataclass(eq=False)
class DataSymbol(Symbol):
    """A parameter or a buffer. `slots` is None where it is not an array of buffers."""

    element: str
    shape: tuple[Dim, ...]
    storage: Literal["global", "shared", "local"]
    is_param: bool = False
    is_global: bool = True
    slots: int | None = None
    swizzle: int | None = None  # bytes, as requested
    swizzle_span: Span | None = None
    per_unit: ScalarSymbol | None = None  # one tile for each value of this parallel variable
    used: bool = False

    WORD = "data"

    @property
    def static_shape(self) -> tuple[int, ...]:
        return tuple(d.known or 0 for d in self.shape)


@dataclass(eq=False)
class ViewSymbol(Symbol):
    view: View

    WORD = "a view"


@dataclass(eq=False)
class FragmentSymbol(Symbol):
    """Registers. `shape` is None until the first mma that uses an accumulator gives it."""

    element: str
    shape: tuple[int, ...] | None
    slots: int | None = None
    accumulator: bool = False  # made by mma.fill
    shape_span: Span | None = None  # where the shape was fixed

    WORD = "a fragment"


@dataclass(eq=False)
class EventUse:
    """One reference to an event in a wait or a trigger."""

    event: EventSymbol
    span: Span
    slot: ast.Expr | None = None
    order: ast.Expr | None = None
    in_loop: bool = False


@dataclass(eq=False)
class EventSymbol(Symbol):
    slots: int
    array: bool
    ready: bool
    waits: list[EventUse] = field(default_factory=list)
    triggers: list[EventUse] = field(default_factory=list)

    WORD = "an event"


FutureKind = Literal["dma", "tma load", "tma store", "mma"]


@dataclass(eq=False)
class FutureSymbol(Symbol):
    """The handle of a move or an mma. `view` is the destination of a move."""

    kind: FutureKind
    is_async: bool
    scope: Scope
    view: View | None
    waits: list[tuple[Span, Scope]] = field(default_factory=list)
    bound: Span | None = None

    WORD = "a future"


ScopeKind = Literal["function", "parallel", "role", "loop", "branch", "apply", "block"]


@dataclass(eq=False)
class Scope:
    kind: ScopeKind
    parent: Scope | None
    names: dict[str, Symbol] = field(default_factory=dict)
    later: dict[str, Span] = field(default_factory=dict)  # names that statements of the scope will declare

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def inside(self, other: Scope) -> bool:
        return any(scope is other for scope in self.chain())

    def between(self, outer: Scope) -> Iterator[Scope]:
        """The scopes from this one outwards, up to but without `outer`."""
        for scope in self.chain():
            if scope is outer:
                return
            yield scope
