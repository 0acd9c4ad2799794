"""Bulk copies, with and without a tensor map. PTX ISA, "cp.async.bulk", "cp.async.bulk.tensor", "cp.reduce.async.bulk".

Every thread that executes one starts a copy of its own. Loads complete on an mbarrier, stores in bulk groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from croq.ptx.asynchrony import Flight
from croq.ptx.build import Builder
from croq.ptx.faults import PtxFault
from croq.ptx.lanes import Lanes
from croq.ptx.memory import PAD, SEGMENT_SHIFT, Memory, Segment
from croq.ptx.ops.access import Address, address_of
from croq.ptx.ops.copies import groups_left
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.syntax import Mem
from croq.ptx.units import bulk_copy
from croq.ptx.units.tensor_map import TensorMap

Array = np.ndarray[Any, Any]

_REDUCTIONS = "add min max inc dec and or xor"
_FLAGS = (
    "shared::cluster shared::cta global mbarrier::complete_tx::bytes bulk_group L2::cache_hint multicast::cluster tile "
    f"1d 2d 3d 4d 5d noftz {_REDUCTIONS}"
)


class Global:
    """Bytes of global memory by address, for one copy."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def segment(self, addresses: Array, width: int) -> Segment:
        """The one that all addresses lie in. Raises PtxFault E-7012."""
        low, high = int(addresses.min()), int(addresses.max())
        found = self.memory.globals.get(low >> SEGMENT_SHIFT)
        if found is None or low < found.base + found.begin or high + width > found.base + found.size:
            name = f" of {found.name}" if found is not None else ""
            raise PtxFault("E-7012", f"a bulk copy outside{name}: addresses {low:#x} to {high + width:#x}")
        return found

    def gather(self, addresses: Array, width: int) -> Array:
        if not len(addresses):
            return np.zeros((0, width), np.uint8)
        segment = self.segment(addresses, width)
        values = segment.views[width][(addresses - segment.base) // width]
        octets: Array = values.reshape(-1, 1).view(np.uint8)
        return octets

    def scatter(self, addresses: Array, data: Array) -> None:
        if not len(addresses):
            return
        width = data.shape[1]
        segment = self.segment(addresses, width)
        values = np.ascontiguousarray(data).view(f"u{width}")[:, 0]
        segment.store(addresses - segment.base, width, values)


def each(lanes: Lanes, *rows: Array) -> Any:
    """Thread and values, one thread after the other."""
    return zip(lanes.index.tolist(), *(r.tolist() for r in rows), strict=True)


def _start(machine: Any, what: str, form: Form, thread: int, act: Callable[[], None], release: Any = None) -> Flight:
    flight = Flight(what, form.instruction.place, np.array([thread]), lambda mask: act(), release)
    machine.issue(flight)
    return flight


def _load(machine: Any, form: Form, thread: int, addresses: Array, fetch: Callable[[], Array], barrier: int) -> None:
    """A copy to shared memory in flight: `fetch` gives its bytes in the order of the byte `addresses`."""
    machine.memory.shared.begin_write(addresses)
    machine.mbarriers.at_async(barrier)

    def land() -> None:
        data = fetch()
        machine.memory.shared.end_write(addresses, data)
        machine.mbarriers.at(barrier).complete_tx(len(data))

    _start(machine, "a bulk load", form, thread, land)


def _store(machine: Any, form: Form, thread: int, chunks: Array, write: Callable[[], None]) -> None:
    """A copy from shared memory in flight, which reads `chunks` until its thread has waited for it."""
    shared = machine.memory.shared
    shared.begin_read(chunks)
    flight = _start(machine, "a bulk store", form, thread, write, lambda mask: shared.end_read(chunks))
    machine.bulk.add(flight)


def _towards_shared(form: Form) -> bool:
    """Whether the first space named, the destination, is shared memory."""
    spaces = [m for m in form.instruction.modifiers if m in ("shared::cluster", "shared::cta", "global")]
    if len(spaces) != 2 or "global" not in spaces:
        raise form.refuse()
    return spaces[0] != "global"


# ------------------------------------------------------------------------------------------------------------- linear
@instruction("cp.async.bulk", flags=_FLAGS)
def linear(builder: Builder, form: Form) -> Step:
    target, source, size, *more = form.operands
    to, start = address_of(builder, target), address_of(builder, source)
    sizes, machine = builder.source(size, "u32"), builder.machine
    memory = Global(builder.memory)
    if _towards_shared(form):
        barrier = address_of(builder, more[0])

        def load(lanes: Lanes) -> None:
            for thread, a, b, n, at in each(lanes, to(lanes), start(lanes), sizes[lanes.sel], barrier(lanes)):
                bulk_copy.check_bulk(a, b, n)
                _load(machine, form, thread, a + np.arange(n), _bytes(memory, b, n), at)

        return load

    def store(lanes: Lanes) -> None:
        for thread, a, b, n in each(lanes, to(lanes), start(lanes), sizes[lanes.sel]):
            bulk_copy.check_bulk(a, b, n)
            _store(machine, form, thread, b + np.arange(0, n, PAD), _write(machine, memory, a, b, n, None))

    return store


def _bytes(memory: Global, start: int, size: int) -> Callable[[], Array]:
    return lambda: memory.gather(start + np.arange(size), 1)[:, 0]


def _write(machine: Any, memory: Global, to: int, start: int, size: int, reduction: Any) -> Callable[[], None]:
    def write() -> None:
        data = machine.memory.shared.data[start : start + size]
        if reduction is None:
            memory.scatter(to + np.arange(size), data.reshape(-1, 1))
            return
        operation, kind, width = reduction
        addresses = to + np.arange(0, size, width)
        new = data.reshape(-1, width)
        memory.scatter(addresses, bulk_copy.reduced(operation, kind, memory.gather(addresses, width), new))

    return write


@instruction("cp.reduce.async.bulk", flags=_FLAGS)
def reduce(builder: Builder, form: Form) -> Step:
    target, source, size = form.operands[:3]
    if _towards_shared(form):
        raise form.refuse("a reduction into shared memory")
    to, start = address_of(builder, target), address_of(builder, source)
    sizes, machine, memory = builder.source(size, "u32"), builder.machine, Global(builder.memory)
    how = (form.one_of(*_REDUCTIONS.split()), form.type, _BYTES[form.type])

    def store(lanes: Lanes) -> None:
        for thread, a, b, n in each(lanes, to(lanes), start(lanes), sizes[lanes.sel]):
            bulk_copy.check_bulk(a, b, n)
            _store(machine, form, thread, b + np.arange(0, n, PAD), _write(machine, memory, a, b, n, how))

    return store


_BYTES = {"f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8}


# ------------------------------------------------------------------------------------------------------------ tensors
class _Box:
    """The operand `[map, {coordinates}]`."""

    def __init__(self, builder: Builder, operand: Mem) -> None:
        self.address: Address = address_of(builder, operand)
        self.coordinates = [builder.source(c, "s32") for c in operand.coordinates]
        self.machine = builder.machine

    def each(self, lanes: Lanes, *rows: Array) -> Any:
        """(thread, values of the rows, tensor map, coordinates), one thread after the other."""
        columns = [c[lanes.sel] for c in self.coordinates]
        for thread, place, *rest in each(lanes, self.address(lanes), *rows, *columns):
            values, coordinates = rest[: len(rows)], rest[len(rows) :]
            yield thread, values, self.machine.tensor_map(place), coordinates


def _placed(tensor_map: TensorMap, start: int) -> Array:
    """The shared addresses of the bytes of a box, element by element."""
    octets = np.arange(tensor_map.element_bytes)
    return (tensor_map.shared_addresses(start)[:, None] + octets).reshape(-1)


@instruction("cp.async.bulk.tensor cp.reduce.async.bulk.tensor", flags=_FLAGS)
def tensor(builder: Builder, form: Form) -> Step:
    operands = form.operands
    reduction = form.one_of(*_REDUCTIONS.split()) if form.name.startswith("cp.reduce") else ""
    if not reduction and _towards_shared(form):
        return _tensor_load(builder, form)
    box, start = _Box(builder, operands[0]), address_of(builder, operands[1])
    machine, memory = builder.machine, Global(builder.memory)

    def store(lanes: Lanes) -> None:
        for thread, (at,), tensor_map, coordinates in box.each(lanes, start(lanes)):
            addresses = _placed(tensor_map, at)
            write = _tensor_write(machine, memory, tensor_map, coordinates, addresses, reduction)
            _store(machine, form, thread, addresses[::PAD] // PAD * PAD, write)

    return store


def _tensor_write(
    machine: Any, memory: Global, tensor_map: TensorMap, coordinates: Sequence[int], addresses: Array, reduction: str
) -> Callable[[], None]:  # fmt: skip
    width = tensor_map.element_bytes

    def reduced(places: Array, new: Array) -> None:
        old = memory.gather(places, width)
        memory.scatter(places, bulk_copy.reduced(reduction, tensor_map.dtype, old, new))

    def write() -> None:
        data = machine.memory.shared.data[addresses].reshape(-1, width)
        tensor_map.store(coordinates, data, reduced if reduction else memory.scatter)

    return write


def _tensor_load(builder: Builder, form: Form) -> Step:
    target, source, barrier = form.operands[:3]
    to, box, bar = address_of(builder, target), _Box(builder, source), address_of(builder, barrier)
    machine, memory = builder.machine, Global(builder.memory)

    def load(lanes: Lanes) -> None:
        for thread, (start, at), tensor_map, coordinates in box.each(lanes, to(lanes), bar(lanes)):
            addresses = _placed(tensor_map, start)
            _load(machine, form, thread, addresses, _fetch(tensor_map, coordinates, memory), at)

    return load


def _fetch(tensor_map: TensorMap, coordinates: Sequence[int], memory: Global) -> Callable[[], Array]:
    return lambda: tensor_map.load(coordinates, memory.gather).reshape(-1)


# ------------------------------------------------------------------------------------------------------------- groups
@instruction("cp.async.bulk.commit_group")
def commit(builder: Builder, form: Form) -> Step:
    machine = builder.machine
    return lambda lanes: machine.bulk.commit(lanes)


@instruction("cp.async.bulk.wait_group", flags="read")
def wait(builder: Builder, form: Form) -> Step:
    machine, pending = builder.machine, groups_left(form)
    return lambda lanes: machine.wait_copies(machine.bulk, lanes, pending, False)
