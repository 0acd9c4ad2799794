"""docs/ir.md tells the truth: its example parses, its table is the declarations."""

from __future__ import annotations

from pathlib import Path

import pytest

import croq.ir.hw
import croq.ir.scalar
import croq.ir.tile  # noqa: F401
from croq.ir.core import REGISTRY, Op
from croq.ir.notation import KEYWORDS, op_fields
from croq.ir.parser import parse_kernel
from croq.ir.printer import print_kernel
from croq.ir.verify import verify

PAGE = Path(__file__).parents[2] / "docs" / "ir.md"
BEGIN, END = "<!-- operations: kept by tests/ir/test_printer_docs.py -->\n", "<!-- end -->"
UPDATE = "--update-golden"
GROUPS = {
    "croq.ir.scalar": "Scalars, variables, control flow (both vocabularies)",
    "croq.ir.tile": "Tile operations",
    "croq.ir.hw": "Hardware operations",
}


def signature(cls: type[Op]) -> str:
    parts = {"left": "%{}", "definition": "%{}", "operand": "{}", "attribute": "{}=", "region": "{{{}}}"}
    infos = op_fields(cls)
    inline = ", ".join(parts[i.role].format(i.name) for i in infos if i.role not in ("left", "region"))
    regions = " ".join(parts["region"].format(i.name) for i in infos if i.role == "region")
    left = ", ".join(f"%{i.name}" for i in infos if i.role == "left")
    return " ".join(filter(None, [cls.NAME, inline, regions, f"-> {left}" if left else ""]))


def table() -> str:
    lines: list[str] = []
    for module, title in GROUPS.items():
        lines += [f"{title}:", "", "```"]
        lines += [signature(cls) for cls in REGISTRY.values() if cls.__module__ == module]
        lines += ["```", ""]
    return "\n".join(lines)


def test_the_table_lists_every_operation(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text()
    start, stop = text.index(BEGIN) + len(BEGIN), text.index(END)
    if request.config.getoption(UPDATE):
        text = text[:start] + "\n" + table() + text[stop:]
        PAGE.write_text(text)
        stop = text.index(END)
    assert text[start:stop].strip() == table().strip(), f"run this test with {UPDATE} to write the table"
    assert {cls.__module__ for cls in REGISTRY.values()} == set(GROUPS)


def test_the_example_is_a_kernel_as_printed() -> None:
    example = PAGE.read_text().split("## Example\n\n```\n")[1].split("```")[0]
    kernel = parse_kernel(example)
    verify(kernel, "hw")
    assert print_kernel(kernel) == example


def test_the_grammar_names_every_kind_of_object() -> None:
    grammar = PAGE.read_text().split("KIND: ")[1].splitlines()[0]
    assert grammar.split() == list(KEYWORDS)
