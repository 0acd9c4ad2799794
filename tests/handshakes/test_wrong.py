"""Wrong programs are refused, with a remedy by which they become right."""

from __future__ import annotations

from pathlib import Path

import pytest

import croq
from croq.diagnostics import Diagnostic
from croq.ir.printer import print_kernel
from croq.verify import verify_protocol
from croq.verify.remedies import remedy
from tests.handshakes.wrong import WRONG
from tests.verify.helpers import read

FOLDER = Path(__file__).resolve().parent / "reported"


def refused(text: str) -> Diagnostic:
    """The one error."""
    (found,) = (d for d in croq.check(text) if d.severity == "error")
    return found


@pytest.mark.parametrize("name", WRONG)
def test_help_is_what_makes_it_right(name: str) -> None:
    text, help = WRONG[name]
    found = refused(text)
    assert found.code.startswith("E-60"), found.render()
    assert found.hint is not None
    assert help in found.hint, found.render()
    assert found.hint.endswith("Then the protocol is proved")


def test_an_event_that_should_start_ready() -> None:
    """Reported: the remedy spoke of handshakes."""
    found = refused((FOLDER / "no_ready.co").read_text(encoding="utf-8"))
    assert found.code == "E-6008"
    assert "declare `empty` with `= ready`" in (found.hint or "")


def test_an_event_that_nobody_waits_for() -> None:
    """Reported: said that `full` is triggered again, and not why."""
    text = (FOLDER / "no_wait_empty.co").read_text(encoding="utf-8")
    assert [d.code for d in croq.check(text)] == ["W-1003", "E-6005"]
    found = refused(text)
    assert found.hint == (
        "nobody waits for `empty`, so nothing keeps line 9 from running ahead: add `wait empty.at(k);` before line 9. "
        "Then the protocol is proved"
    )


def test_without_a_remedy_the_rule_speaks() -> None:
    """A trigger that runs ahead of those who wait needs an event more, which no small repair invents."""
    from tests.handshakes.frames import consumer, load, loop, multiply, program, tiles

    text = program(
        f"{tiles()} shared event full[2], empty[2] = ready, tick;",
        ("p == 0", loop("wait empty.at(k);", load("a"), load("b"), "trigger full.at(k) after al, bl;")),
        ("p == 1", consumer("wait full.at(k);", multiply(), "trigger empty.at(k);", "trigger tick;")),
        ("p == 2", loop("wait tick;")),
        groups=3,
    )
    found = refused(text)
    assert any("E-6006" in note and "`tick` may be triggered twice" in note for note in found.notes), found.render()


def test_a_trigger_is_missed_where_its_order_still_holds() -> None:
    """The count goes up in the middle of the loop: behind that the order would name the next generation."""
    before, _, after = read("kernels/v4.co").rpartition("trigger ke.at(k_pipe_order++);")
    text = before + "k_pipe_order = k_pipe_order + 1;" + after
    line = before.count("\n") + 1
    assert (refused(text).hint or "").startswith(f"add `trigger ke.at(k_pipe_order);` before line {line}.")


def test_the_search_leaves_the_program_as_it_was() -> None:
    text, _ = WRONG["primed once too few"]
    made = croq.compile(text, verify=False).compilation
    kernel = made.written(made.module.kernels[0].name)
    before = print_kernel(kernel)
    assert remedy(kernel) is not None
    assert print_kernel(kernel) == before
    assert verify_protocol(kernel, level="tile").outcome == "fault"
