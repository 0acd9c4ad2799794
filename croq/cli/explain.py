"""`explain`: the page of a diagnostic, or the list of all.

The pages in docs/diagnostics are the registry: a code is known if it has one, and its title is the page's first line.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from croq.cli.session import Session
from croq.diagnostics import CompileError, Diagnostic, make
from croq.resources import resource

_CODE = re.compile(r"([EW]?)-?(\d{1,4})\Z", re.IGNORECASE)
_STAGES = (  # the first number behind the range, who reports it, where its rules are written
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


def known_codes() -> list[str]:
    """Every code of a diagnostic, in order of the numbers."""
    found = [path.stem for path in resource("docs", "diagnostics").glob("*.md")]
    return sorted(found, key=lambda code: (int(code[2:]), code))


def explain_code(session: Session, code: str) -> int:
    """Print the page of a code. Raises CompileError E-3130 for what is none, with the nearest ones."""
    known = known_codes()
    match = _CODE.match(code.strip())
    found = [] if match is None else [f"{kind}-{int(match[2])}" for kind in match[1].upper() or "EW"]
    pages = {name: _text(name) for name in found if name in known}
    if not pages:
        raise CompileError([_unknown(code, match and int(match[2]), known)])
    if session.console.json:
        data = [_data(name, text) for name, text in pages.items()]
        session.console.data(data if len(data) > 1 else data[0])
    else:
        session.console.result("\n\n".join(_page(name, text) for name, text in pages.items()))
    return 0


def list_codes(session: Session) -> int:
    """Print all codes with their titles, by who reports them."""
    titles = {code: _title(_text(code)) for code in known_codes()}
    if session.console.json:
        found = [{"code": code, "title": title, "stage": _stage(code)[0]} for code, title in titles.items()]
        session.console.data(found)
        return 0
    lines: list[str] = []
    for who, _ in dict.fromkeys(map(_stage, titles)):
        lines += ["", f"{who}:", *(f"  {code:7} {title}" for code, title in titles.items() if _stage(code)[0] == who)]
    session.console.result("\n".join(lines[1:]))
    return 0


def _text(code: str) -> str:
    return resource("docs", "diagnostics", f"{code}.md").read_text(encoding="utf-8").rstrip()


def _title(text: str) -> str:
    return text.partition("\n")[0].partition(": ")[2]


def _page(code: str, text: str) -> str:
    who, rules = _stage(code)
    return f"{text}\n\n{code} is reported by {who}. The rules are in {rules}."


def _data(code: str, text: str) -> dict[str, str]:
    who, rules = _stage(code)
    return {"code": code, "title": _title(text), "stage": who, "rules": rules, "text": text}


def _stage(code: str) -> tuple[str, str]:
    return next((who, rules) for limit, who, rules in _STAGES if int(code[2:]) < limit)


def _unknown(code: str, number: int | None, known: list[str]) -> Diagnostic:
    near = get_close_matches(code.upper(), known, 3, 0.6)
    if number is not None:
        near = sorted(known, key=lambda name: abs(int(name[2:]) - number))[:3] + near
    hint = f"the nearest are {', '.join(dict.fromkeys(near))}" if near else "a code looks like E-310 or W-301"
    return make("E-3130", None, f"croq reports no `{code}`", hint=f"{hint}; `croq explain` lists all")
