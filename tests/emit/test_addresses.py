"""What emission writes for addresses, evaluated: the layout of target/swizzle.py, and the fields of operations."""

from __future__ import annotations

import re

import pytest

from croq.diagnostics import Sink
from croq.emit import addresses, emit_cuda
from croq.emit.expressions import name
from croq.ir.hw import WgmmaIssue
from croq.ir.objects import Buffer
from croq.ir.types import BYTES
from croq.passes.operands import Operands
from croq.target.swizzle import swizzle_offset, tile_offset
from tests.emit.samples import kernel


def slab_offset(width: int, rows: int, row: int, byte: int) -> int:
    """`croq::slab_offset` of the runtime."""
    return byte // width * (rows * width) + swizzle_offset(row * width + byte % width, width)


def evaluated(text: str, **names: int) -> int:
    """An emitted expression of non-negative integers."""
    text = re.sub(r"croq::slab_offset<(\d+), (\d+)>\(", r"slab_offset(\1, \2, ", text)
    return int(eval(text.replace("/", "//"), {"slab_offset": slab_offset}, names))


@pytest.mark.parametrize("width", [0, 16, 32, 64, 128])
@pytest.mark.parametrize("element", ["f8_e4m3", "bf16", "f32"])
def test_elements_lie_where_the_layout_says(width: int, element: str) -> None:
    buffer = Buffer("t", element, (24, 256 // BYTES[element]), swizzle=width)
    text = addresses.element_offset(buffer, name("r"), name("c")).text
    for row in range(buffer.rows):
        for col in range(0, buffer.cols, 3):
            want = tile_offset(row, col, buffer.rows, BYTES[element], width, buffer.cols)
            assert evaluated(text, r=row, c=col) == want


@pytest.mark.parametrize("width", [0, 16, 32, 64, 128])
def test_chunks_lie_where_the_layout_says(width: int) -> None:
    buffer = Buffer("t", "bf16", (24, 128), swizzle=width)
    text = addresses.chunk_address(buffer, name("base"), name("r"), name("c")).text
    for row in range(buffer.rows):
        for chunk in range(16):
            want = tile_offset(row, 8 * chunk, buffer.rows, 2, width, buffer.cols)
            assert evaluated(text, base=4096, r=row, c=chunk) == 4096 + want


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("tile", [16, 48, 80, 96])
def test_descriptors_step_as_the_fields_say(width: int, tile: int) -> None:
    objects = f"""
    buffer @a type=bf16, shape=(128, 192), swizzle={width}, offset=0, alignment=1024
    fragment @acc type=f32, shape=(128, 64), layout=accumulator(m=128, n=64)
    """
    body = f"""
    frag.declare @acc ALL
    %i: s32 = block_index 0 ALL
    %t: s32 = const {tile} ALL
    %at: s32 = binary mul, %i, %t ALL
    wgmma.fence (@acc) ALL
    wgmma.issue @acc, @a[0:128, %at:{tile}], MATRIX, @a[64:64, %at:{tile}], MATRIX, m=128, n=64, k={tile}, k_step=16,
      a_transposed=false, b_transposed=false, accumulate=true ALL
    %f: future = wgmma.commit ALL
    """
    made = kernel(objects, body.replace("MATRIX", "_"))
    Operands().apply(made, Sink())
    (issue,) = (op for op in made.walk() if isinstance(op, WgmmaIssue))
    text = emit_cuda([made])
    starts = re.findall(r"const u32 (\w+) = croq::descriptor_word\((.*), a_desc_lo\);", text)
    steps = re.findall(r"croq::make_descriptor\((.*?), a_desc_hi\)", text)
    assert len(starts) == 2 and len(steps) == 4  # two row blocks
    for index in range(192 // tile):
        _compare(issue, starts, steps, {"a": 0, "i": index, "at": index * tile}, index * tile)


def _compare(
    issue: WgmmaIssue, starts: list[tuple[str, str]], steps: list[str], known: dict[str, int], col: int
) -> None:
    """Every descriptor starts where K step `k` of the tile at column `col` does."""
    buffer = issue.b.root
    assert isinstance(buffer, Buffer)
    words = {local: evaluated(value, **known) // 16 for local, value in starts}
    for k in range(issue.k // issue.k_step):
        for block, (a, b) in enumerate([steps[:2], steps[2:]]):
            for text, row in ((a, 64 * block), (b, 64)):
                want = tile_offset(row, col + 16 * k, buffer.rows, 2, buffer.swizzle)
                assert swizzle_offset(evaluated(text, **(known | words), k=k) * 16, buffer.swizzle) == want
