"""Fragments in registers: where a warp keeps them, and who may touch them while a WGMMA is in flight.

A warp holds its part of a fragment as one array that is *replaced*, never changed, by each write: what has been read
stays what it was.

    accumulator [m, n]   [32 lanes, rows a lane, n / 4 columns], row by row, so that row values broadcast along the end
    row [m]              [32 lanes, rows a lane]
    uniform              [32 lanes, registers]

`to_registers` and `from_registers` convert to the order in which the hardware numbers registers, which device functions
see.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from croq.ir.core import Op
from croq.ir.objects import Fragment, Layout
from croq.simulate.dtypes import DTYPES, Array, poison
from croq.simulate.faults import fault
from croq.source import Span
from croq.target.cuda import WARP

if TYPE_CHECKING:
    from croq.simulate.machine import Mma, Warp


class Shape:
    """What is known of a fragment before it is run."""

    def __init__(self, fragment: Fragment, first_thread: int) -> None:
        if fragment.layout is None or fragment.type is None or fragment.shape is None:
            raise fault("E-5099", fragment.span, f"fragment `{fragment.name}` has no layout")
        self.fragment = fragment
        self.layout: Layout = fragment.layout
        self.type = fragment.type
        self.dtype = DTYPES[fragment.type]
        self.kind = self.layout.kind
        self.shape = fragment.shape
        self.first_thread = first_thread
        self._coordinates: dict[int, tuple[Array, ...]] = {}
        self._holds: dict[int, Array | None] = {}

    @cached_property
    def rows(self) -> int:
        """Rows of an accumulator that one lane holds parts of."""
        first = self.layout.coordinates(np.zeros(1, dtype=np.int64))
        return len(np.unique(first[0]))

    @cached_property
    def dims(self) -> tuple[int, ...]:
        """Shape of a warp's part."""
        if self.kind == "accumulator":
            return (WARP, self.rows, self.layout.registers // self.rows)
        return (WARP, self.layout.registers)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Hardware register number of each of our positions, flat."""
        if self.kind != "accumulator":
            return np.arange(self.layout.registers)
        row, col = self.layout.coordinates(np.zeros(1, dtype=np.int64))
        return np.lexsort((col[0], row[0]))

    @cached_property
    def inverse(self) -> NDArray[np.intp]:
        return np.argsort(self.order)

    def coordinates(self, warp: int) -> tuple[Array, ...]:
        """Logical coordinates of what a warp holds, as s32 arrays that broadcast against its part."""
        found = self._coordinates.get(warp)
        if found is None:
            threads = (WARP * warp + np.arange(WARP) - self.first_thread) % self.layout.threads
            raw = [c.astype(np.int32)[:, self.order] for c in self.layout.coordinates(threads)]
            if self.kind == "accumulator":
                row, col = (c.reshape(self.dims) for c in raw)
                raw = [np.ascontiguousarray(row[:, :, :1]), np.ascontiguousarray(col[:, :1, :])]
            found = self._coordinates[warp] = tuple(raw)
        return found

    def holds(self, warp: int) -> Array | None:
        """Which positions hold an element; None when all do."""
        if warp not in self._holds:
            inside = self.coordinates(warp)[0] < self.shape[0]
            self._holds[warp] = None if bool(inside.all()) else inside
        return self._holds[warp]

    @cached_property
    def undefined(self) -> Array:
        return np.full(self.dims, poison(self.type), dtype=self.dtype)

    def to_registers(self, data: Array) -> Array:
        """[32, registers] in hardware order."""
        return data.reshape(WARP, -1)[:, self.inverse]

    def from_registers(self, registers: Array) -> Array:
        return registers[:, self.order].reshape(self.dims)


class Registers:
    """A warp's part of one fragment. `writing` and `reading`: WGMMAs not yet waited for that write or read it."""

    __slots__ = ("data", "reading", "shape", "user", "writing")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.data = shape.undefined
        self.writing = 0
        self.reading = 0
        self.user: Mma | None = None  # the last WGMMA that took it

    def read(self, warp: Warp, op: Op) -> Array:
        if self.writing:
            raise self.busy("read", "writes", op)
        if warp.cta.watch is not None and self.data is self.shape.undefined:
            warp.cta.watch.undefined(warp, op, self.shape.fragment)
        return self.data

    def take(self, op: Op) -> Array:
        """The contents for somebody who may not look at them."""
        if self.writing:
            raise self.busy("read", "writes", op)
        return self.data

    def write(self, data: Array, warp: Warp, op: Op) -> None:
        """Ordinary code puts `data` (of the right shape and type, never changed afterwards) there."""
        if self.writing or self.reading:
            raise self.busy("overwritten", "writes" if self.writing else "reads", op)
        self.data = data
        warp.unfenced.add(self)

    def store(self, value: Any, mask: Array | None, warp: Warp, op: Op) -> None:
        """Write a value of any broadcastable shape where `mask` is set."""
        shape = self.shape
        if mask is not None:
            value = np.where(mask, value, self.data)
        if type(value) is not np.ndarray or value.shape != shape.dims:
            value = np.broadcast_to(np.asarray(value, dtype=shape.dtype), shape.dims)
        elif value.dtype != shape.dtype:
            value = value.astype(shape.dtype)
        self.write(value, warp, op)

    def busy(self, what: str, use: str, op: Op) -> Exception:
        name = self.shape.fragment.name
        labels: list[tuple[Span, str]] = []
        future = self.user.future if self.user is not None else None
        if self.user is not None and self.user.op.span is not None:
            labels.append((self.user.op.span, f"this MMA {use} it and has not been waited for"))
        return fault(
            "E-5018",
            op,
            f"fragment `{name}` is {what} while an MMA that {use} it is in flight",
            labels=labels,
            hint=f"`wait {future}` first" if future is not None else "wait for the MMA first",
        )
