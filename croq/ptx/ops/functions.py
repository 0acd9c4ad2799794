"""rcp, sqrt, rsqrt and the transcendental functions. PTX ISA, "Floating Point Instructions".

What the ISA calls approximate is computed to the precision of binary64 and rounded once; `ACCURACY` is the error that
the ISA allows the chip, which a comparison with it, or with other functions, has to grant.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.ops.floats import ROUNDINGS, apply, element, modifiers, rounding
from croq.ptx.registers import Array
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.units import float_arithmetic as arithmetic
from croq.ptx.units.formats import flushed, rounded, widened

# PTX ISA: the largest errors stated for approximate instructions. "ulp": units in the last place of f32; "relative" and
# "absolute" are what they say.
ACCURACY: dict[str, tuple[str, float]] = {
    "div.approx.f32": ("ulp", 2), "div.full.f32": ("ulp", 2), "rcp.approx.f32": ("ulp", 1),
    "sqrt.approx.f32": ("relative", 2.0**-23), "rsqrt.approx.f32": ("relative", 2.0**-22.9),
    "sin.approx.f32": ("absolute", 2.0**-20.5), "cos.approx.f32": ("absolute", 2.0**-20.5),
    "lg2.approx.f32": ("absolute", 2.0**-22), "ex2.approx.f32": ("ulp", 2), "tanh.approx.f32": ("relative", 2.0**-11),
    "ex2.approx.f16": ("relative", 2.0**-9.9), "ex2.approx.bf16": ("relative", 2.0**-7),
    "tanh.approx.f16": ("absolute", 2.0**-10.987), "tanh.approx.bf16": ("absolute", 2.0**-8),
}  # fmt: skip

_WIDE: dict[str, Callable[[Array], Array]] = {
    "rcp": lambda x: 1.0 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


def _approximate(form: Form) -> Callable[[Array], Array]:
    function, kind, ftz = _WIDE[form.name], element(form), "ftz" in form.flags

    def result(a: Array) -> Array:
        return flushed(rounded(function(widened(flushed(a, ftz))), kind), ftz)

    return result


def _upper_half(form: Form) -> Callable[[Array], Array]:
    """rcp.approx.ftz.f64 and rsqrt: the upper 32 bits of the result. PTX ISA, "rcp.approx.ftz.f64"."""
    function = _WIDE[form.name]
    tiny = np.finfo(np.float64).smallest_normal

    def flush(x: Array) -> Array:
        return np.where(np.abs(x) < tiny, np.copysign(0.0, x), x)

    def result(a: Array) -> Array:
        wide = flush(function(flush(a)))
        return np.ascontiguousarray(wide).view(np.uint64).__and__(np.uint64(0xFFFFFFFF00000000)).view(np.float64)

    return result


@instruction("rcp sqrt rsqrt sin cos lg2 ex2 tanh", flags="approx ftz rn rz rm rp")
def function(builder: Builder, form: Form) -> Step:
    if "approx" in form.flags:
        return apply(builder, form, _upper_half(form) if form.type == "f64" else _approximate(form))
    exact: dict[str, Any] = {"rcp": arithmetic.rcp, "sqrt": arithmetic.sqrt}
    if form.name not in exact or not form.one_of(*ROUNDINGS):
        raise form.refuse()
    return apply(builder, form, partial(exact[form.name], rounding=rounding(form), **modifiers(form, "ftz")))
