"""The cache folder: whose it must be, and what happens when it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from croq import folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path / "deep" / "cache"))
    return tmp_path / "deep" / "cache"


def test_the_variable_chooses_the_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folder.chosen() == place
    monkeypatch.delenv("CROQ_CACHE_DIR")
    assert folder.chosen().name == "croq"


def test_a_new_folder_is_for_its_user_alone(place: Path) -> None:
    assert folder.usable() == place
    assert place.stat().st_mode & 0o777 == 0o700
    assert folder.refusal() is None


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702])
def test_a_folder_that_others_can_write_is_passed_over(place: Path, mode: int) -> None:
    place.mkdir(parents=True)
    place.chmod(mode)
    assert folder.usable() is None
    assert "can be written by others" in str(folder.refusal())


def test_a_folder_of_somebody_else_is_passed_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folder.usable() == place
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert folder.usable() is None
    assert "belongs to another user" in str(folder.refusal())


def test_a_link_counts_as_what_it_leads_to(place: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    place.parent.mkdir()
    place.symlink_to(shared)
    assert folder.usable() is None


def test_a_folder_that_cannot_be_made_is_passed_over(place: Path) -> None:
    place.parent.write_text("a file")
    assert folder.usable() is None
    assert "cannot be used" in str(folder.refusal())


def test_entries_are_written_whole(place: Path) -> None:
    store = folder.Store(".kind", 1000)
    assert store.get("entry") is None
    assert store.put("entry", b"old")
    assert store.put("entry", b"new")
    assert store.get("entry") == b"new"
    assert [path.name for path in place.iterdir()] == ["entry.kind"]


def test_nothing_is_remembered_without_a_folder(place: Path) -> None:
    place.mkdir(parents=True)
    (place / "entry.kind").write_bytes(b"foreign")
    place.chmod(0o777)
    store = folder.Store(".kind", 1000)
    assert (store.get("entry"), store.put("entry", b"new")) == (None, False)
    assert (place / "entry.kind").read_bytes() == b"foreign"


@pytest.mark.parametrize("damage", [b"", b"foreign", b"foreign" * 9])
def test_a_damaged_entry_is_none(place: Path, damage: bytes) -> None:
    store = folder.Store(".kind", 1000)
    store.put("entry", b"body")
    (place / "entry.kind").write_bytes(damage)
    assert store.get("entry") is None


def test_an_entry_that_cannot_be_replaced_leaves_nothing_behind(place: Path) -> None:
    (place / "entry.kind").mkdir(parents=True)
    assert not folder.Store(".kind", 1000).put("entry", b"new")
    assert [path.name for path in place.iterdir()] == ["entry.kind"]
