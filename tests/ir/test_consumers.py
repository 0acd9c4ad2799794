"""Every consumer of operations is closed-world: it has a rule for each that it meets, or says why it has none."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from croq.diagnostics import InternalError
from croq.ir.core import REGISTRY, Op, Vocabulary, operation
from croq.ir.dispatch import CONSUMERS

for module in (
    "emit.kernel",
    "ir.verify",
    "simulate.runner",
    "timelines.timeline",
    "verify.disagreement",
    "verify.tile",
):
    import_module(f"croq.{module}")
import_module("tools.mutants.lowered")

EXPECTED = {
    "verifier of the IR",
    "verifier of the tile protocol",
    "verifier of the hardware protocol",
    "simulator",
    "emission of statements",
    "emission of expressions",
    "timelines",
    "costs of register statements",
    "costs inside of maps",
    "words of timelines",
    "stores of several threads",
    "mutants of lowered IR",
}


@pytest.fixture
def scratch() -> Iterator[type[Op]]:
    """An operation that everybody has forgotten."""
    yield from invented("hw")


def invented(vocabulary: Vocabulary) -> Iterator[type[Op]]:
    @operation("test.forgotten", vocabulary)
    class Forgotten(Op):
        REGISTERS = True

    yield Forgotten
    del REGISTRY["test.forgotten"]


def forgotten() -> list[str]:
    return [f"{rules.consumer} has no rule for `{kind.NAME}`" for rules in CONSUMERS for kind in rules.missing()]


def test_all_consumers_are_asked() -> None:
    assert {rules.consumer for rules in CONSUMERS} == EXPECTED


def test_no_consumer_lacks_an_operation() -> None:
    found = forgotten()
    assert not found, "\n".join(["", *found])


def test_forgotten_operation_of_the_machine_is_named_by_every_consumer_of_lowered_ir(scratch: type[Op]) -> None:
    without = {
        "verifier of the tile protocol",
        "emission of expressions",
        "costs inside of maps",
        "stores of several threads",
    }
    assert forgotten() == [
        f"{rules.consumer} has no rule for `test.forgotten`" for rules in CONSUMERS if rules.consumer not in without
    ]


def test_forgotten_operation_on_tiles_is_named_by_the_verifier_of_tiles() -> None:
    for _ in invented("tile"):
        assert forgotten() == ["verifier of the tile protocol has no rule for `test.forgotten`"]


def test_forgotten_scalar_operation_is_named_by_all() -> None:
    @operation("test.forgotten", pure=True)
    class Forgotten(Op):
        pass

    found = forgotten()
    del REGISTRY["test.forgotten"]
    assert [line.split(" has no rule")[0] for line in found] == [
        rules.consumer
        for rules in CONSUMERS
        if rules.consumer in ("verifier of the IR", "simulator", "emission of expressions", "costs inside of maps")
    ]


def test_who_needs_a_rule_fails_by_the_name_of_what_it_lacks(scratch: type[Op]) -> None:
    rules = next(rules for rules in CONSUMERS if rules.consumer == "timelines")
    with pytest.raises(InternalError, match=r"timelines: no rule for the operation `test\.forgotten`"):
        rules[scratch()]


def test_what_is_left_alone_has_a_reason_and_no_rule() -> None:
    for rules in CONSUMERS:
        assert all(rules.left_alone.values())
        assert not rules.left_alone.keys() & rules.of.keys(), rules.consumer
