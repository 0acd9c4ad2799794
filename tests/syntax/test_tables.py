"""The grammar has no conflict; its tables survive the cache, and a cache that cannot be used does no harm."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from croq.resources import resource
from croq.syntax import tables
from croq.syntax.actions import Actions

GRAMMAR = resource("grammar", "croq.lark").read_text(encoding="utf-8")
MADE = tables.build_tables(GRAMMAR)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no tables in memory; making them costs nothing."""
    monkeypatch.setattr(tables, "build_tables", lambda grammar: MADE)
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path / "cache"))
    tables.load_tables.cache_clear()
    return tmp_path / "cache"


def test_the_grammar_has_no_conflict(caplog: pytest.LogCaptureFixture) -> None:
    import lark

    lark.logger.setLevel(logging.DEBUG)
    lark.logger.propagate = True
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        lark.Lark(GRAMMAR, parser="lalr", lexer="basic", keep_all_tokens=True, maybe_placeholders=False, debug=True)
    lark.logger.setLevel(logging.CRITICAL)
    assert [record.message for record in caplog.records if "onflict" in record.message] == []


def test_every_production_has_its_action() -> None:
    missing = [action for _, action, _ in tables.load_tables().rules if action not in (None, "*")]
    assert [name for name in missing if not callable(getattr(Actions, str(name), None))] == []


def test_tables_do_not_depend_on_the_run() -> None:
    program = "import sys; from croq.syntax import tables; print(tables.build_tables(sys.stdin.read()))"
    environment = {**os.environ, "PYTHONPATH": str(Path(tables.__file__).parents[2]), "PYTHONHASHSEED": "1"}
    result = subprocess.run(
        [sys.executable, "-c", program], input=GRAMMAR, capture_output=True, text=True, env=environment
    )
    assert result.stdout.strip() == str(MADE)


def test_tables_are_read_back_as_they_were_made(fresh: Path) -> None:
    assert tables.load_tables() == MADE
    (entry,) = fresh.iterdir()
    tables.load_tables.cache_clear()
    assert tables.load_tables() == MADE
    assert list(fresh.iterdir()) == [entry]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"patterns": 3}', b"\xff\xff"])
def test_a_damaged_entry_is_made_again(fresh: Path, damage: bytes) -> None:
    tables.load_tables()
    (entry,) = fresh.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage)
    tables.load_tables.cache_clear()
    assert tables.load_tables() == MADE
    assert entry.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_passed_over(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.write_text("")
    monkeypatch.setenv("CROQ_CACHE_DIR", str(fresh / "below"))
    assert tables.load_tables() == MADE
    assert fresh.read_text() == ""


def test_lark_is_not_imported_where_the_cache_has_the_tables(fresh: Path) -> None:
    tables.load_tables()
    program = (
        "import sys; from croq.diagnostics import Sink; from croq.syntax import parse_program, source_text;"
        "parse_program(source_text('t', '__co__ void f() { a = 1; }'), {}, Sink()); print('lark' in sys.modules)"
    )
    environment = {**os.environ, "CROQ_CACHE_DIR": str(fresh), "PYTHONPATH": str(Path(tables.__file__).parents[2])}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (result.stdout.strip(), result.stderr) == ("False", "")
