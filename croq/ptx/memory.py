"""State spaces as segments of bytes at made-up addresses. PTX ISA, "State Spaces", "Addresses as Operands".

A generic address names its segment in the bits from SEGMENT_SHIFT up, so that no arithmetic inside one array can reach
another. Shared and local memory are also addressed from the start of their own windows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from croq.ptx.faults import PtxFault
from croq.ptx.lanes import Lanes

if TYPE_CHECKING:
    from croq.ptx.asynchrony import SharedSegment

Array = np.ndarray[Any, Any]
Offsets = np.ndarray[Any, np.dtype[np.int64]]

SEGMENT_SHIFT = 36
SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW = 0x10000 << SEGMENT_SHIFT, 0x10001 << SEGMENT_SHIFT, 0x10002 << SEGMENT_SHIFT
SHARED_START = 1024  # the first KiB of a CTA's window belongs to the system. CUDA C++ guide, compute capability 9.0
LOCAL_START = 16  # 0 is no address
PAD = 16  # the widest access; memory is viewed in such units

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_ALL_WRITTEN = {1: 1, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}


def padded(size: int) -> int:
    return -(-size // PAD) * PAD


class Segment:
    """Bytes at `base`. `written`: which bytes hold something, None where all do."""

    def __init__(
        self,
        name: str,
        base: int,
        size: int,
        data: Array,
        *,
        begin: int = 0,
        writable: bool = True,
        tracked: bool = False,
    ) -> None:
        """`data`: uint8, `padded(size)` long, as aligned as `base`; accesses stay within `begin .. size`."""
        self.name = name
        self.base = base
        self.begin = begin
        self.size = size
        self.writable = writable
        self.data = data
        self.views = {n: data.view(dtype) for n, dtype in _UNSIGNED.items()}
        self.written: Array | None = np.zeros(len(data), np.uint8) if tracked else None
        self.marks = {n: self.written.view(d) for n, d in _UNSIGNED.items()} if self.written is not None else {}

    def offsets(self, address: Offsets, width: int, lanes: Lanes) -> Offsets:
        """Byte offsets into `data` of accesses of `width` bytes. Raises PtxFault E-7012, E-7013."""
        offsets = address - self.base
        bad = (offsets < self.begin) | (offsets > self.size - width)
        if bad.any():
            raise self._outside(address, width, lanes, bad)
        aligned(address, width, lanes, self.name)
        return offsets

    def _outside(self, address: Offsets, width: int, lanes: Lanes, bad: Array) -> PtxFault:
        at = int(np.argmax(bad))
        offset = int(address[at]) - self.base - self.begin
        return PtxFault(
            "E-7012",
            f"an access of {width} bytes at byte {offset} of {self.name}, which has {self.size - self.begin}",
            notes=[f"by {lanes.where(bad)}"],
        )

    def load(self, offsets: Offsets, width: int, lanes: Lanes) -> Array:
        """Elements as unsigned integers. Raises PtxFault E-7014."""
        index = offsets // width
        if self.marks:
            marks = self.marks[width][index]
            if (marks != _ALL_WRITTEN[width]).any():
                raise self.unwritten(offsets, lanes, marks != _ALL_WRITTEN[width])
        return self.views[width][index]

    def unwritten(self, offsets: Offsets, lanes: Lanes, bad: Array) -> PtxFault:
        first = int(offsets[int(np.argmax(bad))])
        message = f"a read of {self.name} at byte {first}, which nothing has written"
        return PtxFault("E-7014", message, notes=[f"by {lanes.where(bad)}"])

    def store(self, offsets: Offsets, width: int, values: Array) -> None:
        """Raises PtxFault E-7016."""
        if not self.writable:
            raise PtxFault("E-7016", f"a write to {self.name}, which is read-only")
        index = offsets // width
        self.views[width][index] = values
        if self.marks:
            self.marks[width][index] = _ALL_WRITTEN[width]


class LocalSegment(Segment):
    """Memory of each thread for itself; `size` bytes a thread, all at the same addresses."""

    def __init__(self, size: int, threads: int) -> None:
        self.stride = padded(size)
        data = np.zeros(self.stride * threads, np.uint8)
        super().__init__("local memory", LOCAL_START, size, data, tracked=True)

    def offsets(self, address: Offsets, width: int, lanes: Lanes) -> Offsets:
        return super().offsets(address, width, lanes) + lanes.index * self.stride

    def reset(self) -> None:
        assert self.written is not None
        self.written[:] = 0


def aligned(address: Offsets, width: int, lanes: Lanes, where: str) -> None:
    """PTX ISA, "Alignment": an address must be a multiple of the size of what is accessed. Raises PtxFault E-7013."""
    bad = address & (width - 1) != 0
    if bad.any():
        at = int(address[int(np.argmax(bad))])
        raise PtxFault(
            "E-7013",
            f"an access of {width} bytes to {where} at address {at:#x}, which is no multiple of {width}",
            notes=[f"by {lanes.where(bad)}"],
        )


class Memory:
    """All state spaces of a CTA. `globals_`: segments of global and constant memory by number of their window."""

    def __init__(
        self, globals_: Mapping[int, Segment], shared: SharedSegment, local: LocalSegment, param: Segment
    ) -> None:
        self.globals = dict(globals_)
        self.shared = shared
        self.local = local
        self.param = param
        self.windows = {
            SHARED_WINDOW >> SEGMENT_SHIFT: (shared, SHARED_WINDOW),
            LOCAL_WINDOW >> SEGMENT_SHIFT: (local, LOCAL_WINDOW),
            PARAM_WINDOW >> SEGMENT_SHIFT: (param, PARAM_WINDOW),
        }

    def find(self, window: int, generic: bool) -> tuple[Segment, int]:
        """The segment of a window, and what to subtract from addresses to have the segment's own."""
        found = self.globals.get(window)
        if found is not None:
            return found, 0
        if generic and window in self.windows:
            return self.windows[window]
        raise LookupError(window)


def region(arrays: Sequence[tuple[str, Array, bool]], number: int) -> tuple[Segment, dict[str, int]]:
    """One segment for arrays whose memory overlaps, and the address of each by name. Contents stay in place.

    Each is (name, array, writable). The low bits of addresses are those of the arrays, so alignment is as it is.
    """
    bounds = [byte_bounds(array) for _, array, _ in arrays]
    low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
    start = low // PAD * PAD
    size = padded(high - start)
    data = np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(start)), np.uint8)
    base = (number << SEGMENT_SHIFT) + (start & 0xFF)
    names = " and ".join(f"`{name}`" for name, _, _ in arrays)
    made = Segment(names, base, high - start, data, begin=low - start, writable=any(w for _, _, w in arrays))
    addresses = {name: base + array.__array_interface__["data"][0] - start for name, array, _ in arrays}
    return made, addresses


def byte_bounds(array: Array) -> tuple[int, int]:
    """The addresses of the first byte of an array's elements and of the byte behind the last."""
    start = array.__array_interface__["data"][0]
    low = start + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if s < 0)
    high = start + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if s > 0) + array.itemsize
    return low, high
