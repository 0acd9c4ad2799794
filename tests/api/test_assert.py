"""`assert` at host level: what arguments must satisfy, checked before a launch."""

from __future__ import annotations

import numpy as np
import pytest

import croq

TEXT = """__co__ void f(global f32 [N] x, global f32 [M] y, int n) {
  ASSERTION
  parallel b by cdiv(N, 32) : block, t by 32 : thread {
    i = b # t;
    if (i < N) x.at(i) = y.at(i);
  }
}
"""


def text(assertion: str) -> str:
    return TEXT.replace("ASSERTION", assertion)


def simulate(assertion: str, n: int, m: int, scalar: int) -> None:
    croq.simulate(croq.compile(text(assertion)), np.zeros(n, np.float32), np.ones(m, np.float32), scalar)


def test_arguments_that_satisfy_it_pass() -> None:
    simulate('assert(N == M && n % 4 == 0, "together");', 10, 10, 8)


@pytest.mark.parametrize(
    ("sizes", "rule", "origin"),
    [((10, 11, 8), "N == M", "argument 2 (`y`)"), ((10, 10, 7), "n%4 == 0", "argument 3 (`n`)")],
)
def test_others_are_refused_with_the_rule_and_where_the_values_come_from(sizes, rule, origin) -> None:
    with pytest.raises(croq.LaunchError) as caught:
        simulate('assert(N == M && n % 4 == 0, "together");', *sizes)
    (fault,) = caught.value.diagnostics
    assert fault.span is not None
    assert fault.code == "E-4071" and fault.span.line == 2 and rule in fault.message
    assert any(origin in note for note in fault.notes) and "together" in fault.notes


@pytest.mark.parametrize(
    ("assertion", "code"),
    [
        ("assert(N);", "E-1210"),
        ("assert(N * 1.5f > 2.0f);", "E-1210"),
        ('assert(1 == 2, "no");', "E-1211"),
        ("assert(K == N);", "E-314"),
    ],
)
def test_what_cannot_be_asserted(assertion, code) -> None:
    (found,) = croq.check(text(assertion))
    assert found.span is not None
    assert (found.code, found.span.line) == (code, 2)


def test_inside_a_kernel_it_is_not_supported_yet() -> None:
    found = croq.check(text("").replace("i = b # t;", "i = b # t; assert(i < N);"))
    assert [d.code for d in found] == ["E-3020"]


@pytest.mark.parametrize("name", ["v1", "v2", "v4"])
def test_shipped_kernels_refuse_sequences_of_different_lengths(name) -> None:
    import ml_dtypes

    q = np.zeros((1, 256, 1, 128), ml_dtypes.bfloat16)
    k = np.zeros((1, 128, 1, 128), ml_dtypes.bfloat16)
    with pytest.raises(croq.LaunchError, match="E-4071"):
        croq.simulate(croq.compile(name), q, k, k, q.copy())
