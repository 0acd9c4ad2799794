"""Shuffled programs, right as written, are right as lowered: no thread is left a phase behind.

CROQ_HANDSHAKES=500 tries so many (default 16), CROQ_HANDSHAKES_FIRST is the first seed.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import croq
from croq.passes.pace import Pace
from croq.protocol import judge
from croq.verify import verify_protocol
from tests.handshakes.shuffled import draw
from tests.passes.helpers import lower

FIRST = int(os.environ.get("CROQ_HANDSHAKES_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("CROQ_HANDSHAKES", "16")))
ONE_ANSWERS = 3  # a seed: all threads of the consumer wait for a token, and one gives it back


@pytest.mark.parametrize("seed", SEEDS)
def test_shuffled_program_is_proved_and_right(seed: int) -> None:
    text = draw(seed)
    kernel = croq.compile(text, verify=False)
    for found in judge(kernel.compilation.module.kernels, kernel.compilation.written):
        assert found.proved, "\n".join([text, str(found), *(d.render() for d in found.diagnostics())])
    extent = 64 * (1 + seed % 4)
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (64, extent)).astype(np.float16) for _ in "ab")
    c = np.full((64, 64), np.nan, np.float32)
    croq.simulate(kernel, a, b, c, schedule="hostile" if seed % 2 else f"random:{seed}")
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64).T, atol=2e-2, err_msg=text)


def test_barriers_are_there_for_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """K1: without the pass a thread can be left behind, and the verifier sees it."""
    assert verify_protocol(lower(draw(ONE_ANSWERS))).proved
    monkeypatch.setattr(Pace, "apply", lambda self, kernel, sink: None)
    (found,) = verify_protocol(lower(draw(ONE_ANSWERS))).found
    assert found.code == "E-6006"


def test_equal_seeds_give_equal_texts() -> None:
    assert [draw(seed) for seed in range(20)] == [draw(seed) for seed in range(20)]
    assert len({draw(seed) for seed in range(20)}) == 20
