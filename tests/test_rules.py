"""Rules are addresses: unique, cited by code, named by tests, and carried by every operation that orders."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from croq.diagnostics import CompileError, Sink
from croq.emit import emit_cuda
from croq.ir.objects import Module
from croq.passes import pipeline
from croq.plan import plan
from croq.rules import rules
from tests.passes.test_resume import built

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted([*(ROOT / "kernels").glob("*.co"), *(ROOT / "tests" / "programs").glob("*.co")])
ADDRESS = re.compile(r"\b[a-z]+(?:-[a-z]+)*\.[A-Z]\d+\b")
# No test names these, though their code is run by many. The list may only become shorter.
NAMED_BY_NO_TEST = {
    "dead-code.D1", "fragments.F10", "fragments.F11", "fragments.F12", "fragments.F13",
    "narrow.N3", "narrow.N4", "outside.X1", "outside.X2", "outside.X3", "pace.K2", "pace.K3", "pace.K4", "pace.K5",
    "reuse.U2", "reuse.U3", "swizzles.S2", "fragments.F8", "contract.C1", "contract.C2",
    "ranges.G1", "ranges.G2", "ranges.G3", "joins.J1", "memory.M7",
}  # fmt: skip


@cache
def lowered() -> list[Module]:
    found = []
    for path in PROGRAMS:
        try:
            module = built(str(path))
            pipeline.run(module, Sink())
        except CompileError:
            continue
        found.append(module)
    return found


def test_every_rule_is_cited_by_code():
    assert [address for address, rule in rules().items() if not rule.citations()] == []


def test_every_operation_that_orders_names_a_rule_that_exists_and_its_line():
    known, without_line = rules(), set()
    for module in lowered():
        for op in (op for kernel in module.kernels for op in kernel.walk() if op.ORDERS):
            assert op.rule in known, (module.file.name, op.NAME, op.rule)
            if op.span is None:
                without_line.add(op.rule)
    assert without_line <= {"prologue.I1", "narrow.N2", "narrow.N5"}  # for all barriers, for a block as a whole


def test_reasons_of_the_plan_name_rules_that_exist():
    named = {found for module in lowered() for found in ADDRESS.findall(str(plan(module.kernels)))}
    assert named <= set(rules())
    for family in ("events", "swizzles", "moves", "fragments", "futures", "fences"):
        assert any(address.startswith(f"{family}.") for address in named), family


def test_every_rule_is_named_by_a_test_or_at_work_in_a_program():
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    of_passes = "\n".join(
        text for path, text in texts.items() if path.parent.name in ("passes", "verify", "handshakes")
    )
    here = Path(__file__)
    everywhere = "\n".join(text for path, text in texts.items() if path != here)
    at_work = {op.rule for module in lowered() for kernel in module.kernels for op in kernel.walk()}
    at_work |= {found for module in lowered() for found in ADDRESS.findall(str(plan(module.kernels)))}
    missing = set()
    for address, rule in rules().items():
        by_name = address in everywhere or re.search(rf"(?<!\w){rule.short}(?!\w)", of_passes)
        if not by_name and address not in at_work:
            missing.add(address)
    assert missing == NAMED_BY_NO_TEST


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4", "v5"])
def test_reasons_beside_the_lines_change_nothing_else(name):
    module = built(name)
    pipeline.run(module, Sink())
    plain, with_reasons = emit_cuda(module.kernels), emit_cuda(module.kernels, why=True)
    mark = re.compile(r"( |  // )\[[a-z-]+\.[A-Z]\d+(?:, line \d+)?\]$", re.MULTILINE)
    assert mark.sub("", with_reasons) == plain
    ordering = [op for kernel in module.kernels for op in kernel.walk() if op.ORDERS]
    assert len(mark.findall(with_reasons)) >= len(ordering)
    for line in with_reasons.splitlines():
        if re.search(r"croq::(mbarrier_(wait|arrive)|named_barrier|fence_|wgmma_(commit|wait)|cta_sync)", line):
            assert mark.search(line), line


def test_a_rule_says_where_it_stands_and_what_it_rests_on():
    rule = rules()["events.B2"]
    assert rule.text.startswith("A scalar `= ready` event") and "mbarrier" in rule.sources
    line = (ROOT / rule.place.path).read_text(encoding="utf-8").splitlines()[rule.place.line - 1]
    assert line.split()[0] == "B2"
    assert any(place.path == "croq/passes/events/lowering.py" for place in rule.citations())
