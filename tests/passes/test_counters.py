"""What counts along, beside the case in cases/counters."""

from __future__ import annotations

import pytest

from croq.ir.scalar import VarSet
from tests.passes.helpers import lower

RING = """
__co__ void f(global f32 [64, 64] b, int n) {{
  parallel c by 1 : block {{
    shared f32 [128] s[3] {{0.0f}};
    parallel p by 1 : group-4, t by 128 : thread {{ {body} }}
  }}
}}
"""
READ = "b.at(0, 0) = s[k % 3].at(t);"


@pytest.mark.parametrize(
    ("body", "counted"),
    [
        ("mutable u32 k = 0; foreach {i} in [n] { " + READ + " k++; }", True),
        ("mutable u32 k = 0; foreach {i} in [n] { " + READ + " k = k + 2; }", False),
        ("mutable u32 k = 0; foreach {i} in [n] { " + READ + " k++; k = k * 2; }", False),
        (
            "frag f32 [64, 64] f {0.0f}; mutable u32 k = 0; foreach {i} in [n] { " + READ
            + " apply {i, j} in f.span { k = k + 1; f.at(i, j) = 1.0f; } mma.store f, b; }",
            False,
        ),
    ],
)  # fmt: skip
def test_only_steps_of_one_outside_maps_are_counted_along(body: str, counted: bool) -> None:
    kernel = lower(RING.format(body=body))
    slots = {op.var.name for op in kernel.walk() if isinstance(op, VarSet) and op.var.name.endswith("_slot")}
    assert bool(slots) == counted
