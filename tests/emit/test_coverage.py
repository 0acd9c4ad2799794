"""Every emission has its template, and a sample uses it. That each operation has one: tests/ir/test_consumers.py."""

from __future__ import annotations

import inspect
import re

import pytest

from croq.emit import emit_cuda, ops
from croq.emit.registry import expression, statement
from croq.emit.templating import TEMPLATES
from tests.emit.samples import SAMPLES, kernel

TEMPLATE_NAMES = {path.stem for path in TEMPLATES.glob("*.j2")}
SHARED = {"value", "if", "braces", "kernel", "file", "while_head"}  # templates of no operation, or of several


@pytest.mark.parametrize("name", sorted(op.NAME for op in statement.of))
def test_every_statement_has_a_template_of_its_name(name: str) -> None:
    assert name in TEMPLATE_NAMES


def test_no_template_is_left_over() -> None:
    assert {op.NAME for op in statement.of} >= TEMPLATE_NAMES - SHARED


@pytest.mark.parametrize("name", sorted(op.NAME for op in [*statement.of, *expression.of]))
def test_the_samples_use_every_operation(name: str) -> None:
    used = {op.NAME for sample in SAMPLES.values() for op in kernel(*sample).walk()}
    assert name in used


def test_emission_knows_no_kernel() -> None:
    modules = [module for _, module in inspect.getmembers(ops, inspect.ismodule)]
    text = "".join(inspect.getsource(module) for module in modules)
    text += "".join(path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.j2"))
    assert not re.findall(r"attention|softmax|flash|\bgemm\b", text, re.IGNORECASE)


def test_an_empty_kernel() -> None:
    text = emit_cuda([kernel("", "")])
    assert text.endswith("k() {\n}\n")
