"""Command lines are read as declared, and refused with the word that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import pytest

from croq.cli.options import Argument, CommandLine, Option, parameters, usage
from tests.command_line import croq


def sample(
    session: object,
    file: Annotated[str, Argument(help="What is read.")],
    more: Annotated[str | None, Argument()] = None,
    size: Annotated[int, Option(help="How many.", least=1)] = 4,
    share: Annotated[float | None, Option("--share")] = None,
    kind: Annotated[Literal["one", "two"], Option()] = "one",
    shape: Annotated[list[str] | None, Option("-s --shape", metavar="NAME=N")] = None,
    out: Annotated[Path, Option("-o --out")] = Path("results"),
    check: Annotated[bool, Option("--check --no-check")] = True,
    quiet: Annotated[bool, Option("-q")] = False,
    loud: Annotated[int, Option("-l", counts=True)] = 0,
) -> None:
    """Do something."""


def line(*words: str) -> CommandLine:
    found = CommandLine("croq sample", parameters(sample))
    found.read(words)
    return found


DEFAULTS = {
    "file": "f", "more": None, "size": 4, "share": None, "kind": "one", "shape": None, "out": Path("results"),
    "check": True, "quiet": False, "loud": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("f",), {}),
        (("f", "g"), {"more": "g"}),
        (("-",), {"file": "-"}),
        (("--size", "7", "f"), {"size": 7}),
        (("--size", "7", "f", "--share=0.5", "g"), {"size": 7, "share": 0.5, "more": "g"}),
        (("f", "--kind=two"), {"kind": "two"}),
        (("f", "-sN=1", "-s", "M=2", "--shape", "K=3", "--shape=L=4"), {"shape": ["N=1", "M=2", "K=3", "L=4"]}),
        (("f", "-o", "x/y"), {"out": Path("x/y")}),
        (("f", "--no-check"), {"check": False}),
        (("f", "--no-check", "--check"), {"check": True}),
        (("f", "-qll", "-l"), {"quiet": True, "loud": 3}),
        (("f", "-qox"), {"quiet": True, "out": Path("x")}),
        (("--", "f", "--size"), {"more": "--size"}),
    ],
)
def test_words_become_values(words, values):
    found = line(*words)
    assert found.fault is None
    assert found.values == DEFAULTS | values


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "`croq sample` needs FILE"),
        (("f", "g", "h"), "takes no argument `h` here"),
        (("f", "--siez", "7"), "has no option `--siez`"),
        (("f", "-x"), "has no option `-x`"),
        (("f", "-qx"), "has no option `-x`"),
        (("f", "--size"), "`--size`: needs a value, N"),
        (("f", "--size", "--share", "1"), "`--size`: needs a value, N"),
        (("f", "--size", "few"), "`--size`: `few` is no whole number"),
        (("f", "--size", "0"), "`--size`: `0` is less than 1"),
        (("f", "--size=-1"), "`--size`: `-1` is less than 1"),
        (("f", "--share", "half"), "`--share`: `half` is no number"),
        (("f", "--kind", "three"), "`--kind`: `three` is none of one, two"),
        (("f", "--no-check=1"), "`--no-check`: takes no value"),
    ],
)
def test_what_cannot_be_read_is_named(words, said):
    found = line(*words).fault
    assert found is not None
    (fault,) = found.diagnostics
    assert fault.code == "E-3101" and said in fault.message


def test_a_slip_of_a_letter_names_the_option():
    found = line("f", "--siez", "7").fault
    assert found is not None
    (fault,) = found.diagnostics
    assert fault.hint == "did you mean `--size`?"


def test_options_behind_a_fault_are_still_read():
    found = line("f", "--size", "few", "extra", "--none", "-q", "--kind", "two")
    assert "few" in str(found.fault)
    assert found.values["quiet"] and found.values["kind"] == "two"


def test_help_names_all_that_a_command_takes():
    text = "\n".join(usage("croq sample", sample, parameters(sample)))
    assert text.startswith("usage: croq sample FILE [MORE] [options]\n\nDo something.\n")
    for part in ("-s, --shape NAME=N", "--kind one|two", "How many. (default: 4)", "--check, --no-check"):
        assert part in text
    assert "session" not in text


@pytest.mark.parametrize(
    "words", [("frob",), ("compile",), ("compile", "v4", "--frob", "1"), ("plan", "v4", "--arch", "sm_80")]
)
def test_a_wrong_command_line_is_json_where_json_is_asked_for(words):
    result = croq(*words, "--format", "json")
    assert result.exit_code == 2 and result.stdout == ""
    (found,) = json.loads(result.stderr)
    assert found["code"] in ("E-3101", "E-3100") and found["severity"] == "error"


def test_every_command_has_help():
    for words in (("explain", "-h"), ("sim", "--help"), ("compile", "v4", "-h")):
        result = croq(*words)
        assert result.exit_code == 0 and result.stdout.startswith(f"usage: croq {words[0]}") and result.stderr == ""
    assert croq().exit_code == 2
