"""Random pipelines as plans: who loads, who multiplies, which rings lie between, in what order things are waited for.

A plan says nothing wrong: every combination that `draw` can return is a correct program. pipeline_text.py writes it
down, pipeline_data.py knows what it must compute.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Literal

Split = Literal["rows", "columns", "whole"]
Outer = Literal["none", "nested", "tasks", "lists", "strided"]
Epilogue = Literal["global", "own", "joint", "storer"]
Source = Literal["ring", "registers", "stationary"]
Producers = Literal["one", "warps", "groups"]
Order = Literal["index", "shared", "own"]


@dataclass(frozen=True)
class Tile:
    """What one load of a ring moves: `rows` x K_TILE elements of `tensor`, at row tile `at` (an expression)."""

    name: str
    tensor: str
    rows: int
    at: str


@dataclass(frozen=True)
class Ring:
    """Tiles with one event pair. `lag`: consumers use it so many steps later. `late`: given back one step later."""

    name: str
    depth: int
    tiles: tuple[Tile, ...]
    producer: int
    lag: int = 0
    late: bool = False
    filled_by: Literal["tma", "copy", "relay"] = "tma"  # copy: by ordinary loads and stores of the whole producer

    @property
    def reach(self) -> int:
        """A wait for this ring's slot at step k tells that the consumers are past step k - reach."""
        return self.depth - self.lag - self.late


@dataclass(frozen=True)
class Mma:
    """acc_`number` += A * B part `number`."""

    number: int
    b_ring: str
    b_tile: str
    part: int  # of the B tile, in units of n rows (times the consumers, where they share columns)
    lag: int = 0


@dataclass(frozen=True)
class Plan:
    seed: int
    consumers: int
    split: Split
    element: Literal["bf16", "f16"]
    out: Literal["f32", "f16", "bf16"]
    k: int  # columns of a tile
    n: int  # columns of an accumulator
    rings: tuple[Ring, ...]
    mmas: tuple[Mma, ...]
    a: Source
    relay: bool  # the raw tiles of A are rewritten by a role of its own
    producers: Producers  # how two producers are made; "one": there is one
    whole_producer: bool  # the producer's role is its whole warpgroup, not one warp
    order: Order
    outer: Outer
    trips: str  # trip count of the inner loop, an expression
    bounded: bool  # whether the trip count of a unit has a bound that inputs cannot move
    asynchronous: bool
    wait_order: tuple[int, ...]
    issue_order: tuple[int, ...]
    peel: bool  # consumers write the first step out before their loop
    slots: bool  # slots have names
    columns_first: bool  # B comes as [K, N]
    bump: frozenset[int]  # accumulators that get 1 added after each of their steps
    release_at_once: bool  # a ring is given back as soon as its last MMA is waited for, not at the end of the step
    epilogue: Epilogue
    together: bool  # several events in one `wait`
    increment: bool  # `trigger e.at(o++)` where a count follows
    role_order: tuple[str, ...] = field(default=())

    @property
    def a_rows(self) -> int:
        return 64 * (self.consumers if self.split == "rows" else 1)

    @property
    def shares(self) -> int:
        """Into how many parts consumers cut the columns."""
        return self.consumers if self.split == "columns" else 1

    @property
    def columns(self) -> int:
        return self.n * self.shares * len(self.mmas)

    @property
    def row_tiles(self) -> int:
        """Tiles of 64 rows of the output a unit makes."""
        return 1 if self.split == "columns" else self.consumers

    @property
    def stationary(self) -> bool:
        return self.a == "stationary"

    @property
    def lagging(self) -> bool:
        return any(ring.lag for ring in self.rings)

    def ring(self, name: str) -> Ring:
        return next(ring for ring in self.rings if ring.name == name)

    def reads(self, mma: Mma) -> list[str]:
        """Rings that an MMA reads from shared memory."""
        return [*(["a" if not self.joined else "ab"] if self.a == "ring" else []), mma.b_ring]

    @property
    def joined(self) -> bool:
        return any(ring.name == "ab" for ring in self.rings)


def draw(seed: int) -> Plan:
    """The plan of a seed; equal seeds, equal plans."""
    rng = random.Random(seed)
    consumers = rng.choice([1, 1, 1, 2, 2, 2, 3])
    split: Split = rng.choice(["rows", "columns", "whole"]) if consumers > 1 else "rows"
    a: Source = rng.choice(["ring", "ring", "ring", "registers", "stationary", "stationary"])
    count = rng.choice([1, 1, 2, 2, 3])
    relay = a == "ring" and rng.random() < 0.15
    outer: Outer = rng.choice(["none", "none", "nested", "tasks", "lists", "strided"])
    n = rng.choice([8, 16, 24, 32])
    columns_first = count == 1 and (split != "columns") and rng.random() < 0.25
    n = 64 if columns_first else n
    shares = consumers if split == "columns" else 1
    a_rows = 64 * (consumers if split == "rows" else 1)
    rings, mmas = _rings(rng, a, relay, count, n * shares, a_rows)
    whole_producer = rng.random() < 0.6
    sole = len({ring.producer for ring in rings}) == 1
    if whole_producer and sole and a != "stationary" and rng.random() < 0.25:
        rings = tuple(replace(ring, filled_by="copy") if ring.filled_by == "tma" else ring for ring in rings)
    producers: Producers = "one"
    if len({ring.producer for ring in rings}) > 1:
        producers = rng.choice(["warps", "groups"])
    lagging = any(ring.lag for ring in rings)
    plain = outer == "none" and not lagging
    order: Order = (
        rng.choice(["index", "shared", "own"]) if plain else "own" if lagging else rng.choice(["shared", "own"])
    )
    trips, bounded = _trips(rng, outer)
    issue = list(range(count))
    rng.shuffle(issue)
    waits = list(range(count))
    rng.shuffle(waits)
    roles = ["producer 0", "consumer"]
    if producers == "groups":
        roles.append("producer 1")
    if relay:
        roles.append("relay")
    epilogue: Epilogue = rng.choice(["global", "own", "joint", "storer"])
    if epilogue == "storer":
        roles.append("storer")
    rng.shuffle(roles)
    return Plan(
        seed=seed,
        consumers=consumers,
        split=split,
        element=rng.choice(["bf16", "f16"]),
        out=rng.choice(["f32", "f16", "bf16"]),
        k=16 if relay else rng.choice([16, 32, 64]),
        n=n,
        rings=rings,
        mmas=mmas,
        a=a,
        relay=relay,
        producers=producers,
        whole_producer=whole_producer,
        order=order,
        outer=outer,
        trips=trips,
        bounded=bounded,
        asynchronous=rng.random() < 0.7,
        wait_order=tuple(waits),
        issue_order=tuple(issue),
        peel=order != "index" and rng.random() < 0.25,
        slots=rng.random() < 0.4,
        columns_first=columns_first,
        bump=frozenset(j for j in range(count) if rng.random() < 0.3),
        release_at_once=rng.random() < 0.5,
        epilogue=epilogue,
        together=rng.random() < 0.4,
        increment=rng.random() < 0.5,
        role_order=tuple(roles),
    )


def _rings(
    rng: random.Random, a: str, relay: bool, count: int, part_rows: int, a_rows: int
) -> tuple[tuple[Ring, ...], tuple[Mma, ...]]:
    def depth() -> int:
        return rng.choice([1, 2, 2, 3, 3, 4, 5])

    def late(depth: int) -> bool:
        return depth > 1 and rng.random() < 0.25

    a_tile = Tile("a", "a", a_rows, "unit")
    separate_b = count > 1 and rng.random() < 0.4
    if separate_b:
        b_tiles = [Tile(f"b{j}", "b", part_rows, str(j)) for j in range(count)]
    else:
        b_tiles = [Tile("b", "b", part_rows * count, "0")]
    spread = rng.random() < 0.4  # over two producers
    rings: list[Ring] = []
    if a == "ring" and not relay and not separate_b and rng.random() < 0.5:
        d = depth()
        rings.append(Ring("ab", d, (a_tile, b_tiles[0]), 0, late=late(d)))
    else:
        if a != "stationary":
            d = depth()
            rings.append(Ring("a", d, (a_tile,), 0, late=late(d) and not relay, filled_by="relay" if relay else "tma"))
        if relay:
            rings.append(Ring("raw", depth(), (Tile("raw", "a", a_rows, "unit"),), 0))
        lag = a == "stationary" and separate_b and rng.random() < 0.6
        for number, tile in enumerate(b_tiles):
            d = depth()
            behind = int(lag and number == count - 1)
            rings.append(Ring(tile.name, d, (tile,), int(spread), behind, late(d) and not behind))
        if spread and a == "stationary":
            rings[0] = Ring(rings[0].name, rings[0].depth, rings[0].tiles, 0, rings[0].lag, rings[0].late)
    mmas = []
    for j in range(count):
        tile = b_tiles[j if separate_b else 0]
        ring = next(ring for ring in rings if tile in ring.tiles)
        mmas.append(Mma(j, ring.name, tile.name, 0 if separate_b else j, ring.lag))
    return tuple(rings), tuple(mmas)


def _trips(rng: random.Random, outer: Outer) -> tuple[str, bool]:
    if outer == "none":
        return rng.choice([("steps", False), ("cdiv(K, K_TILE)", False), ("steps", False)])
    if outer == "nested":
        return rng.choice([("steps", False), ("turn + 1", False), ("turn % 3", True), ("steps", False)])
    return "lengths.at(task)", False
