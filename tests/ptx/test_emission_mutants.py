"""Faults of emission are noticed by executing the emitted PTX: a part of tools/mutate_emission.py."""

from __future__ import annotations

import pytest

from tools.emission_mutants import Mutant, mutants
from tools.mutate_emission import changed, compiled, is_there, judge, subject

pytestmark = pytest.mark.nvrtc

ALL = list(mutants())
# One subject that has everything, a few of each group: 10 s. The tool runs them all.
FEW = [m for at, m in enumerate(x for x in ALL if x.subject == "attn_streams-d64") if at % 4 == 0]


def test_there_are_many_and_each_has_a_name_of_its_own() -> None:
    assert len(ALL) >= 100
    assert len({m.name for m in ALL}) >= len(ALL) - 2
    assert len({(m.subject, m.place, m.old, m.new) for m in ALL}) == len(ALL)


@pytest.mark.parametrize("name", sorted({m.subject for m in ALL}))
def test_what_mutants_change_is_there(name: str) -> None:
    cuda = compiled(name)[0].cuda
    assert [m.name for m in ALL if m.subject == name and not is_there(m, cuda)] == []


def test_the_kernel_as_it_is_agrees() -> None:
    for schedule in ("eager", "lazy", "random:1"):
        assert subject(FEW[0].subject).difference(subject(FEW[0].subject).kernel.ptx, schedule) == ""


@pytest.mark.parametrize("mutant", FEW, ids=lambda m: m.name)
def test_a_fault_of_emission_is_caught(mutant: Mutant) -> None:
    schedule, found = judge(mutant)
    assert schedule and found


def test_a_place_that_is_gone_is_said() -> None:
    with pytest.raises(LookupError, match="no such text"):
        changed(Mutant("x", FEW[0].subject, "no such text", ""))
