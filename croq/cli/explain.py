"""`explain`: the page of a diagnostic."""

from __future__ import annotations

import re

from croq.cli.session import Session
from croq.diagnostics import CompileError, make
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


def explain_code(session: Session, code: str) -> int:
    match = _CODE.match(code.strip())
    if match is None:
        message = f"`{code}` is no code of a diagnostic"
        raise CompileError([make("E-3130", None, message, hint="a code looks like E-310 or W-301")])
    name = f"{match[1].upper()}-{int(match[2])}"
    page = resource("docs", "diagnostics", f"{name}.md")
    text = page.read_text(encoding="utf-8") if page.is_file() else _area(name, int(match[2]))
    if session.console.json:
        session.console.data({"code": name, "text": text})
    else:
        session.console.result(text)
    return 0


def _area(name: str, number: int) -> str:
    who, page = next((who, page) for limit, who, page in _AREAS if number < limit)
    return f"{name} is reported by {who}. The rules are in {page}; the message says what is wrong, why, and what to do."
