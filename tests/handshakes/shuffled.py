"""Random programs in which roles wait, feed and answer in shuffled orders: channels of A, of B, of nothing (tokens).

A channel is a scalar event or a ring; it is fed by the copy engine, by the threads of its feeder, or by a trigger. Who
feeds may be a warpgroup, some of its warps, or a thread; who answers a token may be a part of those who wait for it.
Every program is right as it is written: each channel is waited for, fed and answered once a round, in this order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.handshakes.frames import consumer, load, loop, multiply, program

SETS = ("", " && t < 32", " && t < 64", " && t >= 32 && t < 96", " && t == 0", " && t < 16")
ANSWERS = ("", "t == 0", "t < 32", "t >= 64")


@dataclass(frozen=True)
class Channel:
    """`by`: "engine", "threads" or "trigger". `depth` 0: scalar events. `answer`: who hands a token back."""

    name: str
    by: str
    depth: int
    feeder: int
    answer: str = ""

    @property
    def at(self) -> str:
        return ".at(k)" if self.depth else ""

    @property
    def slot(self) -> str:
        return f"k % {self.depth}" if self.depth else "0"

    @property
    def declared(self) -> str:
        slots = f"[{self.depth}]" if self.depth else ""
        return f"shared event {self.name}f{slots}; shared event {self.name}e{slots} = ready;"

    @property
    def room(self) -> str:
        return f"wait {self.name}e{self.at};"

    @property
    def feed(self) -> str:
        full = f"{self.name}f{self.at}"
        if self.by == "engine":
            return f"{load(self.name, self.slot)} trigger {full} after {self.name}l;"
        if self.by == "threads":
            tile = f"{self.name}.subspan(64, 64).at(0, k) => {self.name}s[{self.slot}]"
            return f"dma.copy.swiz<128> {tile}; trigger {full};"
        return f"trigger {full};"

    @property
    def taken(self) -> str:
        return f"wait {self.name}f{self.at};"

    @property
    def given_back(self) -> str:
        trigger = f"trigger {self.name}e{self.at};"
        return f"inthreads ({self.answer}) {{ {trigger} }}" if self.answer else trigger


def draw(seed: int) -> str:
    rng = random.Random(seed)
    feeders = rng.choice((1, 1, 1, 2))
    sets = [rng.choice(SETS) for _ in range(feeders)]
    channels = [
        Channel(name, rng.choice(("engine", "engine", "engine", "threads")), rng.choice((0, 1, 2, 3)), feeder)
        for name in "ab"
        for feeder in [rng.randrange(feeders)]
    ]
    for name in "uv"[: rng.choice((0, 1, 1, 2))]:
        answer = rng.choice(ANSWERS)
        channels.append(Channel(name, "trigger", rng.choice((0, 1, 2)), rng.randrange(feeders), answer))
    rng.shuffle(channels)
    roles = [
        (f"p == {n}{sets[n]}", loop(*_feeding(rng, [c for c in channels if c.feeder == n]))) for n in range(feeders)
    ]
    roles.append((f"p == {feeders}", consumer(*_using(rng, channels))))
    buffers = {c.name: c.depth or 1 for c in channels}
    declared = f"shared f16 [64, 64] as[{buffers['a']}], bs[{buffers['b']}];\n" + "\n".join(
        c.declared for c in channels
    )
    return program(declared, *roles, groups=feeders + 1)


def _feeding(rng: random.Random, channels: list[Channel]) -> list[str]:
    """Each channel's room is waited for before it is fed; else in any order. Some steps stand in loops of their own."""
    if not channels:
        return [";"]
    steps = sorted((s for c in channels for s in ((c.room, c), (c.feed, c))), key=lambda _: rng.random())
    ordered: list[str] = []
    for text, channel in steps:
        if channel.room in ordered:
            ordered.append(channel.feed)
        else:
            ordered.append(channel.room)
        del text
    return [f"foreach {{j}} in [1] {{ {step} }}" if rng.random() < 0.15 else step for step in ordered]


def _using(rng: random.Random, channels: list[Channel]) -> list[str]:
    data = {c.name: c for c in channels if c.name in "ab"}
    waits = [c.taken for c in channels]
    rng.shuffle(waits)
    answers = [c.given_back for c in channels]
    rng.shuffle(answers)
    return [*waits, multiply(data["a"].slot, data["b"].slot), *answers]
