"""What a mutant is, and what became of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from croq.diagnostics import CroqError

Kind = Literal["source", "lowered"]
Stage = Literal["static", "verifier", "simulator", "same code", "survived", "crash"]
Found = tuple[Stage, str, str]  # stage, code, message


@dataclass(frozen=True)
class Edit:
    """Replace `[start, end)` of the text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Mutant:
    """One edit of one kernel. `number` is its place among the kernel's mutants of its kind; `id` names it in tables."""

    kernel: str
    kind: Kind
    number: int
    id: str
    line: int
    description: str


@dataclass(frozen=True)
class Outcome:
    """What caught a mutant, or that nothing did. `others`: with --every, what each further tool said."""

    mutant: Mutant
    stage: Stage
    code: str = ""
    message: str = ""
    seconds: float = 0.0
    others: tuple[tuple[str, str], ...] = ()

    @property
    def caught(self) -> bool:
        return self.stage in ("static", "verifier", "simulator")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self.mutant), **{k: v for k, v in asdict(self).items() if k != "mutant"}}


class Names:
    """Unique ids: equal ones get `#2`, `#3`, .. in order."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def unique(self, name: str) -> str:
        count = self._seen[name] = self._seen.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"


def apply_edits(text: str, edits: tuple[Edit, ...]) -> str:
    """The text with disjoint edits made."""
    for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def first_error(error: CroqError) -> tuple[str, str]:
    """Code and message of the first error of several."""
    found = next((d for d in error.diagnostics if d.severity == "error"), error.diagnostics[0])
    return found.code, found.message
