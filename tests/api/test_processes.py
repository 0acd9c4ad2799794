"""Two computations at once give what they give one after the other."""

from __future__ import annotations

import os
import signal

import pytest

from croq import processes
from croq.processes import both
from croq.protocol import judge
from croq.settings import Settings
from croq.stages import Stages
from croq.texts import load
from tests.conftest import ROOT

PARENT = os.getpid()
two = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")


@pytest.fixture(autouse=True)
def processors(monkeypatch):
    monkeypatch.setattr(processes, "_processors", lambda: 2)


def no_children() -> bool:
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    return True


@two
def test_the_second_is_computed_in_another_process():
    first, second = both(os.getpid, os.getpid)
    assert first == os.getpid() != second
    assert no_children()


@two
def test_large_answers_arrive():
    assert both(lambda: 1, lambda: b"x" * 10_000_000) == (1, b"x" * 10_000_000)


def test_with_one_processor_nothing_is_begun(monkeypatch):
    monkeypatch.setattr(processes, "_processors", lambda: 1)
    assert both(os.getpid, os.getpid) == (os.getpid(), os.getpid())


@two
@pytest.mark.parametrize(
    "second", [lambda: lambda: 3, lambda: os.kill(os.getpid(), signal.SIGKILL) if os.getpid() != PARENT else 3]
)
def test_what_cannot_be_sent_is_computed_here(second):
    found = both(lambda: 1, second)[1]
    assert (found() if callable(found) else found) == 3
    assert no_children()


@two
def test_a_fault_of_the_second_shows_here():
    with pytest.raises(ZeroDivisionError):
        both(lambda: 1, lambda: 1 // 0)
    assert no_children()


@two
def test_a_fault_of_the_first_ends_the_second():
    with pytest.raises(ZeroDivisionError):
        both(lambda: 1 // 0, lambda: signal.pause())
    assert no_children()


@pytest.mark.parametrize("name", ["cases/gemm_ring", "faults/arrives_without_waiting"])
def test_verdicts_are_those_of_one_process(name):
    made = Stages(load(ROOT / "tests" / f"{name}.co"), Settings.of(verify=False))
    kernels = made.lowered.module.kernels
    at_once, in_turn = (list(judge(kernels, made.written, together=together)) for together in (True, False))
    assert [*map(repr, at_once)] == [*map(repr, in_turn)]
    assert [d.render() for j in at_once for d in j.diagnostics()] == [
        d.render() for j in in_turn for d in j.diagnostics()
    ]
