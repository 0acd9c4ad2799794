"""One array for two parameters, and views that overlap: what is one memory is seen as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import croq
from croq.diagnostics import CroqError
from croq.kernel import explore
from croq.simulate.aliases import copies, groups, places, shares

SHIFT = """
__co__ void f(global f32 [N] x, global f32 [N] y) {
  parallel b by cdiv(N, 32) : block, t by 32 : thread {
    i = b # t;
    if (i > 0 && i < N) y.at(i) = x.at(i - 1) + 1.0f;
  }
}
"""
HALVES = """
__co__ void f(global f32 [N] x, global f32 [N] y) {
  parallel b by cdiv(N, 32) : block, t by 32 : thread { i = b # t; if (i < N) y.at(i) = 2.0f * x.at(i); }
}
"""


def codes(text: str, *arrays: Any, **options: Any) -> list[str]:
    try:
        croq.simulate(croq.compile(text), *arrays, **options)
    except CroqError as fault:
        return [d.code for d in fault.diagnostics]
    return []


def test_apart_there_is_no_race() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, dtype=np.float32)
    assert codes(SHIFT, x, y) == []
    assert y.tolist() == list(map(float, range(64)))


@pytest.mark.parametrize("blocks", [1, 2])
def test_one_array_twice_is_one_memory(blocks: int) -> None:
    x = np.zeros(32 * blocks, dtype=np.float32)
    assert codes(SHIFT, x, x) == ["E-5050"]


def test_views_that_overlap_are_one_memory() -> None:
    base = np.zeros(97, dtype=np.float32)
    assert codes(SHIFT, base[1:], base[:96]) == []  # y.at(i) is x.at(i - 1): each thread keeps to one element
    assert codes(SHIFT, base[:96], base[1:]) == ["E-5050"]
    assert codes(HALVES, base[:64], base[1:65]) != []
    assert codes(HALVES, base[:32], base[64:96]) == []
    assert codes(HALVES, base[:32], base[32:64]) == []


def test_in_place_is_no_race_where_every_thread_keeps_to_its_own() -> None:
    x = np.arange(64, dtype=np.float32)
    assert codes(HALVES, x, x) == []
    assert x.tolist() == [2.0 * i for i in range(64)]


def test_schedules_are_explored_on_copies_that_share_what_the_originals_share() -> None:
    x = np.zeros(64, dtype=np.float32)
    exploration = explore(croq.compile(SHIFT), x, x, schedules=3, jobs=1)
    assert [d.code for d in exploration.diagnostics] == ["E-5050"]
    base = np.arange(100, dtype=np.float32)
    made = copies({"a": base[:60], "b": base[40:], "c": base[::-1], "d": np.zeros(3)}, {"a"})
    assert np.shares_memory(made["a"], made["b"]) and not np.shares_memory(made["a"], base)
    for name, array in {"a": base[:60], "b": base[40:], "c": base[::-1]}.items():
        assert np.array_equal(made[name], array)
    made["a"][50] = -1.0
    assert made["b"][10] == made["c"][49] == -1.0


def test_a_copy_of_an_array_with_gaps_would_hide_changes() -> None:
    base = np.zeros((4, 6), dtype=np.float32)
    assert shares(base[:, ::2], base[:, 0])
    assert not shares(base[:, ::2], base[:, 1])


def test_groups_are_ranges_of_addresses() -> None:
    base = np.zeros(64, dtype=np.float32)
    other = np.zeros(4, dtype=np.float32)
    found = sorted(sorted(group) for group in groups({"a": base[:10], "b": base[5:20], "c": base[20:], "d": other}))
    assert found == [["a", "b"], ["c"], ["d"]]
    (_, start), (group, later) = places({"a": base[:10], "b": base[5:20]}).values()
    assert later - start == 20 and set(group) == {"a", "b"}
