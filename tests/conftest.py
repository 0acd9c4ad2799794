"""What all tests share: golden files, and the reason why GPU tests do not run where they do not."""

from __future__ import annotations

import difflib
import importlib
import os
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_DIFF_LINES = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing with them"
    )


class Golden:
    """`golden(text)` compares, byte for byte, with a recorded file; `golden(text, "generated/v4.cu")` with that one.

    The default path comes from the test's name: `tests/passes/test_events.py::test_ring[3]` has
    `tests/passes/goldens/test_events/test_ring-3.txt`.
    """

    def __init__(self, test: Path, name: str, update: bool, root: Path = ROOT) -> None:
        self._test, self._name, self._update, self._root = test, name, update, root

    def path(self, relative: str | None = None, suffix: str = ".txt") -> Path:
        if relative is not None:
            return self._root / relative
        name = re.sub(r"[^\w.]+", "-", self._name).strip("-")
        return self._test.parent / "goldens" / self._test.stem / f"{name}{suffix}"

    def __call__(self, actual: str | bytes, relative: str | None = None, *, suffix: str = ".txt") -> None:
        __tracebackhide__ = True
        path = self.path(relative, suffix)
        new = actual.encode() if isinstance(actual, str) else actual
        if self._update:
            _write(path, new)
            return
        command = f'python -m pytest --update-golden "{self._shown(self._test)}" -k "{self._name.split("[")[0]}"'
        if not path.exists():
            pytest.fail(
                f"there is no golden {self._shown(path)}; if the output is right, write it:\n  {command}", False
            )
        old = path.read_bytes()
        if old != new:
            diff = _diff(old, new, self._shown(path))
            pytest.fail(f"the output differs from {self._shown(path)}; if it is right:\n  {command}\n\n{diff}", False)

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._root)) if path.is_relative_to(self._root) else str(path)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.path, request.node.name, request.config.getoption("--update-golden"))


def _write(path: Path, content: bytes) -> None:
    """Replace the file at once; one that is already right keeps its time."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(path)


def _diff(old: bytes, new: bytes, name: str) -> str:
    before, after = (text.decode("utf-8", "backslashreplace").splitlines(keepends=True) for text in (old, new))
    lines = list(difflib.unified_diff(before, after, f"{name} (recorded)", f"{name} (now)"))
    if not lines:
        return "(the bytes differ in line ends only)"
    shown = "".join(line if line.endswith("\n") else f"{line}\n\\ no line end\n" for line in lines[:MAX_DIFF_LINES])
    more = len(lines) - MAX_DIFF_LINES
    return shown + (f"... and {more} more lines\n" if more > 0 else "")


@cache
def why_no_gpu() -> str | None:
    """The reason why GPU tests cannot run here; `None` when a Hopper GPU is found."""
    try:
        device = importlib.import_module("croq.driver.device")
    except ImportError as error:
        return f"no GPU driver layer: {error}"
    try:
        found, reason = device.probe_gpu()
    except Exception as error:  # whatever is wrong with the machine is the reason to skip, never a failed test
        return f"no Hopper GPU: {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}"
    return None if found is not None else f"no Hopper GPU: {reason}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    reason = why_no_gpu()
    if reason is not None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))
