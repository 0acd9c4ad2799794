"""What an expression is: scalars with what is known of their value, and views of data.

A scalar carries, beside its element type, whatever the analysis knows about its value: a constant, an expression over
symbolic dimensions, an interval, a bound in the sense of the language (`#v`), and the parallel variables that it is
derived from. Everything is optional; less knowledge only means fewer static checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import croq.numbers as numbers
from croq.sema.symbolic import Dim
from croq.syntax import ast

if TYPE_CHECKING:
    from croq.sema.symbols import DataSymbol, ScalarSymbol, Symbol

BYTES, FLOATS, INTEGERS = numbers.BYTES, numbers.FLOATS, numbers.INTEGERS
WIDE_FLOATS = ("f64", "f32")
NARROW_FLOATS = ("tf32", "f16", "bf16", "f8_e4m3", "f8_e5m2")
SIGNED = frozenset({"s64", "s32", "s16", "s8"})
ERROR_ELEMENT = "error"


@dataclass(frozen=True)
class Interval:
    """Inclusive bounds of an integer; None is unlimited."""

    lo: int | None = None
    hi: int | None = None

    def meet(self, other: Interval) -> Interval:
        lo = self.lo if other.lo is None else other.lo if self.lo is None else max(self.lo, other.lo)
        hi = self.hi if other.hi is None else other.hi if self.hi is None else min(self.hi, other.hi)
        return Interval(lo, hi)

    @property
    def single(self) -> bool:
        return self.lo is not None and self.lo == self.hi

    @property
    def half_open(self) -> tuple[int, int] | None:
        if self.lo is None or self.hi is None or self.hi < self.lo:
            return None
        return self.lo, self.hi + 1


ANYTHING = Interval()


@dataclass(frozen=True)
class Scalar:
    """The type of a scalar expression and what is known of its value.

    `value` is present when the host can compute the integer from dimensions and scalar parameters. `bound` is the upper
    bound of a bounded integer (`#v`), which need not be tight. `varies` holds the parallel variables it comes from.
    """

    element: str
    constant: int | float | bool | None = None
    value: Dim | None = None
    interval: Interval = ANYTHING
    bound: Dim | None = None
    varies: frozenset[ScalarSymbol] = frozenset()
    literal: bool = False  # written as a bare number: takes the type of what it meets
    mutable: bool = False  # read from a mutable variable
    form: Dim | None = None  # of an index or an extent: its exact value, made of extents, indices and constants alone

    @property
    def is_error(self) -> bool:
        return self.element == ERROR_ELEMENT

    @property
    def is_integer(self) -> bool:
        return self.element in INTEGERS or self.is_error

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS or self.is_error

    @property
    def is_bool(self) -> bool:
        return self.element == "bool" or self.is_error

    @property
    def known(self) -> int | None:
        """The integer value, when it is a constant."""
        if isinstance(self.constant, int) and not isinstance(self.constant, bool):
            return self.constant
        return None

    def without_value(self) -> Scalar:
        return replace(self, constant=None, value=None, interval=ANYTHING, bound=None, literal=False)


ERROR = Scalar(ERROR_ELEMENT)
BOOL = Scalar("bool")


def integer(value: int, element: str = "s32", *, literal: bool = False) -> Scalar:
    return Scalar(element, value, Dim.of(value), Interval(value, value), literal=literal, form=Dim.of(value))


def from_dim(value: Dim, element: str = "s32") -> Scalar:
    """An integer that the host computes; an s64 where 32 bits may not hold it."""
    known = value.known
    if element == "s32" and not numbers.fits(value.interval(), "s32"):
        element = "s64"
    if known is not None:
        return integer(known, element)
    return Scalar(element, value=value, interval=opened(value.interval(), element), form=value)


def bounded(name: str, bound: Dim) -> Scalar:
    """A variable `name`, unique in the program, of the values 0 .. bound-1: no more than fit in an s32."""
    most = min(bound.interval()[1], 2**31 - 1) - 1
    return Scalar("s32", interval=Interval(0, most), bound=bound, form=Dim.index(name, bound))


def closed(interval: Interval, element: str) -> numbers.Interval:
    """The same with both ends: those of the type where nothing is known."""
    low, high = numbers.limits(element)
    return low if interval.lo is None else interval.lo, high if interval.hi is None else interval.hi


def opened(interval: numbers.Interval, element: str) -> Interval:
    """Without ends that say no more than the type; that unsigned numbers are not negative is kept."""
    low, high = numbers.limits(element)
    return Interval(interval[0] if interval[0] > low or low == 0 else None, interval[1] if interval[1] < high else None)


def width(element: str) -> int:
    return BYTES.get(element, 4)


def promote(a: Scalar, b: Scalar) -> str | None:
    """The common type of an arithmetic operation; None when there is none."""
    if a.is_error or b.is_error:
        return ERROR_ELEMENT
    if a.element == b.element:
        return None if a.element == "bool" else a.element
    if "bool" in (a.element, b.element):
        return None
    if a.is_integer and b.is_integer:
        return _promote_integers(a, b)
    if a.is_integer:
        return b.element
    if b.is_integer:
        return a.element
    return _promote_floats(a, b)


def _promote_integers(a: Scalar, b: Scalar) -> str:
    if a.literal and not b.literal and width(a.element) <= width(b.element):
        return b.element
    if b.literal and not a.literal and width(b.element) <= width(a.element):
        return a.element
    if width(a.element) != width(b.element):
        return a.element if width(a.element) > width(b.element) else b.element
    return a.element if a.element not in SIGNED else b.element


def _promote_floats(a: Scalar, b: Scalar) -> str | None:
    if a.literal and a.element == "f64":
        return b.element
    if b.literal and b.element == "f64":
        return a.element
    for wide in WIDE_FLOATS:
        if wide in (a.element, b.element):
            return wide
    return None


# --------------------------------------------------------------------------------------------------------- views
@dataclass(frozen=True)
class Term:
    """`index * scale` elements, where `index` is an expression of the program."""

    index: ast.Expr
    scale: Dim


@dataclass(frozen=True)
class Axis:
    """A view along one dimension of its root.

    `terms` are what this expression adds to the offset that its base already has; `varies` covers the whole offset.
    """

    extent: Dim
    kept: bool = True
    terms: tuple[Term, ...] = ()
    varies: frozenset[ScalarSymbol] = frozenset()


@dataclass(frozen=True)
class View:
    """A view expression, resolved.

    It starts at `base` (data, a view name or a data future), picks the tile `slot` of it when `base` is an array, and
    has one `axes` entry a dimension of `root`, the data underneath.
    """

    base: Symbol
    root: DataSymbol
    slot: ast.Expr | None
    slot_varies: frozenset[ScalarSymbol]
    axes: tuple[Axis, ...]

    @property
    def element(self) -> str:
        return self.root.element

    @property
    def storage(self) -> str:
        return self.root.storage

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(axis.extent for axis in self.axes if axis.kept)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        known = [extent.known for extent in self.shape]
        return None if None in known else tuple(k for k in known if k is not None)

    @property
    def varies(self) -> frozenset[ScalarSymbol]:
        found = self.slot_varies
        for axis in self.axes:
            found |= axis.varies
        return found

    def restarted(self, base: Symbol) -> View:
        """The same place, as the start of an expression that begins at the name `base`."""
        axes = tuple(replace(axis, terms=()) for axis in self.axes)
        return View(base, self.root, None, self.slot_varies, axes)

    def with_kept(self, kept_axes: list[Axis]) -> View:
        """The view with its kept dimensions replaced, in order."""
        fresh = iter(kept_axes)
        return replace(self, axes=tuple(next(fresh) if axis.kept else axis for axis in self.axes))


def shape_text(shape: tuple[Dim, ...] | tuple[int, ...]) -> str:
    return "[" + ", ".join(str(d) for d in shape) + "]"
