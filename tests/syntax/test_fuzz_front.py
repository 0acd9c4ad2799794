"""A short run of tools/fuzz_front.py: whatever the text, croq answers in words."""

from __future__ import annotations

import random

import pytest

from tools import fuzz_front as fuzz


@pytest.mark.parametrize("seed", range(4))
def test_mutated_programs_are_answered_in_words(seed: int) -> None:
    found = list(fuzz.trials(seed, 40, 20, check=False))
    assert not found, found[0].kind + ": " + found[0].detail + "\n" + found[0].text


def test_mutations_leave_most_of_a_program() -> None:
    rng = random.Random(0)
    text = fuzz.subjects()[0]
    changed = [fuzz.mutated(text, rng) for _ in range(50)]
    assert all(c != text for c in changed[:40]) or sum(c != text for c in changed) > 40
    assert all(abs(len(c) - len(text)) < len(text) for c in changed)


def test_a_traceback_and_a_hang_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    def endless(*_: object) -> None:
        while True:
            pass

    for act, kind in ((broken, "traceback"), (endless, "hang")):
        monkeypatch.setattr(fuzz, "compile_file", act)
        assert [f.kind for f in fuzz.findings("__co__ void f() {}", limit=1)] == [kind]
