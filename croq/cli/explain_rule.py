"""`explain events.B2`: a rule, where it stands, and where code applies it."""

from __future__ import annotations

import textwrap
from difflib import get_close_matches

from croq.cli.session import Session
from croq.diagnostics import CompileError, Diagnostic, make
from croq.rules import Rule, rules

WIDTH = 100


def explain_rule(session: Session, address: str) -> int:
    """Print a rule by its address. Raises CompileError E-3130 for what is none, with the nearest ones."""
    rule = rules().get(address)
    if rule is None:
        raise CompileError([_unknown(address)])
    cited = [str(place) for place in rule.citations()]
    if session.console.json:
        fields = {"address": address, "text": rule.text, "sources": rule.sources, "stated": str(rule.place)}
        session.console.data(fields | {"cited": cited})
    else:
        session.console.result(_text(rule, cited))
    return 0


def _text(rule: Rule, cited: list[str]) -> str:
    lines = [rule.address, "", *textwrap.wrap(rule.text, WIDTH)]
    if rule.sources:
        lines += ["", *textwrap.wrap(f"It rests on {rule.sources}.", WIDTH)]
    lines += ["", f"Stated at {rule.place}, with the other rules of `{rule.address.rpartition('.')[0]}`."]
    if cited:
        lines += ["Code that applies or names it:", *(f"    {place}" for place in cited)]
    return "\n".join(lines)


def _unknown(address: str) -> Diagnostic:
    known = list(rules())
    family = [name for name in known if name.startswith(address.partition(".")[0] + ".")]
    near = family or get_close_matches(address, known, 4, 0.4)
    hint = f"there are {', '.join(near)}" if near else "docs/passes.md and docs/memory-model.md name them"
    return make("E-3130", None, f"croq has no rule `{address}`", hint=hint)
