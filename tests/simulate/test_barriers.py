"""The counting of mbarriers and named barriers."""

import pytest

from croq.ir import hw
from croq.ir.objects import Event
from croq.simulate.barriers import Mbarrier, NamedBarrier
from croq.simulate.faults import SimulationFault

OP = hw.CtaSync()


def _code(fault):
    return fault.value.diagnostics[0].code


@pytest.fixture
def barrier():
    made = Mbarrier(Event("e"), 0)
    made.init(2, OP)
    return made


def test_a_fresh_barrier_has_completed_the_phase_before_its_first(barrier):
    assert barrier.done(1)
    assert not barrier.done(0)


def test_arrivals_complete_a_phase(barrier):
    barrier.come(1, OP)
    assert not barrier.done(0)
    barrier.come(1, OP)
    assert barrier.done(0)
    assert not barrier.done(1)
    barrier.come(2, OP)
    assert barrier.done(1)
    assert barrier.phase == 2


def test_bytes_hold_a_phase_open(barrier):
    barrier.come(1, OP, 100)
    barrier.come(1, OP)
    assert not barrier.done(0)
    barrier.complete(60, 0, OP)
    assert not barrier.done(0)
    barrier.complete(40, 0, OP)
    assert barrier.done(0)


def test_bytes_may_land_before_they_are_expected(barrier):
    barrier.complete(100, 0, OP)
    barrier.come(1, OP)
    barrier.come(1, OP, 100)
    assert barrier.done(0)


def test_too_many_bytes(barrier):
    barrier.come(1, OP, 100)
    barrier.complete(120, 0, OP)
    with pytest.raises(SimulationFault) as fault:
        barrier.come(1, OP)
    assert _code(fault) == "E-5015"


def test_bytes_of_an_earlier_phase(barrier):
    barrier.come(2, OP)
    with pytest.raises(SimulationFault) as fault:
        barrier.complete(100, 0, OP)
    assert _code(fault) == "E-5015"


def test_too_many_arrivals(barrier):
    barrier.come(1, OP, 100)
    barrier.come(1, OP)
    with pytest.raises(SimulationFault) as fault:
        barrier.come(1, OP)
    assert _code(fault) == "E-5014"


def test_initialised_twice_or_never(barrier):
    with pytest.raises(SimulationFault) as fault:
        barrier.init(2, OP)
    assert _code(fault) == "E-5016"
    with pytest.raises(SimulationFault) as fault:
        Mbarrier(Event("f"), 0).come(1, OP)
    assert _code(fault) == "E-5016"


def test_a_named_barrier_counts_warps_and_starts_again():
    barrier = NamedBarrier(1, "barrier")
    assert [barrier.come(96, OP) for _ in range(6)] == [False, False, True] * 2
    assert barrier.generation == 2


def test_a_named_barrier_with_two_counts():
    barrier = NamedBarrier(1, "barrier")
    barrier.come(96, OP)
    with pytest.raises(SimulationFault) as fault:
        barrier.come(64, OP)
    assert _code(fault) == "E-5017"


def test_a_named_barrier_of_part_of_a_warp():
    with pytest.raises(SimulationFault) as fault:
        NamedBarrier(1, "barrier").come(48, OP)
    assert _code(fault) == "E-5017"
