"""Random copies: arrays of rank 2 to 4 whose last tiles overhang, strided planes of them, every engine, every swizzle.

A tile goes from global to shared memory, perhaps to a second shared buffer, and back: moved whole, or element by
element, which reads through the XOR pattern that the move wrote.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.random_tiles.tile_sample import BYTES, Sample, integers, poisoned, shape_text, swizzle_text

ELEMENTS = ("f32", "bf16", "f16", "u8", "s16", "s32")
THREADS = 128
TMA_STRIDE = 16  # bytes: strides of a tensor map are multiples


@dataclass(frozen=True)
class _Copy:
    """`shape` of the array, whose dimensions `rows_at` and the last are cut into tiles; all others are planes.

    `known`: the text has constants for extents, else symbols.
    """

    element: str
    shape: tuple[int, ...]
    rows_at: int
    tile: tuple[int, int]
    known: bool
    loads: str
    stores: str
    swizzle: str
    relayed: bool

    @property
    def planes(self) -> list[int]:
        return [d for d in range(len(self.shape) - 1) if d != self.rows_at]

    @property
    def extents(self) -> list[str]:
        return [str(extent) if self.known else f"D{d}" for d, extent in enumerate(self.shape)]

    @property
    def squeezed(self) -> bool:
        """`.sqz()` would drop the tile's own dimension of extent 1, too."""
        return bool(self.planes) and 1 not in self.tile

    def place(self, plane: str, row: str, col: str) -> list[str]:
        """One entry a dimension of the array; `plane` with `{d}` for the dimension."""
        at = [plane.format(d=d) for d in range(len(self.shape))]
        at[self.rows_at], at[-1] = row, col
        return at

    @property
    def view(self) -> str:
        extents = self.place("1", str(self.tile[0]), str(self.tile[1]))
        at = self.place("p{d}", "bm", "bn")
        return f"subspan({', '.join(extents)}).at({', '.join(at)}){'.sqz()' if self.squeezed else ''}"

    @property
    def buffer(self) -> str:
        whole = self.place("1", str(self.tile[0]), str(self.tile[1]))
        return shape_text(self.tile) if self.squeezed or not self.planes else f"[{', '.join(whole)}]"

    def shared(self, name: str) -> str:
        """The element (i, j) of a shared buffer."""
        at = ["i", "j"] if self.squeezed or not self.planes else self.place("0", "i", "j")
        return f"{name}.at({', '.join(at)})"

    @property
    def outside(self) -> str:
        """The element of the array that belongs to (i, j) of the tile."""
        return ", ".join(self.place("p{d}", f"bm * {self.tile[0]} + i", f"bn * {self.tile[1]} + j"))

    @property
    def inside(self) -> str:
        rows, cols = self.extents[self.rows_at], self.extents[-1]
        return f"i < {self.tile[0]} && bm * {self.tile[0]} + i < {rows} && bn * {self.tile[1]} + j < {cols}"


def draw_copy(seed: int) -> Sample:
    rng = random.Random(seed)
    element = rng.choice(ELEMENTS)
    planes = rng.choice((0, 0, 1, 2))
    known = rng.random() < 0.5
    loads, stores = rng.choice(("tma", "dma", "dma", "elements")), rng.choice(("tma", "dma", "elements"))
    tile = rng.choice((1, 4, 8, 16, 24, 40)), _columns(rng, BYTES[element])
    rows, cols = (rng.randint(t if known else 1, most * t) for t, most in zip(tile, (3, 2), strict=True))
    if "tma" in (loads, stores):
        lanes = TMA_STRIDE // BYTES[element]
        cols = -(-cols // lanes) * lanes
    shape = [*(rng.randint(1, 3) for _ in range(planes)), cols]
    rows_at = rng.randrange(len(shape))
    shape.insert(rows_at, rows)
    swizzle = swizzle_text(rng, tile[1] * BYTES[element]) if tile[0] % 8 == 0 else ""
    copy = _Copy(element, tuple(shape), rows_at, tile, known, loads, stores, swizzle, rng.random() < 0.3)
    x = integers(rng, copy.shape, element, 1, 50)
    return Sample(seed, "copy", _text(copy), {"x": x, "y": poisoned(copy.shape, element)}, {"y": x})


def _columns(rng: random.Random, size: int) -> int:
    lanes = 16 // size
    return lanes * rng.choice((1, 2, 3, 4, 5, 8, 8, 12, 16)) if rng.random() < 0.8 else rng.randint(1, 6 * lanes)


def _text(copy: _Copy) -> str:
    array = f"global {copy.element} [{', '.join(copy.extents)}]"
    grid = {
        "bn": f"cdiv({copy.extents[-1]}, {copy.tile[1]})",
        "bm": f"cdiv({copy.extents[copy.rows_at]}, {copy.tile[0]})",
    }
    if copy.planes:
        grid["pp"] = " * ".join(copy.extents[d] for d in copy.planes)
    lines = [
        f"__co__ void f({array} x, {array} y) {{",
        f"  parallel {{{', '.join(grid)}}} by [{', '.join(grid.values())}] : block, w by 1 : group-4 {{",
    ]
    left = "pp"
    for d in reversed(copy.planes):
        lines.append(f"    p{d} = {left} % {copy.extents[d]};")
        left = f"({left} / {copy.extents[d]})"
    lines.append(f"    shared {copy.element} {copy.buffer} s;")
    if copy.loads == "elements":
        taken = f"{copy.shared('s')} = x.at({copy.outside});"
        blank = f"{copy.shared('s')} = __to<{copy.element}>(0);"
        lines += _each(copy, [f"if ({copy.inside})", f"  {taken}", f"else if (i < {copy.tile[0]})", f"  {blank}"])
    else:
        lines.append(f"    {copy.loads}.{'load' if copy.loads == 'tma' else 'copy'}{copy.swizzle} x.{copy.view} => s;")
    source = "s"
    if copy.relayed:
        source = "second"
        lines += [f"    shared {copy.element} {copy.buffer} second;", "    dma.copy s => second;"]
    if copy.stores == "elements":
        lines += _each(copy, [f"if ({copy.inside})", f"  y.at({copy.outside}) = {copy.shared(source)};"])
    else:
        lines.append(f"    {copy.stores}.copy {source} => y.{copy.view};")
    return "\n".join([*lines, "  }", "}"]) + "\n"


def _each(copy: _Copy, body: Sequence[str]) -> list[str]:
    """Every thread's share of the elements (i, j) of the tile."""
    return [
        f"    parallel t by {THREADS} : thread {{",
        f"      foreach {{e}} in [{-(-copy.tile[0] * copy.tile[1] // THREADS)}] {{",
        f"        i = (e * {THREADS} + t) / {copy.tile[1]};",
        f"        j = (e * {THREADS} + t) % {copy.tile[1]};",
        *(f"        {line}" for line in body),
        "      }",
        "    }",
    ]
