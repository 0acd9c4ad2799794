"""docs/diagnostics: each page's wrong program is reported as it says, and its right program is not reported at all.

A page is a title, a wrong program, its rendered report, why, a right program. `--update-golden` writes the reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from croq.cli.app import app
from croq.cli.reports import known_codes
from croq.diagnostics import Diagnostic
from croq.kernel import check_file
from croq.settings import Settings
from croq.source import SourceFile
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "diagnostics"
UNWRITTEN = Path(__file__).parent / "codes_without_page.txt"
FORM = re.compile(
    r"# (?P<code>[EW]-\d+): (?P<title>[^\n]+[^.\n])\n\n```co\n(?P<wrong>.*?)```\n\n```text\n(?P<report>.*?)\n```\n\n"
    r"(?P<why>(?!```).*?)\n\n```co\n(?P<right>.*?)```\n",
    re.DOTALL,
)
FOLLOWERS = {"W-801": {"E-832"}, "W-1101": {"W-1103"}}  # what is never said alone
CODES = sorted(path.stem for path in FOLDER.glob("*.md"))


@dataclass(frozen=True)
class Page:
    code: str
    title: str
    wrong: str
    report: str
    why: str
    right: str

    @staticmethod
    def of(code: str) -> Page:
        found = FORM.fullmatch((FOLDER / f"{code}.md").read_text(encoding="utf-8"))
        assert found is not None, f"docs/diagnostics/{code}.md is no page: title, program, report, why, program"
        return Page(**found.groupdict())

    def said(self, program: str) -> list[Diagnostic]:
        return check_file(SourceFile(f"{self.code}.co", program), Settings.of({}))


@pytest.mark.parametrize("code", CODES)
def test_the_wrong_program_is_reported_so(code: str, request: pytest.FixtureRequest) -> None:
    page = Page.of(code)
    found = page.said(page.wrong)
    report = "\n\n".join(diagnostic.render() for diagnostic in found)
    if request.config.getoption("--update-golden"):
        path = FOLDER / f"{code}.md"
        path.write_text(path.read_text(encoding="utf-8").replace(page.report, report, 1), encoding="utf-8")
        page = Page.of(code)
    assert page.code == code and code in {diagnostic.code for diagnostic in found}
    assert {diagnostic.code for diagnostic in found} - {code} == FOLLOWERS.get(code, set())
    assert report == page.report


@pytest.mark.parametrize("code", CODES)
def test_the_right_program_has_nothing_to_report(code: str) -> None:
    page = Page.of(code)
    assert "\n\n".join(diagnostic.render() for diagnostic in page.said(page.right)) == ""


def test_every_code_has_a_page_or_is_known_to_lack_one() -> None:
    """A new code comes with its page; the list of those that have none only gets shorter."""
    without = set(UNWRITTEN.read_text(encoding="utf-8").split())
    assert set(CODES) <= known_codes(), "pages of codes that nobody reports"
    assert sorted(known_codes() - set(CODES) - without) == [], "write docs/diagnostics/CODE.md for these"
    assert sorted(without & set(CODES) | without - known_codes()) == [], f"take these out of {UNWRITTEN.name}"


@pytest.mark.parametrize("code", CODES[:1])
def test_explain_prints_the_page(code: str) -> None:
    result = CliRunner().invoke(app, ["explain", code])
    page = Page.of(code)
    assert result.exit_code == 0
    for part in (page.title, page.report, page.why, page.right):
        assert part.splitlines()[0] in result.stdout
