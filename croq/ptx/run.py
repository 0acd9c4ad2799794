"""Launches a kernel of a PTX module on arrays: grid, parameters, variables; one CTA after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from croq.diagnostics import CroqError
from croq.ptx import ops
from croq.ptx.asynchrony import SharedSegment
from croq.ptx.build import Builder, local_layout, param_layout, reachable, shared_layout
from croq.ptx.faults import PtxFault
from croq.ptx.machine import STEP_LIMIT, Machine
from croq.ptx.memory import PAD, PARAM_WINDOW, SEGMENT_SHIFT, LocalSegment, Memory, Segment, byte_bounds, padded, region
from croq.ptx.registers import Specials
from croq.ptx.schedule import schedule_of
from croq.ptx.syntax import Function, Module, Variable
from croq.ptx.units.fault import UnitFault
from croq.ptx.units.tensor_map import TensorMap

Array = np.ndarray[Any, Any]
Dim3 = tuple[int, int, int]

FAMILIES = ops.FAMILIES  # importing them registers the instructions
PARAM_START = PAD  # 0 is no address


@dataclass(frozen=True)
class Pointer:
    """A parameter that is the address of an array."""

    array: str


@dataclass(frozen=True)
class Map:
    """A parameter that is the tensor map of an array. `dims` in elements, `strides` in bytes, innermost first."""

    array: str
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    element_strides: tuple[int, ...] = ()
    fill_nan: bool = False


Argument = bytes | Pointer | Map


@dataclass(frozen=True)
class Launch:
    """`arguments`: one a parameter of the kernel; numbers as bytes. `arrays`: those that they name, in place."""

    kernel: str
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: tuple[Argument, ...]
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class PtxReport:
    """What an execution did. `blocks` of `grid` were run.

    `steps` counts blocks of instructions, `output` is what they printed.
    """

    kernel: str
    schedule: str
    grid: Dim3
    blocks: tuple[Dim3, ...]
    steps: int
    seconds: float
    output: str = ""
    warnings: tuple[Any, ...] = ()

    @property
    def total_blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def complete(self) -> bool:
        return len(set(self.blocks)) == self.total_blocks


def execute(
    module: Module,
    launch: Launch,
    *,
    schedule: str = "eager",
    blocks: Sequence[Dim3] | None = None,
    limit: int = STEP_LIMIT,
    progress: Callable[[int, int], None] | None = None,
) -> PtxReport:
    """Run CTAs of a launch, one after the other; what they write is in the arrays afterwards.

    blocks: which of the grid, all when left out. limit: blocks of instructions that one CTA may run. Raises PtxFault.
    """
    started = time.perf_counter()
    chosen = list(blocks) if blocks is not None else list(_all(launch.grid))
    with np.errstate(all="ignore"):
        machine = _guarded(lambda: prepare(module, launch, schedule, limit))
        for done, block in enumerate(chosen, start=1):
            _guarded(partial(machine.run, block))
            if progress is not None:
                progress(done, len(chosen))
    seconds = time.perf_counter() - started
    return PtxReport(
        launch.kernel,
        machine.schedule.name,
        launch.grid,
        tuple(chosen),
        machine.total_steps,
        seconds,
        "".join(machine.output),
    )


def _guarded(act: Callable[[], Any]) -> Any:
    """Anything unforeseen is the machine's own fault."""
    try:
        return act()
    except (CroqError, MemoryError):
        raise
    except Exception as error:
        message = f"the execution of PTX failed: {type(error).__name__}: {error}"
        raise PtxFault("E-7099", message, notes=["this is a fault of croq, not of the program"]) from error


def _all(grid: Dim3) -> Iterator[Dim3]:
    return ((x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0]))


def prepare(module: Module, launch: Launch, schedule: str, limit: int = STEP_LIMIT) -> Machine:
    """A machine with the kernel's program, ready for any block of the grid."""
    entry = _entry(module, launch)
    functions = reachable(module, entry)
    segments, addresses = _globals(module, launch)
    shared, static = shared_layout(module, entry)
    local, local_bytes = local_layout(functions)
    places, param_bytes = param_layout(functions)
    specials = Specials(launch.block, launch.grid, (launch.shared_bytes, static))
    param, given, maps = _parameters(entry, launch, addresses)
    params = np.zeros((specials.threads, param_bytes), np.uint8)
    for variable, (start, size) in _entry_places(entry, places):
        params[:, start : start + size] = np.frombuffer(given[variable], np.uint8)
    memory = Memory(
        segments, SharedSegment(static + launch.shared_bytes), LocalSegment(local_bytes, specials.threads), param
    )
    machine = Machine(module, memory, specials, schedule_of(schedule), limit, maps)
    found = {**addresses, **shared, **local, **_param_addresses(entry)}
    builder = Builder(module, functions, specials, memory, params, places, found, machine)
    code = builder.build()
    machine.take(code, code.entries[entry.name])
    return machine


def _entry(module: Module, launch: Launch) -> Function:
    entry = module.functions.get(launch.kernel)
    if entry is None or not entry.entry:
        known = ", ".join(f.name for f in module.entries()) or "none"
        raise PtxFault("E-7003", f"the PTX has no kernel `{launch.kernel}`", notes=[f"its kernels: {known}"])
    if len(entry.params) != len(launch.arguments):
        message = f"kernel `{entry.name}` takes {len(entry.params)} parameters, and {len(launch.arguments)} are given"
        raise PtxFault("E-7003", message)
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    most = int(np.prod(entry.directives.get("maxntid", (threads,))))
    if threads > most:
        raise PtxFault("E-7003", f"{threads} threads for kernel `{entry.name}`, which is compiled for {most}")
    return entry


# ---------------------------------------------------------------------------------------------------------- addresses
def _globals(module: Module, launch: Launch) -> tuple[dict[int, Segment], dict[str, int]]:
    """Segments of arrays and of variables by window, and the addresses of both: `array:NAME` and `NAME`."""
    segments: dict[int, Segment] = {}
    addresses: dict[str, int] = {}
    for number, group in enumerate(_overlapping(launch.arrays), start=1):
        segment, found = region(
            [(name, launch.arrays[name], launch.arrays[name].flags.writeable) for name in group], number
        )
        segments[number] = segment
        addresses |= {f"array:{name}": address for name, address in found.items()}
    more, found = variables(module, len(segments) + 1)
    return {**segments, **more}, {**addresses, **found}


def variables(module: Module, first: int) -> tuple[dict[int, Segment], dict[str, int]]:
    """Segments of a module's variables in global and constant memory, from window `first` on, and their addresses."""
    segments: dict[int, Segment] = {}
    addresses: dict[str, int] = {}
    every = [v for v in module.variables.values() if v.space in ("global", "const")]
    for number, variable in enumerate(every, start=first):
        segments[number] = _variable(variable, number)
        addresses[variable.name] = number << SEGMENT_SHIFT
    for variable in every:
        data = segments[addresses[variable.name] >> SEGMENT_SHIFT].data
        for at, name, addend in variable.pointers:
            data[at : at + 8].view(np.uint64)[:] = addresses[name] + addend
    return segments, addresses


def _variable(variable: Variable, number: int) -> Segment:
    size = variable.size or 0
    data = np.zeros(padded(max(size, 1)), np.uint8)
    if variable.data is not None:
        data[:size] = np.frombuffer(variable.data, np.uint8)
    return Segment(f"`{variable.name}`", number << SEGMENT_SHIFT, size, data, writable=variable.space == "global")


def _overlapping(arrays: Mapping[str, Array]) -> list[list[str]]:
    """Names of arrays, those that share memory together."""
    groups: list[list[str]] = []
    end = -1
    for name in sorted(arrays, key=lambda n: byte_bounds(arrays[n])):
        low, high = byte_bounds(arrays[name])
        if low < end:
            groups[-1].append(name)
        else:
            groups.append([name])
        end = max(end, high)
    return groups


# --------------------------------------------------------------------------------------------------------- parameters
def _offsets(entry: Function) -> Iterator[tuple[Variable, int]]:
    """Where each parameter lies. PTX ISA, ".param": in order, each aligned."""
    at = PARAM_START
    for variable in entry.params:
        at = -(-at // variable.align) * variable.align
        yield variable, at
        at += variable.size or 0


def _param_addresses(entry: Function) -> dict[str, int]:
    return {f"{entry.name}:{variable.name}": at for variable, at in _offsets(entry)}


def _entry_places(entry: Function, places: Mapping[str, tuple[int, int]]) -> Iterator[tuple[str, tuple[int, int]]]:
    return ((v.name, places[f"{entry.name}:{v.name}"]) for v in entry.params)


def _parameters(
    entry: Function, launch: Launch, addresses: Mapping[str, int]
) -> tuple[Segment, dict[str, bytes], dict[int, TensorMap]]:
    """The parameter segment, the bytes of each parameter, and tensor maps by generic address."""
    given: dict[str, bytes] = {}
    maps: dict[int, TensorMap] = {}
    placed = list(_offsets(entry))
    end = placed[-1][1] + (placed[-1][0].size or 0) if placed else PARAM_START
    data = np.zeros(padded(end), np.uint8)
    for (variable, at), argument in zip(placed, launch.arguments, strict=True):
        if isinstance(argument, Map):
            maps[PARAM_WINDOW + at] = _tensor_map(argument, addresses[f"array:{argument.array}"])
            raw = bytes(variable.size or 0)
        elif isinstance(argument, Pointer):
            raw = addresses[f"array:{argument.array}"].to_bytes(8, "little")
        else:
            raw = argument
        if len(raw) != variable.size:
            message = f"parameter `{variable.name}` has {variable.size} bytes, and {len(raw)} are given"
            raise PtxFault("E-7003", message)
        given[variable.name] = raw
        data[at : at + len(raw)] = np.frombuffer(raw, np.uint8)
    return Segment("the parameters", 0, end, data, begin=PARAM_START, writable=False), given, maps


def _tensor_map(argument: Map, base: int) -> TensorMap:
    try:
        return TensorMap(
            argument.dtype, base, argument.dims, argument.strides, argument.box, argument.element_strides,
            argument.swizzle, argument.fill_nan,
        )  # fmt: skip
    except UnitFault as fault:
        raise PtxFault("E-7023", f"the tensor map of `{argument.array}`: {fault.sentence}") from None
