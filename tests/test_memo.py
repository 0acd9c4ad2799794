"""Remembered compilations: what is recalled is what was made, and an entry that is not ours does no harm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import croq
from croq import folder, memo
from croq.compiler import compile_file
from croq.emit import emit_cuda
from croq.ir.notation import KEYWORDS
from croq.ir.printer import print_module
from croq.plan import plan
from croq.settings import Settings
from croq.source import SourceFile, Span
from croq.stages import Stages
from croq.texts import load, shipped_kernels

ROOT = Path(__file__).parent.parent
PROGRAMS = [*shipped_kernels(), *sorted(str(path) for path in ROOT.glob("tests/programs/*.co"))]
MACROS = """
#define TWICE(x) (2 * (x))
__co__ void f(global f32 [N] x, s32 n) {
  assert(N > TWICE(n), "room for both");
  parallel tile by cdiv(N, 128) : block
    parallel t by 128 : thread
      if (tile * 128 + t < N) x.at(tile * 128 + t) = TWICE(1.0f);
}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compiled(source: str, **settings: Any) -> Stages:
    return compile_file(load(source), Settings.of(**settings))


def recalled(made: Stages) -> Stages:
    """The same text compiled once more, which must not lower anything."""
    again = compile_file(SourceFile(made.file.name, made.file.text), made.settings)
    assert list(again.seconds) == ["recall"]
    return again


def places(span: Span | None) -> object:
    return span and (span.file.name, span.file.text, span.start, span.end, places(span.expansion))


@pytest.mark.parametrize(
    "source", [*PROGRAMS, MACROS], ids=lambda text: Path(text).stem if len(text) < 200 else "macros"
)
def test_what_is_recalled_is_what_was_made(source: str) -> None:
    made = compiled(source)
    found = recalled(made)
    assert (found.cuda, found.plan, found.ir) == (made.cuda, made.plan, made.ir)
    assert (found.lowered.functions, found.lowered.entries) == (made.lowered.functions, made.lowered.entries)
    assert [d.render() for d in found.diagnostics] == [d.render() for d in made.diagnostics]
    assert found.file.text == found.module.file.text
    assert print_module(found.module) == made.ir
    assert plan(found.module.kernels) == made.plan
    if made.module.kernels:
        assert emit_cuda(found.module.kernels, lineinfo=True) == emit_cuda(made.module.kernels, lineinfo=True)
    for one, other in zip(found.module.kernels, made.module.kernels, strict=True):
        groups = [(getattr(one, group), getattr(other, group)) for group in KEYWORDS.values()]
        for mine, theirs in [*groups, (list(one.walk()), list(other.walk()))]:
            assert [places(item.span) for item in mine] == [places(item.span) for item in theirs]


def test_an_entry_is_text() -> None:
    made = compiled("v1")
    body = folder.Store(memo.SUFFIX, memo.SIZE_LIMIT).get(memo.key_of(made.file, made.settings))
    assert json.loads(body or b"")["cuda"] == made.cuda


def test_a_recalled_compilation_imports_neither_parser_nor_ir() -> None:
    text = (
        "import croq, sys; k = croq.compile('v1'); k.cuda, k.plan, k.name, k.warnings;"
        "print([m for m in ('lark', 'jinja2', 'numpy', 'croq.ir.core', 'croq.sema') if m in sys.modules])"
    )
    run = [subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT) for _ in range(2)]
    assert "lark" in run[0].stdout
    assert (run[1].stdout.strip(), run[1].stderr) == ("[]", "")


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"3", b"\xff", b'{"files": 3}', b'{"files": [], "diagnostics": [[1]]}', b"[" * 100_000],
    ids=lambda body: body[:12].decode(errors="replace"),
)
def test_an_entry_that_cannot_be_read_is_made_again(body: bytes) -> None:
    made = compiled("v1")
    key = memo.key_of(made.file, made.settings)
    folder.Store(memo.SUFFIX, memo.SIZE_LIMIT).put(key, body)
    again = compiled("v1")
    assert "passes" in again.seconds and again.cuda == made.cuda
    recalled(made)


@pytest.mark.parametrize("damage", [{"ir": "kernel"}, {"ir": "", "spans": []}, {"spans": []}, {"spans": [[7, 0, 0]]}])
def test_ir_that_cannot_be_read_is_lowered_again(damage: dict[str, object]) -> None:
    made = compiled("v1")
    store, key = folder.Store(memo.SUFFIX, memo.SIZE_LIMIT), memo.key_of(made.file, made.settings)
    entry = json.loads(store.get(key) or b"")
    store.put(key, json.dumps(entry | damage).encode())
    found = recalled(made)
    if damage.get("ir") != "":
        assert print_module(found.module) == made.ir


def test_faults_of_arguments_point_into_the_source_after_a_recall() -> None:
    for _ in range(2):
        kernel = croq.compile(MACROS)
        with pytest.raises(croq.LaunchError) as caught:
            croq.simulate(kernel, np.zeros(256, np.float32), 128)
        assert "assert(N > TWICE(n)" in caught.value.diagnostics[0].render()


@pytest.mark.parametrize(
    "heavy", ["numpy", "jinja2", "lark", "croq.ir", "croq.passes", "croq.emit", "croq.syntax.parse"]
)
def test_a_recalled_compilation_imports_nothing_that_it_does_not_need(
    heavy: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "recalled"))
    code = (
        "import sys, croq; from croq.plan import render; "
        "k = croq.compile('v4'); k.cubin; render(k.plan); print(*sys.modules)"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert heavy not in done.stdout.split()
