"""docs/diagnostics: each page's wrong input is reported as it says, and its right input is not reported at all.

A page is a title, a wrong input, its rendered report, why, a right input. An input is a program (`co`), lines of Python
(`python`: what they raise, or print), or a command (`console`: its standard error). Of what no input brings about alone
(the machine, the GPU, faults of croq) a page says when it appears. `--update-golden` writes the reports.
"""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from croq.diagnostics import CroqError
from croq.kernel import check_file
from croq.settings import Settings
from croq.source import SourceFile
from tests.command_line import croq
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "diagnostics"
FORM = re.compile(
    r"# (?P<code>[EW]-\d+): (?P<title>[^\n]+[^.\n])\n\n```(?P<kind>co|python|console)\n(?P<wrong>.*?)```\n\n"
    r"```text\n(?P<report>.*?)\n```\n\n(?P<why>(?!```).*?)\n\n```(?P=kind)\n(?P<right>.*?)```\n",
    re.DOTALL,
)
PROSE = re.compile(r"# (?P<code>[EW]-\d+): [^\n]+[^.\n]\n\n[^\n#]+[.?]\n")
FOLLOWERS = {"W-801": {"E-832"}, "W-1101": {"W-1103"}}  # what is never said alone
REPORTED = re.compile(r"^(?:error|warning|note)\[([EW]-\d+)\]", re.MULTILINE)
CODES = sorted(path.stem for path in FOLDER.glob("*.md"))
SHOWN = [code for code in CODES if "\n```" in (FOLDER / f"{code}.md").read_text(encoding="utf-8")]


@dataclass(frozen=True)
class Page:
    code: str
    title: str
    kind: str
    wrong: str
    report: str
    why: str
    right: str

    @staticmethod
    def of(code: str) -> Page:
        found = FORM.fullmatch((FOLDER / f"{code}.md").read_text(encoding="utf-8"))
        assert found is not None, f"docs/diagnostics/{code}.md is no page: title, input, report, why, input"
        return Page(**found.groupdict())

    def said(self, text: str) -> str:
        """What is reported of an input of this page."""
        return {"co": self._checked, "python": executed, "console": called}[self.kind](text)

    def _checked(self, program: str) -> str:
        found = check_file(SourceFile(f"{self.code}.co", program), Settings.of({}))
        return "\n\n".join(diagnostic.render() for diagnostic in found)


def executed(lines: str) -> str:
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            exec(compile(lines, "page", "exec"), {})
    except CroqError as error:
        return str(error)
    return printed.getvalue().rstrip("\n")


def called(command: str) -> str:
    result = croq(*shlex.split(command.removeprefix("$ croq ")))
    assert result.exit_code == 0 or "[E-" in result.stderr
    return result.stderr.rstrip("\n")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("code", SHOWN)
def test_the_wrong_input_is_reported_so(code: str, request: pytest.FixtureRequest) -> None:
    page = Page.of(code)
    report = page.said(page.wrong)
    if request.config.getoption("--update-golden"):
        path = FOLDER / f"{code}.md"
        path.write_text(path.read_text(encoding="utf-8").replace(page.report, report, 1), encoding="utf-8")
        page = Page.of(code)
    assert page.code == code and set(REPORTED.findall(report)) == {code} | FOLLOWERS.get(code, set())
    assert report == page.report


@pytest.mark.parametrize("code", SHOWN)
def test_the_right_input_has_nothing_to_report(code: str) -> None:
    page = Page.of(code)
    assert page.said(page.right) == ""


@pytest.mark.parametrize("code", sorted(set(CODES) - set(SHOWN)))
def test_a_page_without_an_input_says_when_its_code_appears(code: str) -> None:
    found = PROSE.fullmatch((FOLDER / f"{code}.md").read_text(encoding="utf-8"))
    assert found is not None and found["code"] == code


def test_the_codes_that_croq_reports_are_those_that_have_a_page() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "croq").rglob("*.py")]
    used = {code for text in sources for code in re.findall(r"[\"']([EW]-\d{3,4})[\"']", text)}
    assert sorted(used - set(CODES)) == [], "write docs/diagnostics/CODE.md for these"
    assert sorted(set(CODES) - used) == [], "nobody reports these: remove their pages"
