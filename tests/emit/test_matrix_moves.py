"""The addresses that lanes give ldmatrix and stmatrix, evaluated: tile and fragment layouts meet there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from croq.target.fragments import AccumulatorLayout
from croq.target.swizzle import tile_offset
from tests.emit.samples import cuda
from tests.emit.test_addresses import evaluated

MOVES = {"ldmatrix": "reg.load @f, {} ALL", "stmatrix": "reg.store @f, {}, stmatrix, (), pairs=false ALL"}
STRIDE = 1 << 20  # from slot to slot, for the evaluation
Held = tuple[int, int, int]  # thread, 64-row block, 32-bit register of the block


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("width", [0, 16, 32, 64, 128])
@pytest.mark.parametrize(
    ("m", "n", "row", "col"), [(64, 64, 0, 0), (64, 128, 64, 0), (128, 48, 8, 64), (128, 40, 0, 8)]
)
def test_lanes_point_at_what_their_registers_hold(move: str, width: int, m: int, n: int, row: int, col: int) -> None:
    objects = f"""
    buffer @s type=bf16, shape=(136, 128), slots=2, array=true, swizzle={width}, offset=0, alignment=1024
    fragment @f type=bf16, shape=({m}, {n}), layout=accumulator(m={m}, n={n}), packed=true
    """
    body = "frag.declare @f ALL\n" + MOVES[move].format(f"@s<1>[{row}:{m}, {col}:{n}]")
    layout = AccumulatorLayout(m, n)
    rows, cols = layout.coordinates(np.arange(128))
    wanted = {}
    for thread, r in product(range(128), range(0, layout.registers, 2)):
        place = tile_offset(row + rows[thread, r], col + cols[thread, r], 136, 2, width, 128)
        wanted[thread, r // (n // 2), r % (n // 2) // 2] = STRIDE + place
    assert dict(_pointed_at(cuda(objects, body), move, m // 64)) == wanted


def _pointed_at(text: str, move: str, blocks: int) -> Iterator[tuple[Held, int]]:
    """PTX ISA, ldmatrix: lane l has bytes 4 (l % 4) to 4 (l % 4) + 3 of the row that lane 8 i + l / 4 points at in
    register i."""
    (row,) = re.findall(r"const u32 row = (.*);", text)
    (end,) = re.findall(r"c < (\d+); c \+= 2", text)
    for chunk, count, arguments in re.findall(rf"const u32 chunk = (.*);\s+croq::{move}_x(\d)\(([^;]*)\);", text):
        parts = [part.strip() for part in arguments.split(",")]
        (address,) = (part for part in parts if "row" in part)
        registers = [part[:-1].rpartition("[")[2] for part in parts if part != address]
        assert len(registers) == int(count)
        for block, c in product(range(blocks), range(0, int(end), 2) if count == "4" else [0]):
            names = [_names(lane, row, chunk, block=block, c=c) for lane in range(128)]
            pointed = [evaluated(address, **known) for known in names]
            for thread, (i, register) in product(range(128), enumerate(registers)):
                giver = thread // 32 * 32 + 8 * i + thread % 32 // 4
                yield (thread, block, evaluated(register, c=c)), pointed[giver] + thread % 4 * 4


def _names(thread: int, row: str, chunk: str, **known: int) -> dict[str, int]:
    known |= {"lane": thread % 32, "warp_row": thread // 32 * 16, "s_tile": STRIDE}
    return known | {"row": evaluated(row, **known), "chunk": evaluated(chunk, **known)}
