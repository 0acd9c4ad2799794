"""rcp, sqrt, rsqrt and the transcendental functions. PTX ISA, "Floating Point Instructions".

What the ISA calls approximate is computed and bounded by `units.approximate`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from croq.ptx.build import Builder
from croq.ptx.ops.floats import ROUNDINGS, apply, element, modifiers, rounding
from croq.ptx.registry import Form, Step, instruction
from croq.ptx.units import float_arithmetic as arithmetic
from croq.ptx.units.approximate import APPROXIMATIONS, approximate


@instruction("rcp sqrt rsqrt sin cos lg2 ex2 tanh", flags="approx ftz rn rz rm rp")
def function(builder: Builder, form: Form) -> Step:
    if "approx" in form.flags:
        name = f"{form.name}.approx.{element(form)}"
        if name not in APPROXIMATIONS:
            raise form.refuse()
        return apply(builder, form, partial(approximate, name, **modifiers(form, "ftz")))
    exact: dict[str, Any] = {"rcp": arithmetic.rcp, "sqrt": arithmetic.sqrt}
    if form.name not in exact or not form.one_of(*ROUNDINGS):
        raise form.refuse()
    return apply(builder, form, partial(exact[form.name], rounding=rounding(form), **modifiers(form, "ftz")))
