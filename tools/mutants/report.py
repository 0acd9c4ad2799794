"""Tables of outcomes, and the survivors that docs/mutants.md accounts for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.mutants.model import Outcome

_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
_COLUMNS = ("static", "verifier", "simulator", "same code", "survived", "crash")


def listed(document: Path) -> set[str]:
    """Ids in the first column of the document's tables."""
    return set(_ROW.findall(document.read_text(encoding="utf-8"))) if document.exists() else set()


def row(outcome: Outcome, known: set[str]) -> str:
    """One line: id, description, what caught it."""
    mutant = outcome.mutant
    return f"{mutant.id:52s} line {mutant.line:<4d} {verdict(outcome, known):34s} {mutant.description}"


def verdict(outcome: Outcome, known: set[str]) -> str:
    if outcome.stage == "survived":
        return "equivalent (docs/mutants.md)" if outcome.mutant.id in known else "SURVIVED"
    if outcome.stage == "crash":
        return f"CRASH {outcome.code}"
    others = "".join(f" + {stage} {code}" for stage, code in outcome.others)
    return f"{outcome.stage} {outcome.code}{others}".strip()


def summary(outcomes: Sequence[Outcome]) -> str:
    """A line for each kernel and kind, with how many each tool caught."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for outcome in outcomes:
        key = outcome.mutant.kernel, outcome.mutant.kind
        groups.setdefault(key, Counter())[outcome.stage] += 1
    lines = [f"{'kernel':24s} {'kind':8s} {'mutants':>8s} " + " ".join(f"{c:>10s}" for c in _COLUMNS)]
    total: Counter[str] = Counter()
    for (kernel, kind), counts in groups.items():
        total += counts
        lines.append(_counts(kernel, kind, counts))
    return "\n".join([*lines, _counts("all", "", total)])


def _counts(kernel: str, kind: str, counts: Counter[str]) -> str:
    return f"{kernel:24s} {kind:8s} {counts.total():8d} " + " ".join(f"{counts[c]:10d}" for c in _COLUMNS)


def unaccounted(outcomes: Iterable[Outcome], known: set[str]) -> list[Outcome]:
    """Survivors without an argument, and mutants that a tool died of."""
    return [o for o in outcomes if o.stage == "crash" or (o.stage == "survived" and o.mutant.id not in known)]


def stale(outcomes: Iterable[Outcome], known: set[str]) -> list[str]:
    """Ids that are listed as survivors and are none."""
    return [o.mutant.id for o in outcomes if o.mutant.id in known and o.stage != "survived"]


def write_json(outcomes: Iterable[Outcome], path: Path) -> None:
    text = json.dumps([o.to_json() for o in outcomes], indent=1) + "\n"
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
