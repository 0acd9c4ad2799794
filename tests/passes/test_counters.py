"""What counts along, beside the case in cases/counters."""

from __future__ import annotations

import numpy as np
import pytest

import croq
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
        ("mutable u8 k = 0; foreach {i} in [n] { " + READ + " k++; }", False),  # 255 goes over into 0
        ("mutable u32 k = 4294967290; foreach {i} in [n] { " + READ + " k++; }", False),
        ("mutable u32 k = 0; foreach {i} in [n] { b.at(0, 0) = s[__to<u8>(k) % 3].at(t); k++; }", False),
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


# Each of them as the language has it: a position, a parity alone, what starts again, what wraps.
VALUES = """
__co__ void f(global s32 [N] y) {
  parallel b by 1 : block, t by 32 : thread {
    mutable s32 a = 7;
    mutable u32 c = 0;
    mutable u8 d = 0;
    mutable u32 e = 4294967290;
    mutable u64 g = 0;
    foreach {i} in [N] {
      if (i % 11 == 0) c = 4;
      sum = a % 3 + 3 * ((c / 5) & 1) + 6 * (d % 3) + 18 * (e % 3) + 54 * (__to<u8>(a) % 3);
      if (t == 0) y.at(i) = sum + 162 * (g % 6) + 972 * ((a / 3) & 1);
      a++; c++; d++; e++; g++;
    }
  }
}
"""


def test_what_is_counted_along_is_what_a_division_gives() -> None:
    y = np.zeros(600, np.int32)
    croq.simulate(croq.compile(VALUES), y)
    i = np.arange(600)
    a, c = i + 7, 4 + i % 11
    sums = a % 3 + 3 * (c // 5 & 1) + 6 * (i % 256 % 3) + 18 * ((4294967290 + i) % 2**32 % 3) + 54 * (a % 256 % 3)
    np.testing.assert_array_equal(y, sums + 162 * (i % 6) + 972 * (a // 3 & 1))
