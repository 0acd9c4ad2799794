"""One sample tried: compiled, executed as lowered IR and as PTX; both must compute what it says, bit for bit alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import croq
from tests.random_tiles.tile_copy import draw_copy
from tests.random_tiles.tile_fragment import draw_fragment
from tests.random_tiles.tile_mma import draw_mma
from tests.random_tiles.tile_sample import Sample

FAMILIES = {"mma": draw_mma, "copy": draw_copy, "fragment": draw_fragment}
INTERNAL = "E-9"  # codes of croq's own faults


@dataclass(frozen=True)
class Trial:
    """`refused`: the code of the rule that the program breaks; `wrong`: what is wrong, in words."""

    sample: Sample
    refused: str | None = None
    wrong: str | None = None


def try_sample(family: str, seed: int, *, ptx: bool = True, schedule: str = "eager") -> Trial:
    sample = FAMILIES[family](seed)
    try:
        kernel = croq.compile(sample.text)
    except croq.CompileError as error:
        code = error.diagnostics[0].code
        return Trial(sample, wrong=str(error)) if code.startswith(INTERNAL) else Trial(sample, refused=code)
    lowered = sample.fresh()
    try:
        croq.simulate(kernel, *lowered.values(), schedule=schedule)
        wrong = sample.wrong(lowered, "as lowered")
        if ptx and wrong is None:
            emitted = sample.fresh()
            croq.simulate(kernel, *emitted.values(), schedule=schedule, level="ptx")
            wrong = sample.wrong(emitted, "as PTX") or _differing(sample, lowered, emitted)
    except croq.CroqError as error:
        wrong = str(error)
    return Trial(sample, wrong=wrong)


def _differing(sample: Sample, lowered: dict[str, Any], emitted: dict[str, Any]) -> str | None:
    for name in sample.arrays:
        if lowered[name].tobytes() != emitted[name].tobytes():
            return f"`{name}` of the PTX is not that of the lowered program in every bit"
    return None
