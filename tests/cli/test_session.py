"""Exit statuses, streams, and every way in which a command may end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from croq.cli.console import Console, paint
from croq.cli.options import UsageFault
from croq.cli.session import Session, finish, parse_define
from croq.diagnostics import CompileError, EnvironmentFault, InternalError, LaunchError, WrongResult, make
from croq.source import SourceFile, Span
from tests.command_line import croq

ROOT = Path(__file__).resolve().parents[2]


def process(*arguments, **options):
    command = [sys.executable, "-m", "croq", *arguments]
    return subprocess.run(command, capture_output=True, cwd=ROOT, timeout=60, **options)


def status_of(action, console=None):
    with pytest.raises(SystemExit) as caught:
        finish(Session(console or Console(), {}, "sm_90a"), action)
    return caught.value.code


def raising(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    ("kind", "status"),
    [(CompileError, 1), (LaunchError, 1), (EnvironmentFault, 3), (WrongResult, 4), (InternalError, 70)],
)
def test_each_kind_of_error_has_its_status(kind, status, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CROQ_REPORT_DIR", str(tmp_path))
    assert status_of(raising(kind([make("E-1", None, "wrong")]))) == status
    captured = capsys.readouterr()
    assert "error[E-1]: wrong" in captured.err and captured.out == ""


def test_none_and_zero_are_success():
    assert status_of(lambda: None) == 0
    assert status_of(lambda: 4) == 4


def test_an_unexpected_exception_is_croqs_bug_and_leaves_a_report(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CROQ_REPORT_DIR", str(tmp_path / "reports"))
    session = Session(Console(), {}, "sm_90a", SourceFile("k.co", "the kernel's text"))
    with pytest.raises(SystemExit) as caught:
        finish(session, raising(ZeroDivisionError("oops")))
    assert caught.value.code == 70
    text = capsys.readouterr().err
    assert "E-9001" in text and "croq's bug" in text and "Traceback" not in text
    (report,) = (tmp_path / "reports").iterdir()
    assert str(report) in text
    written = report.read_text()
    assert "Traceback" in written and "oops" in written and "the kernel's text" in written


def test_a_report_that_cannot_be_written_is_said(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CROQ_REPORT_DIR", str(tmp_path / "file" / "below"))
    assert status_of(raising(KeyError("x"))) == 70
    assert "no report could be written" in capsys.readouterr().err


def test_an_interrupt_is_clean(capsys):
    assert status_of(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_json_diagnostics_are_one_array_on_standard_error(capsys):
    span = Span(SourceFile("k.co", "first\nsecond\n"), 6, 12)
    errors = [make("E-1", span, "wrong", notes=["why"], hint="do"), make("E-2", None, "too")]
    assert status_of(raising(CompileError(errors)), Console(format="json")) == 1
    captured = capsys.readouterr()
    found = json.loads(captured.err)
    assert [d["code"] for d in found] == ["E-1", "E-2"]
    assert found[0]["span"]["line"] == 2 and found[0]["notes"] == ["why"] and found[0]["hint"] == "do"
    assert captured.out == ""


def test_quiet_leaves_warnings_out(capsys):
    Console(quiet=True).diagnostics([make("W-1", None, "hm", severity="warning"), make("E-1", None, "wrong")])
    assert capsys.readouterr().err == "error[E-1]: wrong\n\n"


def test_colour_only_adds_escapes():
    import re

    span = Span(SourceFile("k.co", "first\nsecond\n"), 6, 12)
    text = make("E-1", span, "wrong: so", labels=[(span, "here")], notes=["why"], hint="do").render()
    painted = paint(text, "error")
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == text
    assert painted.count("\x1b[1;31m") == 2  # the header and the caret


def test_tables_in_a_pipe_are_aligned_columns(capsys):
    Console().table(("name", "ms"), [("a", "1.5"), ("longer", "2")])
    assert capsys.readouterr().out == "name    ms\na       1.5\nlonger  2\n"


class TestDefines:
    def test_forms(self):
        texts = ["A=1", "B", "C=x=y", "D="]
        assert [parse_define(text) for text in texts] == [("A", "1"), ("B", "1"), ("C", "x=y"), ("D", "")]

    @pytest.mark.parametrize("text", ["", "=3", "3=2", "a b=1", "ä=1"])
    def test_a_bad_name_is_a_wrong_command_line(self, text):
        with pytest.raises(UsageFault):
            parse_define(text)


@pytest.mark.parametrize(
    "arguments",
    [
        ["frob"],
        ["compile"],
        ["compile", "v4", "--arch", "sm_80"],
        ["compile", "v4", "-D", "3=2"],
        ["compile", "v4", "--emit", "nothing"],
        ["compile", "v4", "--format", "xml"],
        ["run", "--seq", "0"],
        ["run", "--device", "tpu"],
        ["sim", "v4", "--tiles", "0"],
    ],
)
def test_a_wrong_command_line_is_status_2(arguments):
    result = croq(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_version_and_help():
    assert croq("--version").stdout.startswith("croq ")
    result = croq("--help")
    assert result.exit_code == 0
    for name in ("compile", "plan", "check", "sim", "run", "bench", "explain"):
        assert name in result.stdout


@pytest.mark.parametrize("command", ["compile", "plan", "check", "run"])
def test_a_missing_file_is_wrong_input(command):
    result = croq(command, "nowhere/none.co")
    assert result.exit_code == 1
    assert "E-2001" in result.stderr and result.stdout == ""


def test_an_unknown_bare_name_lists_the_shipped_kernels():
    result = croq("check", "v9")
    assert result.exit_code == 1
    assert "v1, v2, v3, v4, v5" in result.stderr


def test_a_reader_that_leaves_early_is_no_fault():
    command = f"{sys.executable} -m croq compile --help | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_output_to_a_closed_pipe_ends_quietly():
    code = "from croq.cli.session import *; from croq.cli.console import Console\n"
    code += "finish(Session(Console(), {}, 'sm_90a'), lambda: Console().result('x' * 10_000_000))"
    reader, writer = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, cwd=ROOT)
    os.close(writer)
    os.close(reader)
    _, errors = process.communicate(timeout=60)
    assert errors == b"" and process.returncode == 141


class TestExplain:
    def test_an_unknown_code_is_wrong_input(self):
        result = croq("explain", "frob")
        assert result.exit_code == 1 and "E-3130" in result.stderr

    def test_an_unknown_number_names_the_nearest(self):
        result = croq("explain", "E-3999")
        assert result.exit_code == 1 and "E-3130" in result.stderr and "the nearest are E-40" in result.stderr

    def test_a_slip_of_a_letter_names_the_nearest(self):
        assert "the nearest are E-310" in croq("explain", "R-310").stderr

    @pytest.mark.parametrize("code", ["E-310", "e310", "E310", " e-310", "310", "E-0310"])
    def test_a_page_is_found_however_its_code_is_written(self, code):
        result = croq("explain", code)
        page = (ROOT / "docs" / "diagnostics" / "E-310.md").read_text()
        assert result.exit_code == 0 and result.stdout.startswith(page)
        assert result.stdout.endswith(
            "E-310 is reported by a rule of the language. The rules are in docs/language.md.\n"
        )

    def test_a_number_of_an_error_and_a_warning_shows_both(self):
        result = croq("explain", "2001")
        assert "# E-2001: " in result.stdout and "# W-2001: " in result.stdout

    def test_a_page_as_data(self):
        found = json.loads(croq("explain", "E-310", "--format", "json").stdout)
        assert list(found) == ["code", "title", "stage", "rules", "text"]
        assert found["title"] == "an immutable name is given another value"

    def test_a_number_of_an_error_and_a_warning_gives_both_as_data(self):
        found = json.loads(croq("explain", "2001", "--format", "json").stdout)
        assert [page["code"] for page in found] == ["E-2001", "W-2001"]

    def test_without_a_name_it_lists_the_codes_by_stage(self):
        lines = croq("explain").stdout.splitlines()
        assert lines[0] == "a rule of the language:"
        assert "  E-310   an immutable name is given another value" in lines
        codes = {path.stem for path in (ROOT / "docs" / "diagnostics").glob("*.md")}
        assert {line.split()[0] for line in lines if line.startswith("  ")} == codes
        found = json.loads(croq("explain", "--format", "json").stdout)
        assert {item["code"] for item in found} == codes


def test_standard_input_that_is_no_text():
    done = process("check", "-", input=b"\xff\xfe")
    assert done.returncode == 1 and b"E-2003" in done.stderr


def test_a_package_that_is_gone_is_a_fault_of_the_environment(monkeypatch):
    import croq.cli.compiling as commands

    def gone(*_, **__):
        raise ModuleNotFoundError("No module named 'lark.lexer'", name="lark.lexer")

    monkeypatch.setattr(commands, "compile_and_show", gone)
    result = croq("compile", "v4")
    assert result.exit_code == 3
    assert "E-3005" in result.stderr and "`lark`" in result.stderr
