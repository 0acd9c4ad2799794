"""Holds the emitted code against the lowered program: PTX execution and IR simulation of a few blocks of small sizes.

Sizes come from what the verifier follows (loops of several trips) and from the tiles of tensor maps, whole and cut;
task lists from the values that the verifier chooses. Two kinds of inputs: small integers, of which every sum and
product of an MMA is exact, and random numbers.

What must hold, rule by rule:
  exact   integers as inputs, no approximate instruction in the PTX, no sum over a row: equal bits
  close   otherwise: within a unit in the last place of the element and, of the largest value of the array, ROUNDINGS
          times the largest error of one operation (the ISA's for approximate instructions, half a unit of f32 else) and
          a unit of the narrowest float that values are rounded to on their way, where nearly equal ones may part
Integers, and what is written and what is not, are held to the same rules.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from croq.diagnostics import CroqError, Diagnostic, LaunchError, make
from croq.ir.hw import RegReduceRow, RegShuffleReduce

if TYPE_CHECKING:
    from croq.ir.objects import Kernel as DeviceKernel
    from croq.ir.objects import Param
    from croq.kernel import Kernel
    from croq.verify.bindings import Bindings

Array = np.ndarray[Any, Any]
Block = tuple[int, int, int]

ROUNDINGS = 64  # of one value on its way: those of a row of 4096, which add up like a random walk
NARROW = {"bf16": 2.0**-8, "bf16x2": 2.0**-8, "f16": 2.0**-11, "f16x2": 2.0**-11, "e4m3x2": 2.0**-3, "e5m2x2": 2.0**-2}
_MMA_TYPES = frozenset({"f16", "bf16", "f32", "tf32", "e4m3", "e5m2"})
LIMITS = ("E-7001", "E-7002")  # what cannot be executed says nothing of the program
SECONDS = 25.0  # after which no further size is begun
SIZES, BLOCKS = 4, 3  # of one function; of one grid
ROUNDS = 2  # of a ring that are gone through before its last slot: every slot is used again, one for the third time
MOST_BYTES = 64 << 20  # of all arrays
APART = "random:0"  # the schedule of every second execution: a missing wait shows where warps and copies part
SMALL = 3  # integers as inputs lie in -SMALL .. SMALL
CHOICES = 24  # of the verifier's oracle: how far into a task list it is asked for more than nothing


@dataclass
class Agreement:
    """What was compared of one function. `blocks`: how many were executed; `exact`: of which all bits must agree."""

    function: str
    blocks: int = 0
    exact: int = 0
    sizes: list[dict[str, int]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # why inputs were of no use
    faults: list[Diagnostic] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.blocks > 0 and not self.faults

    def to_json(self) -> dict[str, Any]:
        return {
            "function": self.function, "agrees": self.holds, "blocks": self.blocks, "exact_blocks": self.exact,
            "sizes": self.sizes,
        }  # fmt: skip

    def __str__(self) -> str:
        if any(f.severity == "error" for f in self.faults):
            return f"{self.function}: emitted code disagrees with the lowered program"
        if not self.blocks:
            return f"{self.function}: emitted code was not compared with the lowered program"
        more = f", {self.exact} of them bit by bit" if self.exact else ""
        return f"{self.function}: emitted code agrees with the lowered program on {self.blocks} blocks{more}"


def agree(kernel: Kernel) -> Agreement:
    """Compare one function. Raises EnvironmentFault without NVRTC, CompileError E-3010 for C++ that it refuses."""
    from croq.execution import ptx_module
    from croq.ptx.faults import PtxFault

    found = Agreement(kernel.name)
    started = time.perf_counter()
    try:
        ptx_module(kernel.compilation)
    except PtxFault as limit:
        found.faults.append(_not_compared(kernel, [limit.diagnostics[0].message]))
        return found
    rules = Rules(kernel)
    for symbols, memory in usable(kernel, found):
        before = found.blocks
        for integers in (True, False):
            if not found.faults:
                _compare(kernel, rules, symbols, memory, integers, found)
        if found.blocks > before or found.faults:
            found.sizes.append(symbols)
        if found.faults or len(found.sizes) == SIZES or time.perf_counter() - started > SECONDS:
            break
    if not found.blocks and not found.faults:
        notes = list(dict.fromkeys(found.skipped))[:3] or ["no sizes were found that its arguments may have"]
        found.faults.append(_not_compared(kernel, notes))
    return found


def _not_compared(kernel: Kernel, notes: Sequence[str]) -> Diagnostic:
    message = f"the emitted code of `{kernel.name}` was not compared with the lowered program"
    return make("W-7031", None, message, severity="warning", notes=notes)


# --------------------------------------------------------------------------------------------------------------- sizes
Memory = Mapping[tuple[Any, ...], int]


def usable(kernel: Kernel, found: Agreement) -> Iterator[tuple[dict[str, int], Memory]]:
    """Sizes that the arguments may have, with scalars of global memory by array and index."""
    from croq.binding import bind
    from croq.driver.arrays import NUMPY_TYPES, ArrayView, row_major

    seen: list[dict[str, int]] = []
    for symbols, memory in _candidates(kernel.devices):
        try:
            views: list[Any] = []
            total = 0
            for param in kernel.devices[0].params:
                if param.shape is None:
                    views.append(_scalar(param, symbols))
                    continue
                shape = tuple(dim.evaluate(symbols) for dim in param.shape)
                total += int(np.prod(shape)) * NUMPY_TYPES[_stored(param)].itemsize
                views.append(ArrayView(4096, shape, row_major(shape), _stored(param), ("cpu", 0)))
            bind(kernel.devices, views)
        except (LaunchError, KeyError) as error:
            found.skipped.append(str(error).partition("\n")[0])
            continue
        if total <= MOST_BYTES and symbols not in seen:
            seen.append(symbols)
            yield symbols, memory


def _candidates(devices: Sequence[DeviceKernel]) -> Iterator[tuple[dict[str, int], Memory]]:
    from croq.verify import hw
    from croq.verify.bindings import Bindings, agreeing
    from croq.verify.program import Program

    every = [Bindings(Program(device, hw.LEVEL), ROUNDS * _slots(device) + 1) for device in devices]
    base: dict[str, int] = {}
    for device, bindings in zip(devices, every, strict=True):
        for name, value in {**bindings.base, **_tiles(device)}.items():
            base[name] = max(value, base.get(name, 1))
    names = [*base, *(p.name for p in devices[0].params if p.shape is None and p.name not in base)]
    plain = {name: base.get(name, 1) if base.get(name, 1) > 1 else 2 for name in names}
    longest = {n: _longest(b, found) for b in every for n, found in b.choices.items() if found}
    cut = [{n: grow(value) for n, value in plain.items()} for grow in (_three_quarters_more, _five_eighths)]
    for values in (plain, {**plain, **longest}, *cut, {n: 2 * value for n, value in plain.items()}):
        symbols = agreeing(devices[0], values)
        yield symbols, _memory(every, symbols)
    for bindings in every:
        for binding in islice(bindings, 1, 8):
            symbols = {**plain, **{n: v for n, v in binding.symbols.items() if n in bindings.choices}}
            symbols = agreeing(devices[0], symbols)
            yield symbols, _memory(every, symbols)


def _longest(bindings: Bindings, values: Sequence[int]) -> int:
    """The value of a symbol with which its loops make the most trips, but no threshold far off."""
    near = [v for v in values if v <= 512 * bindings.trips]
    return max(near, default=values[0])


def _slots(device: DeviceKernel) -> int:
    """The deepest ring: a loop should go around it."""
    return max((event.slots for event in device.events), default=1)


def _three_quarters_more(n: int) -> int:
    return 2 * n - n // 4


def _five_eighths(n: int) -> int:
    """The last tile is the first: where it is cut, parts of it may lie outside."""
    return n - n // 8 * 3


def _tiles(device: DeviceKernel) -> dict[str, int]:
    """For symbols that are extents of tensor maps, the extent of the box there."""
    found: dict[str, int] = {}
    for item in device.tensor_maps:
        for extent, dim in zip(item.box, item.dims, strict=True):
            for name in dim.symbols():
                found[name] = max(extent, found.get(name, 1))
    return found


def _memory(every: Sequence[Any], symbols: Mapping[str, int]) -> Memory:
    """Scalars of global memory as the verifier chooses them, so that loops that they bound run."""
    from croq.verify.bindings import ChoosingOracle
    from croq.verify.faults import Fault, Refine
    from croq.verify.state import initial_partition
    from croq.verify.values import Undecided

    found: dict[tuple[Any, ...], int] = {}
    for bindings in every:
        oracle = ChoosingOracle(bindings, (2,) * CHOICES)
        program = bindings.program
        partition = initial_partition(program.kernel.threads)
        machine = program.level.machine(program, partition, dict(symbols), (0, 0, 0), oracle, False)
        machine.limit = 20_000
        with suppress(Fault, Refine, Undecided, KeyError):  # what was chosen so far will do
            machine.execute()
        found |= oracle.values
    return found


def _stored(param: Param) -> str:
    return "f32" if param.type == "tf32" else param.type


def _scalar(param: Param, symbols: Mapping[str, int]) -> Any:
    from croq.ir.types import FLOATS

    if param.type == "bool":
        return True
    return 1.5 if param.type in FLOATS else symbols.get(param.name, 2)


# -------------------------------------------------------------------------------------------------------------- inputs
def arguments(kernel: Kernel, symbols: Mapping[str, int], memory: Memory, integers: bool) -> list[Any]:
    """One argument a parameter: arrays filled as the run wants, task lists from `memory`."""
    from croq.driver.arrays import NUMPY_TYPES
    from croq.ir.types import FLOATS

    rng = np.random.default_rng(1 if integers else 2)
    made: list[Any] = []
    for param in kernel.devices[0].params:
        if param.shape is None:
            made.append(_scalar(param, symbols))
            continue
        shape = tuple(dim.evaluate(symbols) for dim in param.shape)
        dtype = NUMPY_TYPES[_stored(param)]
        if param.type not in FLOATS:
            array = np.zeros(shape, dtype)
            _fill(array, {key[1:]: value for key, value in memory.items() if key[0] == param.name})
            controls = any(key[0] == param.name for key in memory)
            made.append(array if controls else rng.integers(0, 4, shape).astype(dtype))
        elif integers:
            made.append(rng.integers(-SMALL, SMALL + 1, shape).astype(np.float32).astype(dtype))
        else:
            made.append(rng.standard_normal(shape).astype(np.float32).astype(dtype))
    return made


def _fill(array: Array, values: Mapping[tuple[int, ...], int]) -> None:
    limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
    for index, value in values.items():
        inside = len(index) == array.ndim and all(0 <= i < n for i, n in zip(index, array.shape, strict=True))
        if inside and limits is not None and limits.min <= value <= limits.max:
            array[index] = value


# ---------------------------------------------------------------------------------------------------------- comparison
class Rules:
    """What the two executions of a function may differ by. Compiles it; raises as `agree` does."""

    def __init__(self, kernel: Kernel) -> None:
        from croq.execution import ptx_module
        from croq.ptx.units.approximate import APPROXIMATIONS

        functions = ptx_module(kernel.compilation).functions.values()
        names = {_approximate(ins.name, ins.modifiers) for function in functions for ins in function.body}
        bounds = [b for name in names if name in APPROXIMATIONS for b in APPROXIMATIONS[name].bounds[:1]]
        self.error = max([2.0**-24, *(b.amount * 2.0**-24 if b.unit == "ulp" else b.amount for b in bounds)])
        ops = [op for device in kernel.devices for op in device.walk()]
        sums = any(isinstance(op, RegReduceRow | RegShuffleReduce) for op in ops)
        narrow = [m for f in functions for ins in f.body for m in _rounded_to(ins.name, ins.modifiers) if m in NARROW]
        self.narrow = max((NARROW[m] for m in narrow), default=0.0)
        self.exact = not bounds and not sums

    def allowed(self, want: Array, integers: bool) -> Array:
        """The largest difference that each element may show; 0 is equal bits."""
        if self.exact and integers:
            return np.zeros(want.shape)
        wide = want.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        scale = float(np.abs(finite).max()) if finite.size else 0.0
        unit = 1.0 if want.dtype.kind in "iu" else _unit(want)
        return np.full(want.shape, (ROUNDINGS * self.error + self.narrow) * scale) + unit


def _rounded_to(name: str, modifiers: Sequence[str]) -> Sequence[str]:
    """Types that values are rounded to on their way: those of conversions, and that of an accumulator, which stands
    first of the three types of a `wgmma` (PTX ISA, wgmma.mma_async)."""
    if name == "cvt":
        return modifiers
    types = [m for m in modifiers if m in _MMA_TYPES]
    return types[:1] if name == "wgmma" else ()


def _approximate(name: str, modifiers: Sequence[str]) -> str:
    kinds = [m for m in modifiers if m in ("approx", "full")]
    kind = modifiers[-1].removesuffix("x2") if modifiers else ""
    return f"{name}.{kinds[0]}.{kind}" if kinds else ""


def _unit(values: Array) -> Array:
    """One unit in the last place of each value, in its own type."""
    import ml_dtypes

    info: Any = ml_dtypes.finfo(values.dtype)  # type: ignore[no-untyped-call]
    wide = np.abs(values.astype(np.float64))
    _, exponent = np.frexp(np.where(np.isfinite(wide), wide, 1.0))
    unit: Array = np.ldexp(1.0, np.maximum(exponent - 1, int(info.minexp)) - int(info.nmant))
    return unit


def _blocks(grid: Block) -> list[Block]:
    from croq.simulate.binding import spread_blocks

    return spread_blocks(grid, BLOCKS)


def _compare(
    kernel: Kernel, rules: Rules, symbols: Mapping[str, int], memory: Memory, integers: bool, found: Agreement
) -> None:  # fmt: skip
    """Both executions on the same arguments; the first element that differs is a fault."""
    from croq.kernel import simulate
    from croq.simulate.faults import SimulationFault

    first = arguments(kernel, symbols, memory, integers)
    second = [a.copy() if isinstance(a, np.ndarray) else a for a in first]
    try:
        reports = simulate(kernel, *first, blocks=BLOCKS, races=False)
    except SimulationFault as fault:
        found.skipped.append(f"the lowered program: {fault.diagnostics[0].message}")
        return
    kind = "small integers" if integers else "random numbers"
    sizes = ", ".join(f"{name} = {value}" for name, value in symbols.items())
    schedule = "eager" if integers else APART
    try:
        simulate(kernel, *second, blocks=BLOCKS, level="ptx", schedule=schedule)
    except CroqError as error:
        if error.diagnostics[0].code in LIMITS:
            found.skipped.append(error.diagnostics[0].message)
            return
        note = f"the lowered program runs on the same inputs: {kind}, {sizes}; schedule `{schedule}`"
        head, *rest = error.diagnostics
        found.faults += [replace(head, notes=(*head.notes, note)), *rest]
        return
    count = sum(len(r.blocks) for r in (reports if isinstance(reports, list) else [reports]))
    found.blocks += count
    found.exact += count if rules.exact and integers else 0
    for param, want, got in zip(kernel.devices[0].params, first, second, strict=True):
        if isinstance(want, np.ndarray):
            found.faults += _differences(param, want, got, rules.allowed(want, integers), f"{kind}, {sizes}")


def alike(want: Array, got: Array, allowed: Array) -> Array:
    """Where elements have equal bits, are both NaN, or differ by no more than `allowed`."""
    raw = f"u{want.dtype.itemsize}"
    with np.errstate(all="ignore"):
        a, b = want.astype(np.float64), got.astype(np.float64)
        same: Array = np.ascontiguousarray(want).view(raw) == np.ascontiguousarray(got).view(raw)
        return same | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed)


def _differences(param: Param, want: Array, got: Array, allowed: Array, inputs: str) -> Iterator[Diagnostic]:
    good = alike(want, got, allowed)
    if good.all():
        return
    places = np.argwhere(~good)
    index = tuple(int(i) for i in places[0])
    bound = float(allowed[index])
    message = (
        f"`{param.name}`{list(index)} is {got[index]!s} by the emitted code, {want[index]!s} by the lowered program"
    )
    notes = [
        f"{len(places)} of {want.size} elements differ by more than "
        + ("nothing: their bits must agree" if bound == 0 else f"rounding explains ({bound:.3g} there)"),
        f"inputs: {inputs}",
    ]
    hint = "this is a fault of croq, behind what is verified: please report it with the program"
    yield make("E-7030", param.span, message, notes=notes, hint=hint)
