"""`croq sim --timeline`: files, what is said about them, and what is refused."""

import json

import pytest

from tests.command_line import croq

SAXPY = ("tests/cases/saxpy.co", "--shape", "N=300", "--arg", "a=1.5")


@pytest.fixture(autouse=True)
def in_checkout(monkeypatch):
    from tests.conftest import ROOT

    monkeypatch.chdir(ROOT)


def sim(*arguments):
    return croq("sim", *arguments)


def test_a_trace_and_a_picture(tmp_path):
    files = tmp_path / "new" / "t.json", tmp_path / "t.svg"
    result = sim(*SAXPY, "--timeline", files[0], "--timeline", files[1], "--timeline-block", "1")
    assert result.exit_code == 0, result.output
    assert "modelled cycles, no measure of a GPU" in result.stdout and "block (1, 0, 0)" in result.stdout
    assert json.loads(files[0].read_text())["traceEvents"]
    assert files[1].read_text().startswith("<svg")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["new", "t.json", "t.svg"]


def test_json_output_has_the_numbers(tmp_path):
    result = sim(*SAXPY, "--timeline", tmp_path / "t.svg", "--format", "json")
    (shown,) = json.loads(result.stdout)["timelines"]
    assert shown["block"] == [0, 0, 0] and shown["total"] >= shown["cycles"] > 0
    assert shown["tensor_cores_busy"] is None  # the kernel has no MMA


def test_outputs_are_written_once(tmp_path):
    """y = a * x + y: the timeline must not have done it before."""
    plain, timed = tmp_path / "plain.npy", tmp_path / "timed.npy"
    assert sim(*SAXPY, "--save", f"y={plain}").exit_code == 0
    assert sim(*SAXPY, "--save", f"y={timed}", "--timeline", tmp_path / "t.svg").exit_code == 0
    assert plain.read_bytes() == timed.read_bytes()


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--timeline", "t.png"), 2, "a picture with .svg"),
        (("--timeline", "t.svg", "--timeline-block", "1,x"), 2, "write X,Y,Z"),
        (("--timeline", "t.svg", "--timeline-steps", "none"), 2, "`none` is no whole number"),
        (("--timeline", "t.svg", "--timeline-block", "99,0,0"), 2, "E-5006"),
        (("--timeline", "/proc/none/t.svg"), 3, "E-3120"),
    ],
)
def test_what_cannot_be_done_is_refused(options, status, said):
    result = sim(*SAXPY, *options)
    assert result.exit_code == status, result.output
    assert said in result.output
