"""The counting of barriers and commit groups, which simulator and verifier share, against the PTX interpreter's own."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croq.ptx.units import mbarrier as ptx
from croq.ptx.units.fault import UnitFault
from croq.target.cuda import WARP
from croq.target.handshakes import CommitGroups, Mbarrier, NamedBarrier, awaited, completed

Step = tuple[Literal["arrive", "announce", "land"], int]
STEPS = st.lists(st.tuples(st.sampled_from(["arrive", "announce", "land"]), st.integers(1, 3)), max_size=60)


@given(st.integers(1, 4), STEPS)
def test_an_mbarrier_counts_as_the_executed_ptx_does(count: int, steps: list[Step]) -> None:
    ours, theirs = Mbarrier(), ptx.Mbarrier(count)
    ours.start(count)
    for what, amount in steps:
        if what == "land":
            theirs.complete_tx(amount)
            ours.land(amount)
        elif amount > ours.pending:
            with pytest.raises(UnitFault, match="arrival"):
                theirs.arrive(amount)
            continue
        elif what == "announce":
            theirs.arrive_expect_tx(3, amount)
            ours.expect(3)
            ours.arrive(amount)
        else:
            theirs.arrive(amount)
            ours.arrive(amount)
        if ours.overdrawn:  # PTX has no name for it: nothing can complete the phase any more
            assert theirs.pending == 0 and theirs.tx < 0
            return
        phase = ours.phase
        assert ours.advance() is (theirs.phase > phase)
        assert (ours.phase, ours.pending, ours.tx) == (theirs.phase, theirs.pending, theirs.tx)
        assert [ours.done(parity) for parity in (0, 1)] == [theirs.test_parity(parity) for parity in (0, 1)]


@given(st.integers(1, 4), st.integers(1, 20))
def test_a_named_barrier_is_full_with_its_threads(warps: int, arrivals: int) -> None:
    barrier = NamedBarrier()
    for number in range(1, arrivals + 1):
        assert barrier.fits(WARP * warps)
        barrier.arrive(WARP * warps)
        assert barrier.fits(WARP * (warps + 1)) is False
        assert barrier.advance() is (number % warps == 0)
        assert (barrier.generation, barrier.arrived) == (number // warps, WARP * (number % warps))
    assert barrier.fits(WARP * (warps + 1)) is (arrivals % warps == 0)


@given(st.lists(st.one_of(st.just("start"), st.just("commit"), st.integers(0, 3)), max_size=40))
def test_a_wait_leaves_no_more_than_its_depth_the_oldest_first(steps: list[str | int]) -> None:
    groups: CommitGroups[int] = CommitGroups()
    started, committed, over = 0, [0], 0  # operations; their number at each commit; groups that were waited for
    for step in steps:
        if step == "start":
            groups.open.append(started)
            started += 1
        elif step == "commit":
            groups.commit()
            committed.append(started)
        else:
            assert isinstance(step, int)
            due = max(over, groups.committed - step)
            assert list(groups.due(step)) == [list(range(committed[n], committed[n + 1])) for n in range(over, due)]
            over = due
        assert list(groups) == list(range(committed[over], started))


def test_what_a_waiter_knows_decides_which_completion_a_parity_means() -> None:
    assert [awaited(known, parity) for known in (0, 1, 2) for parity in (0, 1)] == [1, 0, 1, 2, 3, 2]
    knows = {0: 5, 1: 0, 2: 7}  # an agent, a barrier, another agent

    def of(epoch: tuple[int, int]) -> bool:
        return knows[epoch[0]] >= epoch[1]

    assert completed(0, [[(0, 5)], [(2, 7), (0, 4)], None, [(0, 1)]], of) == 2  # a load's completion is only seen
    assert completed(2, [[], [], [(2, 8)]], of) == 2
    assert completed(1, [None, [(0, 6)], []], of) == 1
