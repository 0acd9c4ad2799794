"""The pages of docs/ and the README say what is so."""

from __future__ import annotations

import re

import pytest

import croq
from croq.compiler import pass_names
from croq.plan import render
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()


def fenced(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def first_column(page):
    lines = (ROOT / "docs" / page).read_text().splitlines()
    return [line.split("`")[1] for line in lines if line.startswith("| `")]


def missing(excerpt, whole):
    """Lines of an excerpt that the whole does not have; indentation does not count, `...` is an omission."""
    lines = {line.strip() for line in whole.splitlines()}
    return [line for line in map(str.strip, excerpt.splitlines()) if line not in lines | {"", "..."}]


def test_the_readme_quotes_the_kernel():
    (excerpt,) = fenced(README, "c")
    assert missing(excerpt, (ROOT / "kernels/v4.co").read_text()) == []


def test_the_readme_quotes_the_emitted_cuda():
    (excerpt,) = fenced(README, "cpp")
    assert missing(excerpt, croq.compile("v4").cuda) == []


def test_the_readme_quotes_the_plan():
    excerpt = README.split("and `croq plan v4` why:")[1].split("The whole of both")[0]
    assert missing(excerpt, render(croq.compile("v4").plan)) == []


def test_the_readme_quotes_the_error():
    excerpt = README.split("its reason and its remedy:")[1].split("## From the command line")[0]
    (found,) = croq.check(ROOT / "kernels/v4.co") or croq.check(
        (ROOT / "kernels/v4.co").read_text().replace("#define K_STAGES 2", "#define K_STAGES 9")
    )
    assert missing(excerpt.replace("kernels/v4.co", "<source>"), found.render()) == []


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target


def test_the_page_of_passes_lists_the_pipeline():
    assert first_column("passes.md") == list(pass_names())


def test_the_page_of_the_plan_lists_its_keys():
    assert first_column("plan.md") == list(croq.compile(ROOT / "tests/cases/saxpy.co").plan[0])


def test_the_example_of_the_language_page_compiles():
    text = fenced((ROOT / "docs/language.md").read_text(), "c")[0]
    assert croq.check(text) == []
    assert croq.compile(text).name == "scale"
