"""The units of the PTX executor (croq/ptx/units) against the chip.

    python -m tools.device_units --build DIR     compile the probes to DIR; needs NVRTC, no GPU
    python -m tools.device_units --run DIR       run them and compare with the units; needs a Hopper GPU

One line a probe: `ok`, how far approximate results and sums of tensor cores are from the model, or how many elements
differ with the first of them. Bits must be equal but for NaNs, for approximate instructions (within the ISA's error)
and for sums of tensor cores that are not exact, which are only reported. Exit status 4 when a probe is not ok.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from croq.ptx.units import float_arithmetic as arithmetic
from croq.ptx.units import mma_sync, wgmma
from croq.ptx.units.approximate import APPROXIMATIONS, approximate, tolerance
from croq.ptx.units.conversion import INTEGERS, convert
from croq.ptx.units.formats import FORMATS

SEED = 2024
COUNT = 1 << 16  # elements of a scalar probe
SHARED = 64 * 1024  # bytes of shared memory of a matrix probe
START = 1024  # what the system keeps of a CTA's window; dynamic shared memory begins there
RNG = np.random.default_rng(SEED)

# type: (C type, constraint, NumPy type of a bit pattern)
_C: dict[str, tuple[str, str, Any]] = {
    "f64": ("double", "d", np.float64), "f32": ("float", "f", np.float32), "tf32": ("unsigned", "r", np.float32),
    "f16": ("unsigned short", "h", np.float16), "bf16": ("unsigned short", "h", ml_dtypes.bfloat16),
    "u64": ("unsigned long long", "l", np.uint64), "s64": ("long long", "l", np.int64),
    "u32": ("unsigned", "r", np.uint32), "s32": ("int", "r", np.int32),
    "u16": ("unsigned short", "h", np.uint16), "s16": ("short", "h", np.int16),
    "u8": ("unsigned short", "h", np.uint8), "s8": ("short", "h", np.int8),
    "e4m3": ("unsigned short", "h", ml_dtypes.float8_e4m3fn), "e5m2": ("unsigned short", "h", ml_dtypes.float8_e5m2),
}  # fmt: skip


@dataclass(frozen=True)
class Scalar:
    """An instruction on elements: `model` gives what the unit says, `near` how far the chip may be from it."""

    name: str
    ptx: str
    inputs: tuple[str, ...]
    output: str
    model: Callable[..., Any] = field(repr=False)
    near: Callable[..., Any] | None = field(default=None, repr=False)


def scalars() -> Iterator[Scalar]:
    yield from _conversions()
    for kind in ("f32", "f64"):
        for mode in ("rn", "rz", "rm", "rp"):
            for name, count in (("add", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)):
                yield _arithmetic(name, count, kind, mode, ftz=False)
                if kind == "f32":
                    yield _arithmetic(name, count, kind, mode, ftz=True)
    for kind in ("f16", "bf16"):
        for name, count in (("add", 2), ("mul", 2), ("fma", 3)):
            yield _arithmetic(name, count, kind, "rn", ftz=False)
    for kind in ("f16", "bf16", "f32", "f64"):
        for name, function in (("min", arithmetic.minimum), ("max", arithmetic.maximum)):
            yield Scalar(f"{name}.{kind}", f"{name}.{kind} %0, %1, %2;", (kind, kind), kind, function)
            if kind != "f64":
                ptx = f"{name}.NaN.{kind} %0, %1, %2;"
                yield Scalar(f"{name}.NaN.{kind}", ptx, (kind, kind), kind, partial(function, nan=True))
    yield from _approximations()


def _arithmetic(name: str, count: int, kind: str, mode: str, *, ftz: bool) -> Scalar:
    opcode = f"{name}.{mode}{'.ftz' if ftz else ''}.{kind}"
    operands = ", ".join(f"%{i}" for i in range(count + 1))
    how: Any = getattr(arithmetic, name)
    return Scalar(opcode, f"{opcode} {operands};", (kind,) * count, kind, partial(how, rounding=mode, ftz=ftz))


def _conversions() -> Iterator[Scalar]:
    floats = ("f16", "bf16", "f32", "f64")
    for source in floats:
        for target in floats:
            narrower = FORMATS[target].precision < FORMATS[source].precision or (source, target) == ("bf16", "f16")
            for mode in ("rn", "rz", "rm", "rp") if narrower else ("",):
                if source != target:
                    yield _conversion(source, target, mode)
        for target in INTEGERS:
            if (source, target[1:]) == ("bf16", "8"):
                continue  # needs a register of 8 bits, which inline assembly has not
            for mode in ("rni", "rzi", "rmi", "rpi"):
                yield _conversion(source, target, mode)
            for mode in ("rn", "rz", "rm", "rp"):
                yield _conversion(target, source, mode)
    yield Scalar("cvt.rna.tf32", "cvt.rna.tf32.f32 %0, %1;", ("f32",), "tf32",
                 partial(convert, source="f32", target="tf32", rounding="rna"))  # fmt: skip
    for narrow in ("e4m3", "e5m2"):
        yield Scalar(f"cvt.{narrow}x2", f"cvt.rn.satfinite.{narrow}x2.f32 %0, %1, %1;", ("f32",), narrow,
                     partial(convert, source="f32", target=narrow, rounding="rn", satfinite=True))  # fmt: skip


def _conversion(source: str, target: str, mode: str) -> Scalar:
    opcode = f"cvt{'.' if mode else ''}{mode}.{target}.{source}"
    return Scalar(
        opcode, f"{opcode} %0, %1;", (source,), target, partial(convert, source=source, target=target, rounding=mode)
    )


def _approximations() -> Iterator[Scalar]:
    for name, entry in APPROXIMATIONS.items():
        count = 2 if name.startswith("div") else 1
        operands = ", ".join(f"%{i}" for i in range(count + 1))
        for ftz in (False, True):
            if (entry.type in ("f64", "bf16") and name.startswith(("ex2", "rcp", "rsqrt")) and not ftz) or (
                ftz and (entry.type == "f16" or name.startswith("tanh"))
            ):
                continue  # forms that the ISA does not have
            parts = name.rpartition(".")
            opcode = f"{parts[0]}{'.ftz' if ftz else ''}.{parts[2]}"
            yield Scalar(opcode, f"{opcode} {operands};", (entry.type,) * count, entry.type,
                         partial(approximate, name, ftz=ftz), partial(tolerance, name))  # fmt: skip


def scalar_source(number: int, probe: Scalar) -> str:
    letters = "abc"[: len(probe.inputs)]
    params = ", ".join(f"const {_C[t][0]}* {p}" for p, t in zip(letters, probe.inputs, strict=True))
    reads = ", ".join(f'"{_C[t][1]}"({p}[i])' for p, t in zip(letters, probe.inputs, strict=True))
    out, constraint, _ = _C[probe.output]
    return (
        f'extern "C" __global__ void scalar_{number}({params}, {out}* d, unsigned n) {{\n'
        f"  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n  {out} r;\n"
        f'  asm volatile("{probe.ptx}" : "={constraint}"(r) : {reads});\n  d[i] = r;\n}}\n'
    )


# ------------------------------------------------------------------------------------------------------------ matrices
@dataclass(frozen=True)
class Warpgroup:
    unit: wgmma.Wgmma
    from_registers: bool


def warpgroups() -> list[Warpgroup]:
    found = []
    types = "f32 bf16 bf16, f32 f16 f16, f16 f16 f16, f32 tf32 tf32, f32 e4m3 e5m2, f16 e5m2 e5m2, s32 s8 u8, s32 u8 u8"
    for d, a, b in (t.split() for t in types.split(", ")):
        for n in (8, 64, 96, 256):
            for trans_a, trans_b in ((False, False), (True, False), (False, True), (True, True)):
                if (trans_a or trans_b) and a not in ("f16", "bf16"):
                    continue
                unit = wgmma.Wgmma(n, d, a, b, trans_a=trans_a, trans_b=trans_b)
                found.append(Warpgroup(unit, False))
                if not trans_a:
                    found.append(Warpgroup(unit, True))
    return found


def warpgroup_source(number: int, probe: Warpgroup) -> str:
    unit, count = probe.unit, probe.unit.accumulator_registers
    d = ", ".join(f"%{i}" for i in range(count))
    a = f"{{{', '.join(f'%{count + i}' for i in range(4))}}}" if probe.from_registers else f"%{count}"
    following = count + (4 if probe.from_registers else 1)
    immediates = [] if unit.a in ("s8", "u8") else ["1", "1"]
    if unit.a in ("f16", "bf16"):
        immediates += (
            [str(int(unit.trans_b))] if probe.from_registers else [str(int(unit.trans_a)), str(int(unit.trans_b))]
        )
    tail = "".join(f", {x}" for x in immediates)
    opcode = f"wgmma.mma_async.sync.aligned.m64n{unit.n}k{unit.k}.{unit.d}.{unit.a}.{unit.b}"
    outs = ", ".join(f'"+r"(d[{i}])' for i in range(count))
    ins = ", ".join(f'"r"(a[{i}])' for i in range(4)) if probe.from_registers else '"l"(da)'
    return (
        f'extern "C" __global__ void warpgroup_{number}(const uint4* image, const unsigned* ra, '
        "unsigned long long da, unsigned long long db, unsigned scale, unsigned* acc) {\n"
        f"  extern __shared__ __align__(1024) uint4 smem[];\n  unsigned t = threadIdx.x, d[{count}], a[4];\n"
        f"  for (unsigned i = t; i < {SHARED // 16}; i += 128) smem[i] = image[i];\n"
        "  for (int i = 0; i < 4; ++i) a[i] = ra[t * 4 + i];\n"
        f"  for (int i = 0; i < {count}; ++i) d[i] = acc[t * {count} + i];\n"
        '  asm volatile("fence.proxy.async;" ::: "memory");\n  __syncthreads();\n'
        '  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n'
        f'  asm volatile("{{.reg .pred p; setp.ne.u32 p, %{following + 1}, 0; "\n'
        f'    "{opcode} {{{d}}}, {a}, %{following}, p{tail};}}"\n'
        f'    : {outs} : {ins}, "l"(db), "r"(scale));\n'
        '  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");\n'
        '  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");\n'
        f"  for (int i = 0; i < {count}; ++i) acc[t * {count} + i] = d[i];\n}}\n"
    )


WARPS = [
    mma_sync.MmaSync(k, d, a, b)
    for d, a, b, k in (
        ("f32", "f16", "f16", 8), ("f16", "f16", "f16", 16), ("f32", "bf16", "bf16", 16), ("f32", "tf32", "tf32", 8),
        ("s32", "s8", "u8", 32), ("s32", "u8", "s8", 16), ("f32", "e4m3", "e5m2", 32),
    )
]  # fmt: skip


def warp_source(number: int, unit: mma_sync.MmaSync) -> str:
    na, nb, nc = unit.registers
    place = iter(range(nc + na + nb + nc))
    d, a, b, c = ("{" + ", ".join(f"%{next(place)}" for _ in range(n)) + "}" for n in (nc, na, nb, nc))
    opcode = f"mma.sync.aligned.m16n8k{unit.k}.row.col.{unit.d}.{unit.a}.{unit.b}.{unit.d}"
    ins = ", ".join(f'"r"({p}[t * {n} + {i}])' for p, n in (("a", na), ("b", nb), ("c", nc)) for i in range(n))
    outs = ", ".join(f'"=r"(r[{i}])' for i in range(nc))
    return (
        f'extern "C" __global__ void warp_{number}(const unsigned* a, const unsigned* b, unsigned* c) {{\n'
        f"  unsigned t = threadIdx.x, r[{nc}];\n"
        f'  asm volatile("{opcode} {d}, {a}, {b}, {c};" : {outs} : {ins});\n'
        f"  for (int i = 0; i < {nc}; ++i) c[t * {nc} + i] = r[i];\n}}\n"
    )


def sources() -> dict[str, str]:
    """CUDA text by the name of its cubin."""
    return {
        "scalars": "".join(scalar_source(i, p) for i, p in enumerate(scalars())),
        "warpgroups": "".join(warpgroup_source(i, p) for i, p in enumerate(warpgroups())),
        "warps": "".join(warp_source(i, p) for i, p in enumerate(WARPS)),
    }


def build(folder: Path) -> int:
    from croq.driver.nvrtc import compile_cuda

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in sources().items():
        (folder / f"{name}.cu").write_text(text, encoding="utf-8")
        (folder / f"{name}.cubin").write_bytes(compile_cuda(text, headers={}, name=f"{name}.cu").cubin)
        print(f"built {name}")
    return 0


# ----------------------------------------------------------------------------------------------------------------- run
class Chip:
    """Kernels of the cubins of a folder, and their memory as bytes."""

    def __init__(self, folder: Path) -> None:
        from croq.driver.launch import Module

        self.modules = {name: Module((folder / f"{name}.cubin").read_bytes()) for name in sources()}

    def call(
        self, module: str, kernel: str, arguments: list[Any], *, grid: int = 1, block: int = 128, shared: int = 0
    ) -> None:
        """Arguments: arrays, copied in and, where writable, back; (type, value) of a scalar; a parameter as bytes."""
        from croq.driver import launch
        from croq.driver.device import synchronize
        from croq.driver.device_array import DeviceArray

        packed, back = [], []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                raw = np.ascontiguousarray(argument).view(np.uint8).reshape(-1)
                device = DeviceArray.from_numpy(raw)
                back.append((argument, device))
                packed.append(launch.pointer(device.pointer))
            else:
                packed.append(argument if isinstance(argument, bytes) else launch.scalar(*argument))
        self.modules[module].kernel(kernel).launch((grid, 1, 1), (block, 1, 1), shared, None, packed)
        synchronize()
        for argument, device in back:
            if argument.flags.writeable:
                argument.view(np.uint8).reshape(-1)[:] = device.to_numpy()


def run(folder: Path, only: str) -> int:
    chip, bad, seen = Chip(folder), 0, 0
    probes: list[tuple[str, Callable[[], str]]] = [
        (p.name, partial(run_scalar, chip, i, p)) for i, p in enumerate(scalars())
    ]
    probes += [(_title(p), partial(run_warpgroup, chip, i, p)) for i, p in enumerate(warpgroups())]
    probes += [(f"mma.sync {u}", partial(run_warp, chip, i, u)) for i, u in enumerate(WARPS)]
    for name, probe in probes:
        if only not in name:
            continue
        verdict = probe()
        seen += 1
        bad += not verdict.startswith("ok")
        print(f"{name:40s} {verdict}", flush=True)
    print(f"{seen} probes, {bad} of them not ok")
    return 4 if bad else 0


def _title(probe: Warpgroup) -> str:
    u = probe.unit
    flags = f"{'r' if probe.from_registers else 's'}{' tA' if u.trans_a else ''}{' tB' if u.trans_b else ''}"
    return f"wgmma n{u.n} {u.d} {u.a} {u.b} {flags}"


def operands(kind: str) -> np.ndarray:
    """Every kind of bit pattern: uniform ones, short ones (ties), numbers near one, whole numbers, the edges."""
    dtype = _C[kind][2]
    size = np.dtype(dtype).itemsize
    bits: np.ndarray[Any, Any] = RNG.integers(0, 256, COUNT * size, dtype=np.uint8).view(f"u{size}")
    if kind in INTEGERS:
        shift = RNG.integers(0, size * 8, COUNT).astype(bits.dtype)
        shifted: np.ndarray[Any, Any] = bits >> shift
        return shifted.view(dtype)
    values = bits.view(dtype).copy()
    with np.errstate(all="ignore"):
        values[: COUNT // 4] = (RNG.standard_normal(COUNT // 4) * 8).astype(dtype)
        values[COUNT // 4 : COUNT // 2] = (RNG.integers(-3000, 3000, COUNT // 4) / 2).astype(dtype)
    precision = FORMATS[kind].precision
    keep = RNG.integers(0, max(precision - 1, 1), COUNT).astype(bits.dtype)
    short: np.ndarray[Any, Any] = values.view(bits.dtype) >> keep << keep
    short[::2] = values.view(bits.dtype)[::2]
    return short.view(dtype)


def run_scalar(chip: Chip, number: int, probe: Scalar) -> str:
    given = [operands(kind) for kind in probe.inputs]
    wide = [
        x.astype(np.dtype(_word(kind))) if kind in ("u8", "s8") else x
        for x, kind in zip(given, probe.inputs, strict=True)
    ]
    want = np.ascontiguousarray(probe.model(*given))
    got = np.zeros(COUNT, _word(probe.output))
    for array in wide:
        array.flags.writeable = False
    chip.call("scalars", f"scalar_{number}", [*wide, got, ("u32", COUNT)], grid=COUNT // 128)
    size = want.dtype.itemsize
    found = np.ascontiguousarray(got).view(np.uint8).reshape(COUNT, -1)[:, :size]
    found = np.ascontiguousarray(found).view(want.dtype)[:, 0]
    return compare(found, want, given, probe)


def _word(kind: str) -> Any:
    return {"unsigned": np.uint32, "unsigned short": np.uint16, "short": np.int16}.get(_C[kind][0], _C[kind][2])


def compare(got: np.ndarray, want: np.ndarray, given: list[np.ndarray], probe: Scalar) -> str:
    size = want.dtype.itemsize
    equal = got.view(f"u{size}") == want.view(f"u{size}")
    note = ""
    if probe.output in FORMATS:
        equal |= np.isnan(got) & np.isnan(want)
        if probe.near is not None:
            with np.errstate(all="ignore"):
                allowed = probe.near(*given)
                distance = np.abs(got.astype(np.float64) - want.astype(np.float64))
                equal |= distance <= allowed
                finite = np.isfinite(distance) & np.isfinite(allowed) & (allowed > 0)
                note = f", at most {float((distance / allowed)[finite].max(initial=0)):.2f} of the stated error"
    return verdict(equal, lambda at: f"{[x[at] for x in given]} -> {got[at]!r}, not {want[at]!r}", note)


def verdict(equal: np.ndarray, show: Callable[[int], str], note: str = "") -> str:
    wrong = np.flatnonzero(~equal)
    return f"ok{note}" if not len(wrong) else f"{len(wrong)} of {equal.size} differ: {show(int(wrong[0]))}"


# Bits of small whole numbers: sums of them are exact in any order.
_SMALL = {
    "bf16": [0, 0x3F80, 0xBF80, 0x4000, 0xC000], "f16": [0, 0x3C00, 0xBC00, 0x4000, 0xC000],
    "tf32": [0, 0x3F800000, 0xBF800000, 0x40000000], "e4m3": [0, 0x38, 0xB8, 0x40], "e5m2": [0, 0x3C, 0xBC, 0x40],
    "s8": [0, 1, 2, 255, 128], "u8": [0, 1, 2, 255],
}  # fmt: skip


def small(kind: str, size: int) -> np.ndarray:
    """`size` bytes of small whole numbers of a type."""
    word = {8: np.uint8, 16: np.uint16, 32: np.uint32}[{"tf32": 32, "bf16": 16, "f16": 16}.get(kind, 8)]
    return RNG.choice(np.array(_SMALL[kind], word), size // np.dtype(word).itemsize).view(np.uint8)


def descriptor(unit: wgmma.Wgmma, trans: bool, rows: int) -> int:
    """A random descriptor whose operand lies in shared memory: any start, any strides, a base offset at times."""
    while True:
        mode = int(RNG.integers(0, 4))
        start = START + 16 * int(RNG.integers(0, 256))
        near, far = (16 * int(RNG.integers(1, 129)) for _ in range(2))
        base = int(RNG.integers(0, 8)) if mode and RNG.random() < 0.25 else 0
        bits = start >> 4 | near >> 4 << 16 | far >> 4 << 32 | base << 49 | mode << 62
        chunks = unit.b_chunks(bits) if rows == unit.n else unit.a_chunks(bits)
        if chunks.max() + 16 <= SHARED and chunks.min() >= START:
            return bits


def run_warpgroup(chip: Chip, number: int, probe: Warpgroup) -> str:
    """Exact sums must be equal. One operand is all small numbers of the type of A; mixed types share an image."""
    unit, count = probe.unit, probe.unit.accumulator_registers
    for trial in range(12):
        image = small(unit.a if trial % 2 else unit.b, SHARED)
        if unit.a != unit.b:
            image &= 0xB8 if unit.a.startswith("e") else 0xFF  # bytes that are small in both types
        registers = small(unit.a, 128 * 16).view(np.uint32).reshape(128, 4)
        old = RNG.integers(-99, 99, (64, unit.n)).astype(
            {"f32": np.float32, "f16": np.float16, "s32": np.int32}[unit.d]
        )
        acc = wgmma.accumulator_registers(old).copy()
        da, db = descriptor(unit, unit.trans_a, 64), descriptor(unit, unit.trans_b, unit.n)
        memory = np.zeros(SHARED + START, np.uint8)
        memory[START:] = image
        a = unit.a_from_registers(registers) if probe.from_registers else unit.a_from_shared(memory, da)
        want = unit.compute(a, unit.b_from_shared(memory, db), acc, trial % 3 != 0)
        image.flags.writeable = registers.flags.writeable = False
        chip.call(
            "warpgroups", f"warpgroup_{number}",
            [image, registers, ("u64", da), ("u64", db), ("u32", int(trial % 3 != 0)), acc], shared=SHARED,
        )  # fmt: skip
        if (acc != want).any():
            thread, register = np.argwhere(acc != want)[0]
            where = f"thread {thread}, register {register} with A {da:#x}, B {db:#x}"
            return f"{int((acc != want).sum())} of {want.size} differ, the first at {where}"
    return f"ok{_deviation(chip, number, probe, count)}"


def _deviation(chip: Chip, number: int, probe: Warpgroup, count: int) -> str:
    """How far sums of ordinary numbers are from the model, relative to the sum of absolute products."""
    unit = probe.unit
    if unit.d == "s32":
        return ""
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
             "e5m2": ml_dtypes.float8_e5m2}[unit.a]  # fmt: skip
    image = RNG.standard_normal(SHARED // np.dtype(dtype).itemsize).astype(dtype).view(np.uint8)
    registers = RNG.standard_normal(128 * 16 // np.dtype(dtype).itemsize).astype(dtype).view(np.uint32).reshape(128, 4)
    bits = START >> 4 | 8 << 16 | 16 << 32
    memory = np.zeros(SHARED + START, np.uint8)
    memory[START:] = image
    a = unit.a_from_registers(registers) if probe.from_registers else unit.a_from_shared(memory, bits)
    b = unit.b_from_shared(memory, bits)
    acc = np.zeros((128, count), np.uint32)
    want = wgmma.accumulator_matrix(unit.compute(a, b, acc, False), unit.d).astype(np.float64)
    image.flags.writeable = registers.flags.writeable = False
    arguments: list[Any] = [image, registers, ("u64", bits), ("u64", bits), ("u32", 0), acc]
    chip.call("warpgroups", f"warpgroup_{number}", arguments, shared=SHARED)
    got = wgmma.accumulator_matrix(acc, unit.d).astype(np.float64)
    relative = np.abs(got - want) / (np.abs(a) @ np.abs(b))
    worst = float(relative.max())
    return f", sums within 2^{np.log2(worst):.1f} of the absolute products" if worst else ", sums equal"


def run_warp(chip: Chip, number: int, unit: mma_sync.MmaSync) -> str:
    na, nb, nc = unit.registers
    a = small(unit.a, 32 * na * 4).view(np.uint32).reshape(32, na)
    b = small(unit.b, 32 * nb * 4).view(np.uint32).reshape(32, nb)
    kind = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[unit.d]
    c = mma_sync.matrix_to_registers(RNG.integers(-9, 9, (16, 8)).astype(kind)).copy()
    assert c.shape[1] == nc
    want = unit.compute(a, b, c)
    a.flags.writeable = b.flags.writeable = False
    chip.call("warps", f"warp_{number}", [a, b, c], block=32)
    return verdict((c == want).reshape(-1), lambda at: f"lane {at // nc}, register {at % nc}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    todo = parser.add_mutually_exclusive_group(required=True)
    todo.add_argument("--build", type=Path, metavar="DIR")
    todo.add_argument("--run", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT", help="probes whose name contains this")
    options = parser.parse_args()
    return build(options.build) if options.build is not None else run(options.run, options.only)


if __name__ == "__main__":
    sys.exit(main())
