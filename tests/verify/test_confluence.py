"""Which warp goes on next changes nothing about the verdict: the argument of docs/memory-model.md, put to the test."""

from __future__ import annotations

from random import Random

import pytest

from croq.verify import verify_protocol
from croq.verify.machine import Machine
from croq.verify.state import Warp
from tests.verify.helpers import kernels, read
from tests.verify.test_rules import HARMLESS, MUTANTS, verdict


@pytest.fixture(params=[1, 2, 3])
def any_order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(request.param)

    def pick(self: Machine) -> Warp:
        self.ready.rotate(random.randrange(len(self.ready)))
        return self.ready.popleft()

    monkeypatch.setattr(Machine, "pick", pick)


@pytest.mark.usefixtures("any_order")
def test_right_kernels_are_proved_in_any_order() -> None:
    for text in HARMLESS.values():
        assert verdict(text).proved
    for path in ("kernels/v2.co", "tests/cases/gemm_two_halves.co", "tests/programs/turns.co"):
        (kernel,) = kernels(read(path))
        assert verify_protocol(kernel).proved


@pytest.mark.usefixtures("any_order")
def test_wrong_kernels_are_refused_in_any_order() -> None:
    for name, (_, text) in MUTANTS.items():
        assert verdict(text).outcome == "fault", name
