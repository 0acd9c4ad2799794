"""Random scalar programs: the simulator, the executed PTX, constant folding and the chip must give the same bits.

    python -m tools.fuzz_scalars [--seed N] [--kernels K] [--statements S]     simulator against PTX and folding
    python -m tools.fuzz_scalars --device ...                                  the chip against the simulator, too

A kernel holds S statements, which 32 threads compute on values at the edges of the types: 50 kernels of 40 statements
are 2,000 programs. Every statement that differs is printed with the lane, its inputs and the values. Exit status 4 when
one does. `compare` is the library of it: tests/random_scalars has a small run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

import croq
from tests.random_scalars import scalar_programs as programs

REFUSED = ("E-412", "E-413", "E-414")  # of constants: a statement that folds to one is left out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", type=int, default=10)
    parser.add_argument("--statements", type=int, default=40)
    parser.add_argument("--device", action="store_true")
    options = parser.parse_args()
    found = 0
    for seed in range(options.seed, options.seed + options.kernels):
        for line in compare(seed, options.statements, device=options.device):
            found += 1
            print(f"seed {seed}: {line}", flush=True)
    print(f"{options.kernels * options.statements} programs, {found} differences")
    return 4 if found else 0


def compare(seed: int, count: int, *, ptx: bool = True, device: bool = False) -> Iterator[str]:
    """What differs in the program of a seed."""
    drawn = programs.statements(seed, count)
    values = programs.inputs(seed)
    kernel, kept = _compiled(drawn, {k: s.over_inputs() for k, s in enumerate(drawn)})
    if kernel is None:
        return
    made, count = [drawn[k] for k in kept], len(kept)
    wanted = _simulated(kernel, values, count, "ir")
    if ptx:
        yield from _differences("ptx", made, values, wanted, _simulated(kernel, values, count, "ptx"))
    if device:
        yield from _differences("chip", made, values, wanted, _launched(kernel, values, count))
    yield from _folding(seed, made, values, wanted)


def _compiled(made: Sequence[Any], texts: dict[int, str]) -> tuple[Any, list[int]]:
    """A kernel of these statements without those that a rule refuses, and which they are."""
    while texts:
        kept = list(texts)
        try:
            return croq.compile(programs.source_text([made[k] for k in kept], list(texts.values()))), kept
        except croq.CompileError as error:
            refused = {d.span.line - 3 for d in error.diagnostics if d.code in REFUSED and d.span is not None}
            if not refused:
                raise
            texts = {k: text for n, (k, text) in enumerate(texts.items()) if n not in refused}
    return None, []


def _simulated(kernel: Any, values: dict[str, Any], count: int, level: Literal["ir", "ptx"]) -> dict[str, Any]:
    results = programs.results(count)
    croq.simulate(kernel, *values.values(), *results.values(), level=level)
    return results


def _launched(kernel: Any, values: dict[str, Any], count: int) -> dict[str, Any]:
    from croq.driver.device import synchronize
    from croq.driver.device_array import DeviceArray

    arrays = {name: DeviceArray.from_numpy(array) for name, array in {**values, **programs.results(count)}.items()}
    kernel(*arrays.values())
    synchronize()
    return {name: array.to_numpy() for name, array in arrays.items()}


def _folding(seed: int, made: Sequence[Any], values: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    """One lane with literals in the place of its inputs."""
    lane = seed % programs.LANES
    texts = {k: text for k, s in enumerate(made) if (text := s.folded(values, lane)) is not None}
    kernel, kept = _compiled(made, texts)
    if kernel is None:
        return
    found = _simulated(kernel, values, len(kept), "ir")
    for n, k in enumerate(kept):
        got, want = found[f"r{made[k].type}"][lane, n], wanted[f"r{made[k].type}"][lane, k]
        if not _same(got, want):
            yield f"folding gives {got}, the simulator {want}: {texts[k]}"


def _differences(
    what: str, made: Sequence[Any], values: dict[str, Any], wanted: dict[str, Any], got: dict[str, Any]
) -> Iterator[str]:
    for k, statement in enumerate(made):
        a, b = wanted[f"r{statement.type}"][:, k], got[f"r{statement.type}"][:, k]
        for lane in range(programs.LANES):
            if not _same(a[lane], b[lane]):
                inputs = [values[f"x{type}"][lane, n] for n, type in enumerate(statement.inputs)]
                yield f"{what} gives {b[lane]}, the simulator {a[lane]}, lane {lane}: {statement.text} of {inputs}"
                break


def _same(a: Any, b: Any) -> bool:
    """Equal bits, or both NaN."""
    return bool(a.tobytes() == b.tobytes() or (np.isnan(float(a)) and np.isnan(float(b))))


if __name__ == "__main__":
    sys.exit(main())
