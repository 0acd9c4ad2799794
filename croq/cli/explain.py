"""`explain`: the page of a diagnostic."""

from __future__ import annotations

import re

from croq.cli import reports
from croq.cli.session import Session
from croq.diagnostics import CompileError, Diagnostic, make
from croq.resources import resource

_CODE = re.compile(r"([EW])-?(\d{1,4})\Z", re.IGNORECASE)
_AREAS = (  # the first number behind the range, who reports it, where its rules are written
    (2000, "a rule of the language", "docs/language.md"),
    (2100, "the front end: the file, its text, its macros", "docs/language.md"),
    (3000, "a pass, while the machine's operations are derived", "docs/passes.md"),
    (4000, "the CUDA compiler, the target, or the machine that croq runs on", "docs/cli.md"),
    (5000, "a launch or a simulation: arguments, workload, device", "docs/cli.md"),
    (6000, "the simulator, or its race detector", "docs/simulator.md"),
    (7000, "the protocol verifier: an order that the program, or its lowering, does not keep", "docs/memory-model.md"),
    (8000, "the execution of the emitted PTX", "docs/simulator.md"),
    (10000, "a check of croq on itself that failed: a fault of croq", "docs/cli.md"),
)
MAX_SHOWN = 6  # messages, reasons or remedies of a code that many places report


def explain_code(session: Session, code: str) -> int:
    """Print what is known of a code. Raises CompileError E-3130 for what is none, with the nearest ones."""
    match = _CODE.match(code.strip())
    if match is None:
        raise CompileError([_unknown(code, None)])
    name = f"{match[1].upper()}-{int(match[2])}"
    if name not in reports.known_codes():
        raise CompileError([_unknown(code, int(match[2]))])
    page = resource("docs", "diagnostics", f"{name}.md")
    text = page.read_text(encoding="utf-8") if page.is_file() else _page(name, int(match[2]))
    if session.console.json:
        session.console.data({"code": name, "text": text})
    else:
        session.console.result(text)
    return 0


def _unknown(code: str, number: int | None) -> Diagnostic:
    hint = "a code looks like E-310 or W-301"
    if number is not None:
        near = sorted(reports.known_codes(), key=lambda known: (abs(int(known[2:]) - number), known))[:3]
        hint = f"the nearest are {', '.join(near)}"
    return make("E-3130", None, f"croq reports no `{code}`", hint=hint)


def _page(name: str, number: int) -> str:
    """Who reports it, in which words, why, and what to do; a `…` stands where the program's own words go."""
    who, page = next((who, page) for limit, who, page in _AREAS if number < limit)
    found = reports.reports(name)
    lines = [f"{name} is reported by {who}. The rules are in {page}."]
    lines += _section("It says", [text for report in found for text in report.messages])
    lines += _section("Why", [text for report in found for text in report.notes])
    lines += _section("What to do", [text for report in found for text in report.hints])
    where = ", ".join(dict.fromkeys(report.module for report in found))
    lines += ["", f"Reported in {where}. The message itself names the place, what else is involved, and the remedy."]
    return "\n".join(lines)


def _section(title: str, texts: list[str]) -> list[str]:
    shown = list(dict.fromkeys(texts))
    if not shown:
        return []
    more = [f"  and {len(shown) - MAX_SHOWN} more"] if len(shown) > MAX_SHOWN else []
    return ["", f"{title}:", *(f"  {text}" for text in shown[:MAX_SHOWN]), *more]
