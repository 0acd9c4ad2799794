"""Rules by address: what each says, where it stands, and where it is applied.

A rule stands in the docstring of the module that applies it (`    B2  text`, under `Rules`). Its address is the name of
the module, as a pass is called, and its own: `events.B2`. Code of that module, and of its folder, cites the short name,
all other code the address; operations carry it (`Op.rule`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parent
_EXAMPLES = ("croq/rules.py", "croq/cli/", "croq/ir/core.py")  # that name rules to show how
_HEAD = re.compile(r"( {0,4})([A-Z]\d+)  (\S.*)")


@dataclass(frozen=True)
class Place:
    path: str  # from the folder that holds `croq`
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Rule:
    address: str
    text: str  # one paragraph
    sources: str  # what the rules of the module rest on, in its words; may be empty
    place: Place

    @property
    def short(self) -> str:
        return self.address.rpartition(".")[2]

    def citations(self) -> list[Place]:
        """Where code applies or names the rule, outside of its statement."""
        own = Path(self.place.path)
        home = own.parent if own.name == "__init__.py" else own
        found = []
        for path, lines in _sources().items():
            if path.startswith(_EXAMPLES):
                continue
            here = Path(path) == home or home in Path(path).parents
            pattern = _pattern(self.short if here else self.address)
            skipped = _statements(lines) if path == self.place.path else 0
            found += [Place(path, n) for n, line in enumerate(lines[skipped:], skipped + 1) if pattern.search(line)]
        return found


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w])" if "." in name else rf"(?<!\w){name}(?!\w)")


@cache
def rules() -> dict[str, Rule]:
    """All rules by address, in the order of files and lines."""
    found: dict[str, Rule] = {}
    for path, lines in _sources().items():
        for rule in _rules_of(path, lines):
            if rule.address in found:
                raise ValueError(f"two rules are called {rule.address}: {found[rule.address].place}, {rule.place}")
            found[rule.address] = rule
    return found


def _rules_of(path: str, lines: list[str]) -> Iterator[Rule]:
    end = _statements(lines)
    heads = [(n, found) for n, line in enumerate(lines[:end]) if (found := _HEAD.fullmatch(line))]
    sources = next((line[7:-1] for line in lines[:end] if line.startswith("Rules (")), "")
    for n, head in heads:
        text = [head[3]]
        for line in lines[n + 1 : end]:
            if not line.startswith(" " * (len(head[1]) + 1)) or _HEAD.fullmatch(line):
                break
            text.append(line.strip())
        yield Rule(f"{_name(path)}.{head[2]}", " ".join(text), sources, Place(path, n + 1))


def _name(path: str) -> str:
    found = Path(path)
    return (found.parent.name if found.name == "__init__.py" else found.stem).replace("_", "-")


def _statements(lines: list[str]) -> int:
    """The line behind the module's docstring."""
    if not lines or not lines[0].startswith('"""'):
        return 0
    return next((n for n, line in enumerate(lines, 1) if line.endswith('"""') and (n > 1 or line.count('"""') > 1)), 0)


@cache
def _sources() -> dict[str, list[str]]:
    return {
        str(path.relative_to(_ROOT.parent)): path.read_text(encoding="utf-8").splitlines()
        for path in sorted(_ROOT.rglob("*.py"))
    }
