"""What passes promise one another, as data: order, operations, facts; and the table of docs/passes.md."""

from __future__ import annotations

import importlib
from collections import defaultdict
from pathlib import Path

import pytest

from croq.diagnostics import CompileError, InternalError, Sink
from croq.ir.core import Op
from croq.ir.facts import LOWERED, Fact
from croq.ir.objects import Kernel
from croq.ir.parser import parse_module
from croq.ir.printer import print_module
from croq.ir.tile import EventWait
from croq.passes import pipeline
from croq.passes.base import Pass
from croq.passes.events import Events
from tests.passes.test_resume import built

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted([*(ROOT / "kernels").glob("*.co"), *(ROOT / "tests" / "programs").glob("*.co")])
TABLE = ("<!-- made by tests/passes/test_contracts.py -->\n", "\n<!-- end -->")


def kinds(kernel: Kernel) -> set[type[Op]]:
    return {type(op) for op in kernel.walk()}


@pytest.fixture(scope="module")
def makers() -> dict[type[Op], set[str]]:
    """The passes behind which an operation of the machine appears that was not there before, over all programs."""
    found: dict[type[Op], set[str]] = defaultdict(set)
    for path in PROGRAMS:
        try:
            module = built(str(path))
        except CompileError:
            continue
        before = {kernel.name: kinds(kernel) for kernel in module.kernels}

        def observe(name: str, kernel: Kernel, before: dict[str, set[type[Op]]] = before) -> None:
            for kind in kinds(kernel) - before[kernel.name]:
                found[kind].add(name)
            before[kernel.name] = kinds(kernel)

        pipeline.run(module, Sink(), observer=observe)
    return found


def test_operations_of_the_machine_are_made_by_passes_that_say_so(makers):
    promised = defaultdict(set)
    for made in pipeline.passes():
        for item in made.adds:
            if not isinstance(item, Fact):
                promised[item].add(made.name)
    machine = {kind for kind in makers if kind.VOCABULARY == "hw"}
    assert {kind.NAME: sorted(makers[kind] - promised[kind]) for kind in machine if makers[kind] - promised[kind]} == {}
    assert {kind.NAME for kind in promised if kind not in makers} == set(), "promised, and made in no program"


def test_every_fact_that_emission_needs_is_some_pass_s_promise():
    assert {fact for made in pipeline.passes() for fact in made.facts} == set(LOWERED)


def test_passes_stand_behind_those_that_they_need():
    order = pipeline.passes()
    pipeline.check_order(order)
    for item in order:
        for need in item.needs:
            wrong = [made for made in order if made.name != need]
            with pytest.raises(InternalError, match=rf"E-9004.*stands before.*{need}"):
                pipeline.check_order(wrong)


class Forgets(Events):
    """Promises what `events` does, and does nothing."""

    def apply(self, kernel: Kernel, sink: Sink) -> None: ...


def test_a_broken_promise_is_a_fault_of_croq(monkeypatch):
    def passes() -> list[Pass]:
        return [Forgets() if made.name == "events" else made for made in PASSES]

    PASSES = pipeline.passes()
    monkeypatch.setattr(pipeline, "passes", passes)
    with pytest.raises(InternalError) as caught:
        pipeline.run(built("v4"), Sink())
    said = [found.message for found in caught.value.diagnostics]
    assert any(EventWait.NAME in text for text in said) and any("has no lowering" in text for text in said)


def test_a_slice_that_lacks_what_a_pass_needs_is_refused_with_the_signs():
    module = built("v4")
    pipeline.run(module, Sink(), after="swizzles")
    with pytest.raises(CompileError) as caught:
        pipeline.run(parse_module(print_module(module)), Sink(), only=["moves"])
    (found,) = caught.value.diagnostics
    assert found.code == "E-3106" and "`moves` needs `events`" in found.message
    assert found.notes[0] == "`event.trigger` is left" and "run `events` before it" in (found.hint or "")
    pipeline.run(parse_module(print_module(module)), Sink(), only=["events", "moves"])


def test_the_table_of_the_page_is_made_of_the_contracts(golden):
    page = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
    head, rest = page.split(TABLE[0])
    _, tail = rest.split(TABLE[1])
    golden(head + TABLE[0] + table() + TABLE[1] + tail, "docs/passes.md")


def table() -> str:
    rows = ["| pass | derives | needs | makes | from here on |", "|---|---|---|---|---|"]
    for made in pipeline.passes():
        text = (importlib.import_module(type(made).__module__).__doc__ or "").split("\n\n")[0].replace("\n", " ")
        holds = [str(fact) for fact in made.facts]
        if made.leaves_no:
            holds.append("no " + ", ".join(f"`{kind.NAME}`" for kind in made.leaves_no))
        made_of = ", ".join(f"`{item.NAME}`" for item in made.adds if not isinstance(item, Fact))
        needs = ", ".join(f"`{need}`" for need in made.needs)
        rows.append(f"| `{made.name}` | {text.removesuffix('.')} | {needs} | {made_of} | {'; '.join(holds)} |")
    return "\n".join(rows)
