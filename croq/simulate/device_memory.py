"""Memory of a simulated CTA as the segments that executed PTX reaches; accesses are told to the race detector."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from croq.ir.objects import Buffer, Kernel, Param, View
from croq.ir.scalar import Call
from croq.ptx.asynchrony import SharedSegment
from croq.ptx.lanes import Lanes
from croq.ptx.memory import SHARED_START, Offsets, Segment, region
from croq.simulate.dtypes import Array
from croq.simulate.machine import Warp
from croq.simulate.memory import GlobalData

_VIEWS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class _Global(Segment):
    """A parameter's data."""

    def __init__(self, of: Segment, param: Param, memory: DeviceMemory) -> None:
        super().__init__(of.name, of.base, of.size, of.data, begin=of.begin)
        self.param, self.memory = param, memory

    def offsets(self, address: Offsets, width: int, lanes: Lanes) -> Offsets:
        self.memory.lanes = lanes
        return super().offsets(address, width, lanes)

    def load(self, offsets: Offsets, width: int, lanes: Lanes) -> Array:
        self.memory.touch(self.param, offsets - self.begin, width, write=False)
        return super().load(offsets, width, lanes)

    def store(self, offsets: Offsets, width: int, values: Array) -> None:
        self.memory.touch(self.param, offsets - self.begin, width, write=True)
        super().store(offsets, width, values)


class _Shared(SharedSegment):
    """The bytes of the CTA that runs."""

    def __init__(self, memory: DeviceMemory, buffers: list[Buffer]) -> None:
        super().__init__(0)
        self.memory = memory
        self.buffers = buffers
        self.passed: list[Buffer] = []
        self.base, self.begin, self.size = SHARED_START, 0, 0
        self.marks, self.written = {}, None

    def bind(self, data: Array) -> None:
        self.data, self.size = data, len(data)
        self.views = {n: data.view(dtype) for n, dtype in _VIEWS.items()}

    def reset(self) -> None:
        """What it holds is the simulation's."""

    def offsets(self, address: Offsets, width: int, lanes: Lanes) -> Offsets:
        self.memory.lanes = lanes
        return super().offsets(address, width, lanes)

    def load(self, offsets: Offsets, width: int, lanes: Lanes) -> Array:
        self.memory.touch(self._root(offsets), offsets, width, write=False)
        return self.views[width][offsets // width]

    def store(self, offsets: Offsets, width: int, values: Array) -> None:
        self.memory.touch(self._root(offsets), offsets, width, write=True)
        self.views[width][offsets // width] = values

    def _root(self, offsets: Offsets) -> Buffer:
        """The buffer that the first of these is in, of those that the call was given; outside of all, the first."""
        first = int(offsets[0])
        passed = self.passed or self.buffers
        return next((b for b in passed if 0 <= first - (b.offset or 0) < b.slots * b.slot_stride), passed[0])


class DeviceMemory:
    """`segments` by window, `addresses` of parameters. `enter` says who accesses it next."""

    def __init__(self, kernel: Kernel, data: Mapping[Param, GlobalData]) -> None:
        self.segments: dict[int, Segment] = {}
        self.addresses: dict[Param, int] = {}
        self.shared = _Shared(self, [b for b in kernel.buffers if b.storage == "shared"])
        self.lanes: Lanes | None = None
        for number, (param, held) in enumerate(data.items(), start=1):
            segment, found = region([(param.name, held.flat, True)], number)
            self.segments[number] = _Global(segment, param, self)
            self.addresses[param] = found[param.name]

    def enter(self, warp: Warp, op: Call) -> None:
        self.warp, self.op = warp, op
        roots = [argument.root for argument in op.args if isinstance(argument, View)]
        self.shared.passed = [root for root in roots if isinstance(root, Buffer)]
        self.shared.bind(warp.cta.shared.bytes)

    def touch(self, root: Param | Buffer, offsets: Offsets, width: int, *, write: bool) -> None:
        lanes = self.lanes
        assert lanes is not None
        index = np.zeros(len(lanes.present), np.int64)
        index[lanes.index] = offsets // width
        active = None if lanes.count == len(lanes.present) else lanes.present
        self.warp.touch(root, index, width, active, self.op, write=write)
