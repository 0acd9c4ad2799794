"""Part of a warp waits for itself only."""

from __future__ import annotations

from croq.emit import emit_cuda
from croq.ir.core import Block
from croq.ir.hw import WarpSync
from croq.ir.objects import Kernel
from croq.ir.types import ThreadSet
from croq.sema.symbolic import Dim
from croq.source import SourceFile


def emitted(threads: ThreadSet) -> str:
    one = Dim.of(1)
    kernel = Kernel("k", SourceFile("k.co", ""), [], (one, one, one), 64, Block([WarpSync(threads=threads)]))
    return emit_cuda([kernel])


def test_the_lanes_are_named_where_some_are_missing() -> None:
    assert "croq::warp_sync();" in emitted(ThreadSet.all(64))
    assert "croq::warp_sync(0x3ff);" in emitted(ThreadSet(((32, 42),)))
