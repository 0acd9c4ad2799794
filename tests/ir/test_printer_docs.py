"""docs/ir.md tells the truth: its example parses, its table is the declarations."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
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
BEGIN, END = "<!-- {}: kept by tests/ir/test_printer_docs.py -->\n", "<!-- end -->"
TRAIT = re.compile(r"    ([A-Z]+): ClassVar\[.*# (.+)")
UPDATE = "--update-golden"
ACCESS = {"read": "reads", "write": "writes", "update": "reads and writes"}
UNTIL = {"future": "its future, where it has one,", "mbarrier": "the phase that counts its bytes"}
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


def classes() -> list[type[Op]]:
    return sorted(REGISTRY.values(), key=lambda cls: list(GROUPS).index(cls.__module__))


def traits() -> str:
    """Each trait with its meaning, as it stands at its declaration, and the operations that have it, by its values."""
    lines = ["```"]
    for name, meaning in TRAIT.findall(inspect.getsource(Op)):
        if name in ("NOUN", "VOCABULARY", "ACCESSES", "REGIONS", "RESULTS", "OPERANDS", "REFERENCES"):
            continue
        found: dict[object, list[str]] = {}
        for cls in classes():
            found.setdefault(getattr(cls, name), []).append(cls.NAME)
        lines += [f"{name:<12}{meaning}"]
        for value, names in found.items():
            if value is not None and value is not False:
                label = "" if value is True else str(value)
                lines += textwrap.wrap(
                    ", ".join(names), 118, initial_indent=f"  {label:<16}", subsequent_indent=" " * 18
                )
    return "\n".join([*lines, "```", ""])


def effects() -> str:
    lines = ["```"]
    for cls in classes():
        words = [
            f"{'reads and writes' if access == 'update' else access + 's'} {name}" for name, access in cls.ACCESSES
        ]
        if words:
            until = f", until {UNTIL.get(cls.UNTIL, f'its {cls.UNTIL}')} is complete" if cls.UNTIL else ""
            lines.append(f"{cls.NAME:<20}{', '.join(words)}{until}")
    return "\n".join([*lines, "```", ""])


@pytest.mark.parametrize("part", [table, traits, effects], ids=["operations", "traits", "effects"])
def test_the_page_has_what_the_classes_say(part: Callable[[], str], request: pytest.FixtureRequest) -> None:
    text, name = PAGE.read_text(), request.node.callspec.id
    begin = BEGIN.format(name)
    start = text.index(begin) + len(begin)
    stop = text.index(END, start)
    if request.config.getoption(UPDATE):
        text = text[:start] + "\n" + part() + text[stop:]
        PAGE.write_text(text)
        stop = text.index(END, start)
    assert text[start:stop].strip() == part().strip(), f"run this test with {UPDATE} to write it"


def test_every_operation_is_in_the_table() -> None:
    assert {cls.__module__ for cls in REGISTRY.values()} == set(GROUPS)


def test_the_example_is_a_kernel_as_printed() -> None:
    example = PAGE.read_text().split("## Example\n\n```\n")[1].split("```")[0]
    kernel = parse_kernel(example)
    verify(kernel, "hw")
    assert print_kernel(kernel) == example


def test_the_grammar_names_every_kind_of_object() -> None:
    grammar = PAGE.read_text().split("KIND: ")[1].splitlines()[0]
    assert grammar.split() == list(KEYWORDS)
