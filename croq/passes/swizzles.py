"""How each shared buffer is laid out: its swizzle and alignment, from the operations that touch it.

Rules
    S1  A swizzle that the source asks for (`.swiz<N>`) is taken.
    S2  The row of a swizzled tile is N bytes or a multiple of N (E-2202): wider rows are stored as N-byte column slabs.
    S3  A buffer that an MMA reads is swizzled by the widest of 128, 64, 32 bytes that divides its row, and the tiles of
        it that the copy engine moves, unless S1 says otherwise: matrix descriptors of the other layouts (8 x 16-byte
        core matrices) are not row-major tiles, so a row that 32 does not divide is E-2203. (PTX ISA, wgmma "Shared
        Memory Matrix Layout"; hopper.md section 4)
    S4  A buffer that whole fragments are stored to or loaded from, and that nothing addresses as plain memory, gets the
        widest swizzle of S3 too: eight rows of a stmatrix or ldmatrix then fall in different banks.
    S5  A buffer whose address is passed to a device function is plain row-major; with S1 or S3 that is E-2204.
    S6  Everything else is plain row-major.
    S7  Alignment: the swizzle's repeat (8 rows x N bytes: 1024, 512, 256), since the hardware XORs address bits; 128
        for plain buffers that TMA touches, else 16. Slabs start on the repeat, so a tile of several slabs has a
        multiple of eight rows (E-2202).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar, Literal

from croq.diagnostics import Sink
from croq.ir.core import Op
from croq.ir.objects import Buffer, Kernel, View
from croq.ir.types import BYTES
from croq.passes.analysis.values import divides
from croq.passes.base import Pass
from croq.source import Span
from croq.target import swizzle
from croq.target.cuda import TMA_SHARED_ALIGNMENT, TMA_SWIZZLES, VECTOR
from croq.target.swizzle import PATTERN_ROWS

WIDTHS = TMA_SWIZZLES[::-1]  # the widest first


@dataclass(frozen=True)
class Swizzles(Pass):
    name: ClassVar[str] = "swizzles"
    needs = ("fragments",)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        uses = _uses(kernel)
        for buffer in kernel.buffers:
            if buffer.storage == "shared":
                _decide(buffer, uses[buffer], sink)


Kind = Literal["wgmma", "tma", "fragment", "pointer", "plain"]


@dataclass(frozen=True)
class _Use:
    kind: Kind
    op: Op


def _uses(kernel: Kernel) -> dict[Buffer, list[_Use]]:
    uses: dict[Buffer, list[_Use]] = defaultdict(list)
    for effect in kernel.effects():
        if isinstance(effect.root, Buffer):
            uses[effect.root].append(_Use(_kind(effect.op), effect.op))
    return uses


def _kind(op: Op) -> Kind:
    """How an operation addresses what it touches: as its engine does, by whole fragments, as text of C++ likes to."""
    if op.OPAQUE:
        return "pointer"
    if op.ENGINE is not None:
        return op.ENGINE
    return "fragment" if op.REGISTERS else "plain"


def _decide(buffer: Buffer, uses: list[_Use], sink: Sink) -> None:
    kinds = {use.kind for use in uses}
    row_bytes = buffer.cols * BYTES[buffer.type]
    tiles = [e.target for use in uses if use.kind == "tma" for e in use.op.own_effects() if e.root is buffer]
    widest = next((w for w in WIDTHS if row_bytes % w == 0 and all(_has_slabs(view, w) for view in tiles)), 0)
    whole = buffer.rows % PATTERN_ROWS == 0
    first = {kind: next(use.op.span for use in uses if use.kind == kind) for kind in kinds}

    if buffer.requested_swizzle is not None:
        buffer.swizzle, buffer.why = buffer.requested_swizzle, "the source asks for it (swizzles.S1)"
    elif "wgmma" in kinds:
        if not widest:
            sink.error(
                "E-2203",
                buffer.span,
                f"`{buffer.name}` has rows of {row_bytes} bytes, which no matrix descriptor can describe",
                labels=_labels((first["wgmma"], "an MMA reads it here")),
                notes=[
                    "a WGMMA operand in shared memory is swizzled by 128, 64 or 32 bytes, which must divide its row"
                ],
                hint="make the innermost extent a multiple of 32 bytes",
            )
        buffer.swizzle, buffer.why = (
            widest,
            f"widest that divides a row of {row_bytes} bytes, for the MMA (swizzles.S3)",
        )
    elif "fragment" in kinds and "pointer" not in kinds and widest and (whole or row_bytes == widest):
        buffer.swizzle, buffer.why = widest, "whole fragments then spread over all banks (swizzles.S4)"
    else:
        buffer.swizzle, buffer.why = 0, "nothing needs a swizzle (swizzles.S6)"

    _check(buffer, row_bytes, widest, first, sink)
    plain = TMA_SHARED_ALIGNMENT if "tma" in kinds else VECTOR  # S7
    buffer.alignment = swizzle.alignment(buffer.swizzle) if buffer.swizzle else plain


def _has_slabs(view: View, width: int) -> bool:
    """Whether the columns of a tile are whole slabs of `width` bytes."""
    lanes = width // BYTES[view.root.type]
    extent = view.extents[-1].known
    return extent is not None and extent % lanes == 0 and divides(lanes, view.offsets[-1])


def _check(buffer: Buffer, row_bytes: int, widest: int, first: dict[Kind, Span | None], sink: Sink) -> None:
    width = buffer.swizzle
    if not width:
        return
    if row_bytes % width:  # S2
        sink.error(
            "E-2202",
            buffer.span,
            f"a {width}-byte swizzle does not fit rows of {row_bytes} bytes of `{buffer.name}`",
            notes=["the row must be as wide as the swizzle or a multiple of it"],
            hint=f"use `.swiz<{widest}>`" if widest else "make the innermost extent a multiple of 32 bytes",
        )
    elif row_bytes > width and buffer.rows % PATTERN_ROWS:
        sink.error(
            "E-2202",
            buffer.span,
            f"`{buffer.name}` has {buffer.rows} rows in {row_bytes // width} column slabs, which need a multiple of 8",
            notes=[f"the swizzle pattern repeats every 8 rows of {width} bytes, and each slab must start on a repeat"],
            hint="use a multiple of 8 rows",
        )
    if "pointer" in first:  # S5
        sink.error(
            "E-2204",
            first["pointer"],
            f"`{buffer.name}` is swizzled, so a device function cannot address it as plain memory",
            labels=_labels((buffer.span, f"{width}-byte swizzle: {buffer.why}")),
            hint="pass a fragment instead, or drop `.swiz` where no MMA reads the buffer",
        )


def _labels(*pairs: tuple[Span | None, str]) -> list[tuple[Span, str]]:
    return [(span, text) for span, text in pairs if span is not None]
