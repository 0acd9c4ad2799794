"""The machinery of the IR: values, named objects, blocks, operations.

An operation is a dataclass whose annotations declare what each field *is*; printer, walker, cloner and verifier are
derived from those declarations. The kinds a field may have:

    Value, Value | None, tuple[Value, ...]      operands (`result`/`results`/`iv`/`iterators` fields: values it defines)
    Block, Block | None                         regions
    Event, Buffer, Fragment, Param, Variable, TensorMap ... (anything in OBJECTS)   named objects
    View, EventRef, FragRef ... (any Composite), also optional or in tuples         objects together with operands
    int, str, bool, float, None and tuples of them, Dim                              attributes

Scalars and futures are SSA values. Buffers, fragments, events and mutable variables are named objects that operations
read and write: `Read[View]`, `Write[View]`, `Update[FragRef]` (both) say so of a field, `Op.effects()` of an operation.

What else matters of an operation to those who order, move or follow operations are its traits, class variables that
`@operation` sets. Passes and consumers ask for them, never for lists of classes.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from inspect import get_annotations
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from croq.ir.types import ThreadSet
from croq.sema.symbolic import Dim
from croq.source import Span


@dataclass(eq=False)
class Value:
    """An SSA value: a scalar of an element type, or a future. `name` is the source's name for it, if it has one.

    `bounds` is `[lo, hi)` where it is known statically.
    """

    type: str
    name: str | None = None
    bounds: tuple[int, int] | None = None
    op: Op | None = field(default=None, repr=False)  # what defines it; None for a region's own values


@dataclass(eq=False)
class Object:
    """A named thing that operations refer to. Names are unique in a kernel among objects of one class."""

    name: str
    span: Span | None = field(repr=False, kw_only=True, default=None)

    @property
    def root(self) -> Object:
        """What is touched where this is: itself; what it stands for, of a tensor map."""
        return self


_NAMES: dict[Any, tuple[str, ...]] = {}


def names(kind: Any) -> tuple[str, ...]:
    """Of the fields of a dataclass."""
    if kind not in _NAMES:
        _NAMES[kind] = tuple(f.name for f in fields(kind))
    return _NAMES[kind]


class Composite:
    """An object reference together with operand values: a dataclass of Values, objects and attributes."""

    def values(self) -> Iterator[Value]:
        for name in names(type(self)):
            yield from _values_in(getattr(self, name))

    def map_values(self, fn: Callable[[Value], Value]) -> Composite:
        """A copy with every operand replaced by `fn(operand)`."""
        new = {name: _map_in(getattr(self, name), fn) for name in names(type(self))}
        return type(self)(**new)


@dataclass(eq=False)
class Block:
    """A list of operations; every block is a scope of its own for names."""

    ops: list[Op] = field(default_factory=list)

    def walk(self) -> Iterator[Op]:
        """Every operation in the block, outermost first, in program order."""
        for op in list(self.ops):
            yield from op.walk()

    def effects(self) -> Iterator[Effect]:
        for op in list(self.ops):
            yield from op.effects()


# ------------------------------------------------------------------------------------------------------ effects
Vocabulary = Literal["both", "tile", "hw"]
Control = Literal["branch", "loop", "exit", "threads", "map"]
Mechanism = Literal["mbarrier", "named barrier", "event", "future", "bulk group", "commit group"]
Meeting = Literal["warp", "warpgroup", "threads", "unit"]  # each warp, .., all threads of the operation, of a unit
Engine = Literal["tma", "wgmma"]
Access = Literal["read", "write", "update"]
_T = TypeVar("_T")
Read = Annotated[_T, "read"]
Write = Annotated[_T, "write"]
Update = Annotated[_T, "update"]


@dataclass(frozen=True)
class Effect:
    """`op` touches `target`; `until`: what ends the touch, where that goes on after the operation."""

    kind: Literal["read", "write"]
    target: Any  # Buffer | Fragment | Param | Variable | TensorMap | View | FragRef
    op: Op
    until: Mechanism | None = None

    @property
    def root(self) -> Any:
        """The parameter, buffer, fragment or variable that the target is, or is a part of."""
        return self.target.root


RESULT_FIELDS = frozenset({"result", "future", "iv", "iterators", "row_iterators"})


@dataclass(eq=False)
class Op:
    NAME: ClassVar[str] = ""
    NOUN: ClassVar[str] = "an ordinary access"  # what diagnostics call one that touches memory
    VOCABULARY: ClassVar[Vocabulary] = "both"  # "tile": none may be left after lowering
    PURE: ClassVar[bool] = False  # may be removed when unused, moved and duplicated
    EXPRESSION: ClassVar[bool] = False  # gives a value, pure or one that it reads, and does nothing else
    ORDINARY: ClassVar[bool] = False  # computes, branches, accesses memory as one thread; orders and starts nothing
    OPAQUE: ClassVar[bool] = False  # text that the IR does not understand: it may do anything
    REGISTERS: ClassVar[bool] = False  # works on whole fragments
    CONTROL: ClassVar[Control | None] = None  # what it does to control flow; "threads": says who runs its region
    ENGINE: ClassVar[Engine | None] = None  # which engine it is for: it starts it, or keeps its books
    UNTIL: ClassVar[Mechanism | None] = None  # what completes its accesses, where they outlast it
    ARRIVES: ClassVar[Mechanism | None] = None  # on what its threads' arrival counts
    WAITS: ClassVar[Mechanism | None] = None  # for whose completion its threads wait
    MEETS: ClassVar[Meeting | None] = None  # none of these goes on before all have come
    COLLECTIVE: ClassVar[Meeting | None] = None  # these must execute it together
    ORDERS: ClassVar[bool] = False  # of the machine, and touches no data: it elects, arrives, waits, meets, fences ..
    ACCESSES: ClassVar[tuple[tuple[str, Access], ...]] = ()  # its fields that are touched
    REGIONS: ClassVar[tuple[str, ...]] = ()  # its fields that are blocks
    RESULTS: ClassVar[tuple[str, ...]] = ()  # that hold values which it defines
    OPERANDS: ClassVar[tuple[str, ...]] = ()  # that hold others
    REFERENCES: ClassVar[tuple[str, ...]] = ()  # that hold objects

    span: Span | None = field(kw_only=True, default=None)
    threads: ThreadSet | None = field(kw_only=True, default=None)  # who executes it; None: not analysed or dynamic
    rule: str | None = field(kw_only=True, default=None)  # why it is here: the rule of a pass, `events.B2`

    def results(self) -> Iterator[Value]:
        """Values that the operation defines for the operations after it, or for its regions."""
        for name in self.RESULTS:
            yield from _values_in(getattr(self, name))

    def operands(self) -> Iterator[Value]:
        for name in self.OPERANDS:
            yield from _values_in(getattr(self, name))

    def regions(self) -> Iterator[Block]:
        for name in self.REGIONS:
            block = getattr(self, name)
            if block is not None:
                yield block

    def walk(self) -> Iterator[Op]:
        """The operation and every operation inside, outermost first, in program order."""
        yield self
        for region in self.regions():
            yield from region.walk()

    def own_effects(self) -> Iterator[Effect]:
        """What the operation itself touches: reads, then writes."""
        until = self.UNTIL if self.UNTIL != "future" or getattr(self, "future", None) is not None else None
        for kind, others in (("read", ("read", "update")), ("write", ("write", "update"))):
            for name, access in self.ACCESSES:
                if access in others:
                    item = getattr(self, name)
                    for target in item if isinstance(item, tuple) else (item,):
                        if not isinstance(target, Value):
                            yield Effect(kind, target, self, until)  # type: ignore[arg-type]

    def effects(self) -> Iterator[Effect]:
        """What the operation touches, and every operation inside."""
        for op in self.walk():
            yield from op.own_effects()

    # ------------------------------------------------------------------------------------------- what it does to others
    @property
    def decided_by(self) -> Value | None:
        """What decides whether, or how often, its regions run."""
        if self.CONTROL is None:
            return None
        return getattr(self, "condition", None) or getattr(self, "count", None)

    @property
    def events(self) -> tuple[Any, ...]:
        """The events that it arrives on, waits for, or lets its bytes count on."""
        event = getattr(self, "event", None)
        return (event,) if event is not None else tuple(ref.event for ref in getattr(self, "refs", ()))

    @property
    def feeds(self) -> tuple[Any, ...]:
        """Events whose completion depends on it: on its arrival, or on its bytes."""
        return self.events if self.ARRIVES is not None or self.UNTIL == "mbarrier" else ()

    @property
    def awaits(self) -> tuple[Any, ...]:
        """Events whose completion it waits for."""
        return self.events if self.WAITS is not None else ()

    @property
    def releases(self) -> bool:
        """Whether other threads may go on because its threads have come here. A wait for an event lets nobody go on."""
        return self.ARRIVES is not None or (self.MEETS is not None and not self.awaits)

    @property
    def collective(self) -> str | None:
        """`COLLECTIVE`, where attributes decide of it."""
        return self.COLLECTIVE

    def map_operands(self, fn: Callable[[Value], Value]) -> None:
        """Replace every operand in place (results and regions are untouched)."""
        for name in self.OPERANDS:
            setattr(self, name, _map_in(getattr(self, name), fn))


_OpT = TypeVar("_OpT", bound=type[Op])
REGISTRY: dict[str, type[Op]] = {}
_ATTRIBUTES = (int, str, bool, float, NoneType, Dim, Span, ThreadSet)


@dataclass_transform(eq_default=False)
def operation(name: str, vocabulary: Vocabulary = "both", *, pure: bool = False) -> Callable[[_OpT], _OpT]:
    """Declare an operation class: makes it a dataclass, checks the kind of every field, registers its name."""

    def decorate(cls: _OpT) -> _OpT:
        made = dataclass(eq=False)(cls)
        made.NAME, made.VOCABULARY, made.PURE = name, vocabulary, pure
        hints = {name: hint for base in reversed(made.__mro__) for name, hint in _hints(base).items()}
        touched = []
        for f in fields(made):
            hint = hints[f.name]
            if get_origin(hint) is Annotated:
                hint, access = get_args(hint)
                touched.append((f.name, access))
            _check_kind(name, f.name, hint)
        made.ACCESSES = tuple(touched)
        made.REGIONS = tuple(f.name for f in fields(made) if Block in (hints[f.name], *get_args(hints[f.name])))
        made.RESULTS = tuple(f.name for f in fields(made) if f.name in RESULT_FIELDS)
        holders = [f.name for f in fields(made) if _holds(hints[f.name], Value, Composite)]
        made.OPERANDS = tuple(n for n in holders if n not in RESULT_FIELDS)
        made.REFERENCES = tuple(f.name for f in fields(made) if _holds(hints[f.name], Object, Composite))
        made.ORDERS = made.__dict__.get("ORDERS", vocabulary == "hw" and not touched and not made.REGISTERS)
        made.ORDINARY |= pure or made.CONTROL in ("loop", "branch", "exit")
        made.EXPRESSION = pure or ("result" in hints and {access for _, access in touched} == {"read"})
        if name in REGISTRY:
            raise TypeError(f"two operations are called {name}")
        REGISTRY[name] = made
        return typing.cast(_OpT, made)

    return decorate


@cache
def _hints(cls: type) -> dict[str, Any]:
    """Of the fields that the class itself declares: `typing.get_type_hints` evaluates those of its bases each time."""
    return get_annotations(cls, eval_str=True)


def _holds(hint: Any, *kinds: type) -> bool:
    """Whether a field of this kind may hold one of those."""
    return any(_holds(arg, *kinds) for arg in get_args(hint)) or (isinstance(hint, type) and issubclass(hint, kinds))


def _check_kind(op: str, name: str, hint: Any) -> None:
    origin = get_origin(hint)
    if origin in (Union, UnionType, tuple):
        for arg in get_args(hint):
            if arg is not Ellipsis:
                _check_kind(op, name, arg)
    elif origin is Literal:
        return
    elif not (isinstance(hint, type) and issubclass(hint, (Value, Block, Object, Composite, *_ATTRIBUTES))):
        raise TypeError(f"{op}.{name}: no field kind for {hint!r}")


def _values_in(item: Any) -> Iterator[Value]:
    if isinstance(item, Value):
        yield item
    elif isinstance(item, Composite):
        yield from item.values()
    elif isinstance(item, tuple):
        for part in item:
            yield from _values_in(part)


def _map_in(item: Any, fn: Callable[[Value], Value]) -> Any:
    if isinstance(item, Value):
        return fn(item)
    if isinstance(item, Composite):
        return item.map_values(fn)
    if isinstance(item, tuple):
        return tuple(_map_in(part, fn) for part in item)
    return item
