"""The units share nothing with the parts that they judge."""

from __future__ import annotations

import ast
from pathlib import Path

import croq.ptx.units

FOLDER = Path(croq.ptx.units.__file__).parent


def test_units_import_units_only() -> None:
    files = sorted(FOLDER.glob("*.py"))
    assert len(files) > 5
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                assert not module.startswith("croq") or module.startswith("croq.ptx.units"), (file.name, module)
                assert getattr(node, "level", 0) == 0, file.name
