"""The grammar has no conflict and an action for everything; its tables come from a folder of one's own, or none."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lark
import pytest

from croq.diagnostics import Sink
from croq.resources import resource
from croq.syntax import grammar, parse_program, source_text
from croq.syntax.actions import Actions

GRAMMAR = resource("grammar", "croq.lark").read_text(encoding="utf-8")


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small grammar, with an empty cache folder and no parser in memory."""
    small = tmp_path / "small.lark"
    small.write_text('start: "a"+')
    monkeypatch.setattr(grammar, "resource", lambda *parts: small)
    folder = tmp_path / "cache"
    monkeypatch.setenv("CROQ_CACHE_DIR", str(folder))
    _forget()
    yield folder
    _forget()


def _forget() -> None:
    grammar.grammar.cache_clear()
    grammar._fixed.cache_clear()


def _tree() -> str:
    _forget()
    return grammar.grammar().parse("aa").pretty()


def test_the_grammar_has_no_conflict(caplog: pytest.LogCaptureFixture) -> None:
    lark.logger.setLevel(logging.DEBUG)
    lark.logger.propagate = True
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        grammar.build(GRAMMAR, debug=True)
    lark.logger.setLevel(logging.CRITICAL)
    assert [record.message for record in caplog.records if "onflict" in record.message] == []


def test_every_production_has_its_action() -> None:
    rules = [rule for rule in grammar.grammar().rules if not rule.origin.name.startswith("_")]
    named = {name for rule in rules if (name := rule.alias or ("" if rule.options.expand1 else rule.origin.name))}
    assert len(named) > 50
    assert [name for name in named if not callable(getattr(Actions, name, None))] == []


def test_words_stay_reserved_where_they_cannot_stand() -> None:
    sink = Sink()
    parse_program(source_text("t.co", "__co__ void f() { f32 copy = 1; }"), {}, sink)
    assert "`copy` is a word of the language" in sink.diagnostics[0].message


def test_tables_are_read_back_from_the_cache(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _tree()
    (entry,) = fresh.iterdir()
    assert entry.suffix == ".lark"
    monkeypatch.setattr("lark.lark.load_grammar", None)
    assert _tree() == made


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xff\n\x80", b"0\n" + pickle.dumps({})])
def test_a_damaged_entry_is_made_again(fresh: Path, damage: bytes) -> None:
    made = _tree()
    (entry,) = fresh.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage)
    assert _tree() == made
    assert entry.read_bytes()[:64] == whole[:64]


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_nothing_is_unpickled_from_a_folder_that_others_can_write(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    made = _tree()
    (entry,) = fresh.iterdir()
    entry.write_bytes(entry.read_bytes()[:65] + pickle.dumps(_Bomb()))
    monkeypatch.chdir(fresh.parent)
    fresh.chmod(mode)
    assert _tree() == made
    assert not Path("exploded").exists()
    fresh.chmod(0o700)  # and the trap is a trap: lark's own loading springs it
    assert _tree() == made
    assert Path("exploded").exists()


def test_a_folder_that_cannot_be_made_is_passed_over(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.write_text("")
    monkeypatch.setenv("CROQ_CACHE_DIR", str(fresh / "below"))
    assert _tree().startswith("start")
    assert fresh.read_text() == ""
