"""The golden fixture itself, and that no golden is left behind by a test that is gone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def comparing(golden, tmp_path):
    """The fixture as it is without `--update-golden`, whatever this run was started with."""
    return type(golden)(Path(__file__), "test", update=False, root=tmp_path)


def test_a_missing_golden_fails_and_names_the_command(comparing, tmp_path):
    with pytest.raises(pytest.fail.Exception, match=r"(?s)no golden .*--update-golden .*test_goldens.py"):
        comparing("text", str(tmp_path / "none.txt"))


def test_a_difference_is_shown_as_a_diff(comparing, tmp_path):
    recorded = tmp_path / "text.txt"
    recorded.write_bytes(b"one\ntwo\n")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)-two\n\+three"):
        comparing("one\nthree\n", str(recorded))
    assert recorded.read_bytes() == b"one\ntwo\n"


def test_line_ends_count(comparing, tmp_path):
    recorded = tmp_path / "text.txt"
    recorded.write_bytes(b"one\r\n")
    with pytest.raises(pytest.fail.Exception):
        comparing("one\n", str(recorded))


def test_the_flag_writes_and_then_the_text_compares_equal(golden, tmp_path):
    update = type(golden)(Path(__file__), "test_x[a/b-3]", update=True, root=tmp_path)
    update("text", "sub/kernel.cu")
    assert (tmp_path / "sub/kernel.cu").read_bytes() == b"text"
    compare = type(golden)(Path(__file__), "test_x", update=False, root=tmp_path)
    compare(b"text", "sub/kernel.cu")
    assert update.path() == Path(__file__).parent / "goldens" / "test_goldens" / "test_x-a-b-3.txt"


def test_every_golden_has_its_test():
    orphans = []
    for folder in (ROOT / "tests").rglob("goldens/*/"):
        module = folder.parent.parent / f"{folder.name}.py"
        tests = _test_names(module) if module.exists() else set()
        for path in folder.iterdir():
            name = path.name.split(".")[0]
            if not any(name == test or name.startswith(f"{test}-") for test in tests):
                orphans.append(str(path.relative_to(ROOT)))
    assert not orphans, f"no test compares with these; delete them: {orphans}"


def test_every_generated_file_has_its_kernel():
    kernels = {path.stem for path in (ROOT / "kernels").glob("*.co")}
    orphans = [path.name for path in (ROOT / "generated").iterdir() if path.name.split(".")[0] not in kernels]
    assert not orphans, f"no kernel makes these; delete them: {orphans}"


def _test_names(module: Path) -> set[str]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
