"""mbarrier objects count as the PTX ISA says, and refuse what it leaves undefined."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croq.ptx.units.fault import UnitFault
from croq.ptx.units.mbarrier import COUNT_MAX, TX_MAX, Mbarrier, Mbarriers, token_pending


def kind_of(action: Callable[[], object]) -> str:
    with pytest.raises(UnitFault) as caught:
        action()
    assert caught.value.sentence
    return caught.value.kind


def test_a_phase_completes_with_its_last_arrival() -> None:
    barrier = Mbarrier(2)
    assert [barrier.test_parity(0), barrier.test_parity(1)] == [False, True]
    barrier.arrive()
    assert not barrier.test_parity(0)
    barrier.arrive()
    assert [barrier.test_parity(0), barrier.test_parity(1)] == [True, False]
    assert barrier.pending == 2


def test_bytes_hold_a_phase_open() -> None:
    barrier = Mbarrier(1)
    barrier.arrive_expect_tx(96)
    barrier.complete_tx(32)
    assert not barrier.test_parity(0)
    barrier.complete_tx(64)
    assert barrier.test_parity(0)


def test_bytes_may_land_before_they_are_expected() -> None:
    barrier = Mbarrier(1)
    barrier.complete_tx(64)
    assert barrier.tx == -64
    barrier.arrive_expect_tx(64)
    assert barrier.phase == 1


def test_an_expectation_comes_before_its_arrival() -> None:
    """Otherwise the arrival alone would complete the phase, and the bytes would count for the next one."""
    barrier = Mbarrier(1)
    barrier.arrive_expect_tx(16)
    assert barrier.phase == 0


def test_wrong_bytes_never_complete() -> None:
    barrier = Mbarrier(1)
    barrier.arrive_expect_tx(64)
    barrier.complete_tx(128)
    assert (barrier.phase, barrier.tx, barrier.pending) == (0, -64, 0)


def test_one_arrival_too_many_is_a_fault() -> None:
    barrier = Mbarrier(2)
    barrier.expect_tx(16)
    barrier.arrive(2)
    assert kind_of(barrier.arrive) == "mbarrier-over-arrival"
    assert kind_of(lambda: Mbarrier(2).arrive(3)) == "mbarrier-over-arrival"


@pytest.mark.parametrize("count", [0, -1, COUNT_MAX + 1])
def test_counts_have_a_range(count: int) -> None:
    assert kind_of(lambda: Mbarrier(count)) == "mbarrier-count"
    assert kind_of(lambda: Mbarrier(1).arrive(count)) == "mbarrier-count"


def test_transactions_have_a_range() -> None:
    barrier = Mbarrier(1)
    barrier.expect_tx(TX_MAX)
    assert kind_of(lambda: barrier.expect_tx(1)) == "mbarrier-tx"
    assert kind_of(lambda: Mbarrier(1).expect_tx(TX_MAX + 1)) == "mbarrier-tx"
    assert kind_of(lambda: Mbarrier(1).complete_tx(-1)) == "mbarrier-tx"


def test_dropped_arrivals_are_not_expected_again() -> None:
    barrier = Mbarrier(3)
    barrier.arrive_drop()
    barrier.arrive(2)
    assert (barrier.phase, barrier.pending) == (1, 2)
    barrier.arrive_drop(2)
    assert (barrier.phase, barrier.pending, barrier.expected) == (2, 0, 0)
    assert kind_of(barrier.arrive) == "mbarrier-over-arrival"


def test_a_state_is_of_the_phase_of_its_arrival() -> None:
    barrier = Mbarrier(2)
    first = barrier.arrive()
    assert token_pending(first) == 2
    assert not barrier.test_state(first)
    barrier.arrive()
    assert barrier.test_state(first)
    barrier.arrive(2)
    assert kind_of(lambda: barrier.test_state(first)) == "mbarrier-stale-state"


def test_no_complete_may_not_complete() -> None:
    barrier = Mbarrier(2)
    barrier.arrive(no_complete=True)
    assert kind_of(lambda: barrier.arrive(no_complete=True)) == "mbarrier-no-complete"


def test_a_parity_is_a_bit() -> None:
    assert kind_of(lambda: Mbarrier(1).test_parity(2)) == "mbarrier-parity"


def test_objects_live_from_init_to_inval() -> None:
    objects = Mbarriers()
    assert kind_of(lambda: objects.at(64)) == "mbarrier-uninitialised"
    assert kind_of(lambda: objects.init(60, 1)) == "mbarrier-alignment"
    objects.init(64, 1)
    assert kind_of(lambda: objects.init(64, 1)) == "mbarrier-live"
    objects.inval(64)
    assert kind_of(lambda: objects.at(64)) == "mbarrier-uninitialised"
    assert kind_of(lambda: objects.inval(64)) == "mbarrier-uninitialised"


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["arrive", "expect", "land"]), st.integers(1, 3)), max_size=40),
)
def test_phases_follow_the_sums(count: int, steps: list[tuple[str, int]]) -> None:
    """Against the sums since the phase began: it is over exactly when `count` arrived and all bytes came."""
    barrier, arrived, tx, phase = Mbarrier(count), 0, 0, 0
    for step, amount in steps:
        if step == "arrive":
            if arrived + amount > count:
                assert kind_of(lambda n=amount: barrier.arrive(n)) == "mbarrier-over-arrival"  # type: ignore[misc]
                continue
            barrier.arrive(amount)
            arrived += amount
        elif step == "expect":
            if arrived == count and tx + amount == 0:
                assert kind_of(lambda n=amount: barrier.expect_tx(n)) == "mbarrier-late-tx"  # type: ignore[misc]
                continue
            barrier.expect_tx(amount)
            tx += amount
        else:
            barrier.complete_tx(amount)
            tx -= amount
        if arrived == count and tx == 0:
            arrived, phase = 0, phase + 1
        assert (barrier.phase, barrier.tx, barrier.pending) == (phase, tx, count - arrived)
        assert barrier.test_parity(phase % 2) is False
