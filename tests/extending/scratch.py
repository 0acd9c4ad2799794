"""A copy of the checkout, changed by a diff that stands in docs/extending.md.

The page's diffs are unified diffs without line numbers: a hunk says what stands there, and that place must be the only
one. What no longer fits the source fails with the lines that are not there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "extending.md"
FOLDERS = ("croq", "docs", "generated", "grammar", "kernels", "runtime", "tests", "tools")  # and every file beside them


def diff_of(section: str) -> str:
    """The diffs of one section of the page, which its heading names."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{PAGE.name} has no section `{section}`"
    diffs = re.findall(r"^```diff\n(.*?)^```", found[1], re.MULTILINE | re.DOTALL)
    assert diffs, f"the section `{section}` shows no diff"
    return "".join(diffs)


def files_of(diff: str) -> dict[str, str]:
    """The part of a diff for each file."""
    parts = re.split(r"^(?=--- )", diff, flags=re.MULTILINE)
    return {_changes(part)[0].path: part for part in parts if part}


def gained(diff: str) -> int:
    """Lines that a diff adds, empty ones not counted."""
    return sum(line[:1] == "+" and len(line) > 1 for change in _changes(diff) for hunk in change.hunks for line in hunk)


@dataclass
class Change:
    path: str
    new: bool
    hunks: list[list[str]]


def _changes(diff: str) -> list[Change]:
    changes: list[Change] = []
    new = False
    for line in diff.splitlines():
        if line.startswith("--- "):
            new = line == "--- /dev/null"
        elif line.startswith("+++ b/"):
            changes.append(Change(line.removeprefix("+++ b/"), new, [[]]))
        elif line.startswith("@@"):
            changes[-1].hunks.append([])
        else:
            changes[-1].hunks[-1].append(line)
    for change in changes:
        change.hunks = [hunk for hunk in change.hunks if hunk]
    return changes


class Scratch:
    """The copy. `apply` changes it, `run` executes Python in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        unwanted = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in FOLDERS:
            shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
        for path in ROOT.iterdir():
            if path.is_file() and not path.name.startswith("."):
                shutil.copy(path, folder / path.name)

    def write(self, path: str, text: str) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def apply(self, diff: str) -> None:
        for change in _changes(diff):
            path = self.folder / change.path
            assert path.exists() != change.new, f"{change.path} {'exists already' if change.new else 'does not exist'}"
            text = "" if change.new else path.read_text(encoding="utf-8")
            for hunk in change.hunks:
                text = changed(text, hunk, change.path)
            self.write(change.path, text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`python ...` in the copy, with the copy's croq."""
        env = os.environ | {"PYTHONPATH": str(self.folder), "CROQ_CACHE_DIR": str(self.folder / "cache")}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=300)

    def succeeds(self, *arguments: str) -> str:
        """What the run prints; it must end well."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def passes(self, *tests: str) -> str:
        """The tests must pass; what pytest prints."""
        return self.succeeds("-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests)

    def fails(self, *tests: str) -> str:
        """The tests must fail; what pytest prints."""
        done = self.run("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests)
        assert done.returncode == 1, f"{' '.join(tests)} should fail\n{done.stdout}\n{done.stderr}"
        return done.stdout


def changed(text: str, hunk: list[str], path: str) -> str:
    old = "".join(f"{line[1:]}\n" for line in hunk if line[:1] != "+")
    new = "".join(f"{line[1:]}\n" for line in hunk if line[:1] != "-")
    places = list(re.finditer(rf"^{re.escape(old)}", text, re.MULTILINE)) if old or not text else []
    assert len(places) == 1, f"a hunk of {PAGE.name} fits {len(places)} places of {path}:\n{old}"
    return text[: places[0].start()] + new + text[places[0].end() :]
