"""Files that the commands write appear whole or not at all."""

from __future__ import annotations

import pytest

from croq.cli.output import write
from croq.diagnostics import EnvironmentFault


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "deep" / "k.cu"
    write(path, "old")
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["k.cu"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_place_that_cannot_be_written_is_a_fault_of_the_environment(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault) as caught:
        write(tmp_path / "file" / "k.cu", "text")
    assert caught.value.diagnostics[0].code == "E-3120"


def test_a_folder_in_the_way_leaves_no_draft(tmp_path):
    (tmp_path / "k.cu").mkdir()
    with pytest.raises(EnvironmentFault):
        write(tmp_path / "k.cu", "text")
    assert [p.name for p in tmp_path.iterdir()] == ["k.cu"]
