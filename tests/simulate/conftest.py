"""What simulator tests share: lowering of program text, IR text with the usual frame, random inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from croq.diagnostics import Sink
from croq.ir.build import build
from croq.ir.objects import Kernel
from croq.ir.parser import parse_kernel
from croq.passes import pipeline
from croq.sema import analyse
from croq.simulate.dtypes import DTYPES
from croq.source import SourceFile
from croq.syntax import parse_program
from tests.cases.cases import CASES

ROOT = Path(__file__).resolve().parent.parent.parent


def _lower(source: str | Path, defines: Mapping[str, object] | None = None) -> Kernel:
    text = source.read_text() if isinstance(source, Path) else source
    sink = Sink()
    program = parse_program(
        SourceFile(getattr(source, "name", "test.co"), text), {k: str(v) for k, v in (defines or {}).items()}, sink
    )
    sink.check()
    model = analyse(program, sink)
    sink.check()
    module = build(model, sink)
    sink.check()
    pipeline.run(module, sink)
    return module.kernels[0]


@pytest.fixture(scope="session")
def lower() -> Callable[..., Kernel]:
    """Lowers program text, or a path, to hardware IR; the first kernel of it."""
    return _lower


@pytest.fixture(scope="session")
def ir() -> Callable[..., Kernel]:
    """A kernel of hardware IR: objects and operations as text, with the frame around them."""

    def make(objects: str, body: str, *, threads: int = 128, shared: int = 0, text: str = "()") -> Kernel:
        head = f'kernel k file="k.co", grid=(1, 1, 1), threads={threads}, device_text={text}, shared_bytes={shared}'
        return parse_kernel(f"{head} {{\n{objects}\n{body}\n}}\n")

    return make


@pytest.fixture(scope="session")
def cases() -> list[dict]:
    return CASES


@pytest.fixture
def draw() -> Callable[..., np.ndarray]:
    """Random values in [-1, 1) of an IR element type; the same ones in every run."""
    generator = np.random.default_rng(7)

    def make(shape: tuple[int, ...], type_: str = "f32") -> np.ndarray:
        return generator.uniform(-1, 1, shape).astype(np.float32).astype(DTYPES[type_])

    return make
