"""`explain`: the page of a diagnostic."""

from __future__ import annotations

import re

from croq.cli.session import Session
from croq.diagnostics import CompileError, make
from croq.resources import resource

_CODE = re.compile(r"([EW])-?(\d{1,4})\Z", re.IGNORECASE)
_AREAS = (
    (2000, "a rule of the language (docs/language.md)"),
    (3000, "found by a pass, while hardware operations are derived"),
    (4000, "found by the driver of the compilation: input files, CUDA compiler, target, environment"),
    (5000, "found at a launch: arguments, workload, device"),
    (6000, "found by the simulator or the protocol verifier"),
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
    area = next((what for limit, what in _AREAS if number < limit), "a fault of croq itself")
    return f"{name}: {area}. There is no page for it; the message itself says what is wrong and what to do."
