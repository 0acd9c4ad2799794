"""What tests and tools do with the catalogue: arguments of a run, results against the reference, facts of a plan."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.programs.catalogue import PROGRAMS, Argument, Program, Variant
from tests.programs.entries import NUMPY_TYPES, Sizes
from tests.programs.references import UNTOUCHED, Array

FOLDER = Path(__file__).resolve().parent
FLOATS = frozenset({"f32", "f16", "bf16"})


@dataclass(frozen=True)
class Case:
    """One variant of one program."""

    program: Program
    variant: Variant

    @property
    def id(self) -> str:
        return f"{self.program.name}-{self.variant.name}" if self.variant.name else self.program.name

    @property
    def path(self) -> Path:
        return FOLDER / self.program.file

    @property
    def defines(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.variant.defines.items()}

    @property
    def source(self) -> Path:
        return self.path

    @property
    def kernel(self) -> str:
        return self.program.name

    @property
    def sizes(self) -> tuple[Sizes, ...]:
        return self.variant.sizes

    @property
    def large(self) -> tuple[Sizes, ...]:
        """Sizes for a GPU."""
        return (self.variant.large,) if self.variant.large else ()

    def run(self, sizes: Sizes) -> Run:
        return make_run(self, sizes)


def cases() -> Iterator[Case]:
    for program in PROGRAMS:
        for variant in program.variants:
            yield Case(program, variant)


@dataclass
class Run:
    """Arguments of one run: `arrays` as the kernel gets them (outputs poisoned), and what must be in them after it."""

    arrays: dict[str, Array]
    scalars: dict[str, int | float]
    want: dict[str, Array]
    tolerance: tuple[float, float]

    def fresh(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self.arrays.items()}

    def faults(self, arrays: Mapping[str, Array]) -> list[str]:
        """What differs from the reference, in words; inputs must be what they were."""
        found = [
            f"`{name}` is an input and was written"
            for name, array in self.arrays.items()
            if name not in self.want and array.tobytes() != arrays[name].tobytes()
        ]
        for name, want in self.want.items():
            found += _differences(name, arrays[name], want, self.arrays[name], self.tolerance)
        return found


def _differences(name: str, got: Array, want: Array, before: Array, tolerance: tuple[float, float]) -> list[str]:
    exact = got.dtype.kind in "iu"
    value = got.astype(np.int64 if exact else np.float64)
    if value.shape != want.shape:
        return [f"`{name}` has shape {value.shape}, its reference {want.shape}"]
    expected = want.astype(np.int64) if exact else want
    untouched = np.zeros(want.shape, dtype=bool) if exact else np.isnan(want)
    same = np.equal(got.view(_bits(got)), before.view(_bits(before)))
    with np.errstate(invalid="ignore"):
        absolute, relative = tolerance
        error = np.abs(value - expected)
        good = (error <= absolute + relative * np.abs(expected)) | (value == expected)  # the second for infinities
    wrong = np.where(untouched, ~same, ~good)
    if not wrong.any():
        return []
    places = np.argwhere(wrong)
    first = tuple(int(i) for i in places[0])
    worst = float(np.nan_to_num(error[wrong], nan=np.inf).max())
    return [
        f"`{name}` is wrong in {len(places)} of {want.size} elements, by up to {worst:.3g}: first at {list(first)}, "
        f"{value[first]!r} instead of {expected[first]!r}; last at {[int(i) for i in places[-1]]}"
    ]


def _bits(array: Array) -> str:
    return f"u{array.dtype.itemsize}"


def make_run(case: Case, sizes: Mapping[str, Any]) -> Run:
    """Draw the inputs (the same at every call), poison the outputs, compute the reference."""
    names = {**case.program.constants, **case.variant.defines, **sizes}
    rng = np.random.default_rng(zlib.crc32(f"{case.id}{sorted(sizes.items())}".encode()))
    arrays: dict[str, Array] = {}
    scalars: dict[str, int | float] = {}
    known: dict[str, Any] = {}
    for arg in case.program.args:
        if arg.role == "scalar":
            value = _evaluate(arg.value, names)
            known[arg.name] = value
            if arg.dtype:
                scalars[arg.name] = value
            continue
        arrays[arg.name] = _array(arg, names, rng)
        if arg.role != "out":
            known[arg.name] = _exact(arrays[arg.name])
    want = {name: np.asarray(value) for name, value in case.program.reference(**known).items()}
    return Run(arrays, scalars, want, case.program.tolerance)


def _exact(array: Array) -> Array:
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)


def _evaluate(value: Any, names: Mapping[str, Any]) -> Any:
    return eval(value, {}, dict(names)) if isinstance(value, str) else value


def _array(arg: Argument, names: Mapping[str, Any], rng: np.random.Generator) -> Array:
    assert arg.shape is not None
    element = str(names.get(arg.dtype, arg.dtype))
    dtype = np.dtype(NUMPY_TYPES[element])
    shape = tuple(int(_evaluate(extent, names)) for extent in arg.shape)
    if arg.role == "out":
        return np.full(shape, np.nan if element in FLOATS else UNTOUCHED & np.iinfo(dtype).max, dtype=dtype)
    if arg.make is not None:
        made = arg.make(rng, names)
        assert made.shape == shape and made.dtype == dtype, (arg.name, made.shape, shape, made.dtype, dtype)
        return made
    if element in FLOATS:
        return rng.uniform(-1, 1, shape).astype(np.float32).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


# ---------------------------------------------------------------------------------------------------------- plans
def plan_faults(plan: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Where a kernel's plan (croq.plan.plan_kernel) differs from the facts of a variant."""
    found: list[str] = []

    def compare(what: str, got: Any, want: Any) -> None:
        if got != want:
            found.append(f"{what} is {got!r}, not {want!r}")

    events = {event["name"]: event for event in plan["events"]}
    for name, facts in expected.get("events", {}).items():
        for key, want in facts.items():
            compare(f"`{key}` of event `{name}`", events.get(name, {}).get(key), want)
    for name, depth in expected.get("wait_depths", {}).items():
        depths = {wait["depth"] for wait in plan["waits"] if ", ".join(wait["futures"]) == name}
        compare(f"depth of `wait {name}`", depths, {depth})
    registers = {entry["role"]: entry["setreg"] for entry in plan["registers"]}
    for role, count in expected.get("registers", {}).items():
        compare(f"registers of `{role}`", registers.get(role), count)
    swizzles = {buffer["name"]: buffer["swizzle"] for buffer in plan["shared"]}
    for name, width in expected.get("swizzles", {}).items():
        compare(f"swizzle of `{name}`", swizzles.get(name), width)
    layouts = {fragment["name"]: fragment["layout"] for fragment in plan["fragments"]}
    for name, kind in expected.get("layouts", {}).items():
        compare(f"layout of `{name}`", layouts.get(name), kind)
    for name, count in expected.get("loads", {}).items():
        loads = {entry["loads_per_tile"] for entry in plan["tensor_maps"] if entry["tensor"] == name}
        compare(f"instructions a tile of `{name}`", loads, {count})
    return found
