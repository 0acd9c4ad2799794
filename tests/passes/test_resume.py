"""The IR is its text: a pipeline that stops after any pass and goes on from what it printed comes to the same end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from croq.diagnostics import Sink
from croq.emit import emit_cuda
from croq.ir.build import build
from croq.ir.objects import Module
from croq.ir.parser import parse_module
from croq.ir.printer import print_module
from croq.passes import pipeline
from croq.sema import analyse
from croq.syntax import parse_program
from croq.texts import load

PROGRAMS = Path(__file__).parent.parent / "programs"
CHOSEN = [
    "v1",
    "v4",
    *(str(PROGRAMS / f"{name}.co") for name in ("barrier_ids", "gemm_scaled", "dma_async", "attn_tasks")),
]


def built(source: str) -> Module:
    sink = Sink()
    return build(analyse(parse_program(load(source), {}, sink), sink), sink)


def stages(module: Module) -> Iterator[str]:
    """The text before the first pass, and after each; the module is lowered on the way."""
    yield print_module(module)
    for item in pipeline.passes():
        for kernel in module.kernels:
            item.apply(kernel, Sink())
        yield print_module(module)


@pytest.mark.parametrize("source", CHOSEN, ids=lambda source: Path(source).stem)
def test_every_pass_goes_on_from_text(source: str) -> None:
    module = built(source)
    *texts, last = stages(module)
    for done, text in enumerate(texts):
        resumed = parse_module(text)
        for item in pipeline.passes()[done:]:
            for kernel in resumed.kernels:
                item.apply(kernel, Sink())
        assert print_module(resumed) == last, f"resumed before {pipeline.names()[done]}"
        assert len(emit_cuda(resumed.kernels)) > 100
