"""Imports inside croq point one way. Every import statement counts, those inside functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from croq.passes.pipeline import passes

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "croq"

# A part may import those with a smaller number, and itself; those with the same number stand side by side.
LEVELS = {
    "_version": 0,
    "folder": 0,
    "functions": 0,
    "numbers": 0,
    "operators": 0,
    "resources": 0,
    "services": 0,
    "source": 0,
    "cuda_names": 1,
    "target": 1,  # facts: whoever needs one asks here
    "diagnostics": 1,
    "syntax": 2,
    "ptx": 2,  # executes text that it is given; knows no language, IR or emitter
    "sema": 3,
    "ir": 4,
    "passes": 5,
    "emit": 7,
    "plan": 7,
    "simulate": 7,
    "verify": 7,
    "driver": 8,
    "timelines": 8,
    "api": 9,  # croq/__init__.py and every other module that stands directly in croq/: they tie the stages together
    "bench": 10,
    "cli": 11,
    "__main__": 12,
}


def _part(module: str) -> str:
    """`croq.passes.events` -> `passes`; `croq` -> `api`."""
    name = [*module.split("."), ""][1]
    return name if name in LEVELS else "api"


def _imports(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """(line, imported croq module) of every import in a file, relative ones resolved."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            if base == "croq":  # `from croq import diagnostics`: each name is a module or belongs to the API
                for alias in node.names:
                    yield node.lineno, f"croq.{alias.name}"
            else:
                yield node.lineno, base


def _module(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def violations(package: Path) -> list[str]:
    """Each import under `package` that points the wrong way, as `file:line: importer -> imported`."""
    found = []
    for path in sorted(package.rglob("*.py")):
        module = _module(path, package.parent)
        here = _part(module)
        for line, imported in _imports(path, module):
            if imported.split(".")[0] != "croq":
                continue
            there = _part(imported)
            if there != here and LEVELS[there] >= LEVELS[here]:
                found.append(f"{path.relative_to(package.parent)}:{line}: {here} -> {there}")
    return found


# Who speaks of one architecture: what its matrix instructions read (descriptors) and how they are written. Everybody
# else asks a `Target`.
OF_ONE_ARCHITECTURE = {
    "croq.ir.machine",  # fields of descriptors
    "croq.ir.operands",
    "croq.passes.mma",  # an MMA becomes WGMMAs
    "croq.passes.operands",
    "croq.emit.emitter",  # wrappers of WGMMA, and words of its descriptors
    "croq.emit.file",
    "croq.emit.kernel",
    "croq.emit.ops.tensor_cores",
    "croq.driver.sass_stats",  # opcodes of its machine code, by pipe
}


def importers_of_architectures(package: Path) -> set[str]:
    """Modules outside `croq.target` that import from one of its folders."""
    folders = {f"croq.target.{init.parent.name}" for init in (package / "target").glob("*/__init__.py")}
    found = set()
    for path in sorted(package.rglob("*.py")):
        module = _module(path, package.parent)
        imported = {".".join(name.split(".")[:3]) for _, name in _imports(path, module)}
        if _part(module) != "target" and imported & folders:
            found.add(module)
    return found


def test_only_what_speaks_of_its_instructions_imports_an_architecture():
    assert importers_of_architectures(PACKAGE) == OF_ONE_ARCHITECTURE


def test_every_folder_has_a_level():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(LEVELS), f"give these a place in LEVELS: {sorted(folders - set(LEVELS))}"


def test_imports_point_one_way():
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    "statement",
    ["import croq.emit.cuda", "from croq.emit import cuda", "from croq import emit", "from ..emit import cuda"],
)
@pytest.mark.parametrize("indent", ["", "def f():\n    "])
def test_a_wrong_import_is_found_however_it_is_written(tmp_path, statement, indent):
    package = tmp_path / "croq"
    (package / "passes").mkdir(parents=True)
    (package / "passes" / "events.py").write_text(f"{indent}{statement}\n")
    line = 2 if indent else 1
    assert violations(package) == [f"croq/passes/events.py:{line}: passes -> emit"]


def test_what_stands_directly_in_passes_is_a_pass_of_that_name():
    standing = {path.stem for path in (PACKAGE / "passes").iterdir() if path.suffix == ".py" or path.is_dir()}
    standing -= {"__init__", "__pycache__", "analysis", "base", "pipeline"}
    assert standing == {made.name.replace("-", "_") for made in passes()}
    assert {type(made).__module__ for made in passes()} == {f"croq.passes.{name}" for name in standing}
