"""Wrong programs, by name: what their report must say as help. Each is a right one with one mistake."""

from __future__ import annotations

from tests.handshakes.frames import consumer, load, loop, multiply, program, tiles
from tests.handshakes.right import acknowledged, consumer_starts_ready, mixed, primed, ring, three_producers


def changed(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def two_rings(feeding: tuple[str, ...], using: tuple[str, ...]) -> str:
    return program(
        f"{tiles()} shared event af[2], bf[2]; shared event ae[2] = ready, be[2] = ready;",
        ("p == 0", loop(*feeding)),
        ("p == 1", consumer(*using)),
    )


FEED = (
    "wait ae.at(k);",
    load("a") + " trigger af.at(k) after al;",
    "wait be.at(k);",
    load("b") + " trigger bf.at(k) after bl;",
)
USE = ("wait af.at(k);", "wait bf.at(k);", multiply(), "trigger ae.at(k);", "trigger be.at(k);")


def uneven_rings() -> str:
    """A ring of 2 that is waited for, one of 1 that is not."""
    text = two_rings(FEED[:2] + FEED[3:], USE)
    for old, new in (("bs[2]", "bs[1]"), ("bf[2]", "bf[1]"), ("be[2]", "be[1]"), ("bs[k % 2]", "bs[0]")):
        text = text.replace(old, new)
    return text


WRONG: dict[str, tuple[str, str]] = {
    "not ready": (changed(ring(2), ("= ready", "")), "declare `empty` with `= ready`"),
    "not ready, depth 1": (changed(ring(1), ("= ready", "")), "declare `empty` with `= ready`"),
    "not ready, depth 5": (changed(ring(5), ("= ready", "")), "declare `empty` with `= ready`"),
    "ready by mistake": (changed(ring(2), ("full[2],", "full[2] = ready,")), "declare `full` without `= ready`"),
    "nobody waits for a slot": (changed(ring(2), ("wait empty.at(k);\n", "")), "nobody waits for `empty`"),
    "nobody waits for a slot, depth 3": (changed(ring(3), ("wait empty.at(k);\n", "")), "add `wait empty.at(k);`"),
    "a tile is used early": (changed(ring(2), ("wait full.at(k);\n", "")), "nobody waits for `full`"),
    "one of two rings is not waited for": (uneven_rings(), "add `wait be.at(k);`"),
    "scalar not waited for": (changed(mixed("wait_b b wait_a a"), ("wait ae;\n", "")), "add `wait ae;`"),
    "scalar not ready": (changed(mixed("wait_b b wait_a a"), ("ae = ready", "ae")), "declare `ae` with `= ready`"),
    "given back too early": (
        changed(ring(2), (f"{multiply()}\n", ""), ("trigger empty.at(k);", f"trigger empty.at(k);\n{multiply()}")),
        "move the trigger",
    ),
    "one is used before its wait": (
        two_rings(FEED, ("wait af.at(k);", multiply(), "wait bf.at(k);", "trigger ae.at(k);", "trigger be.at(k);")),
        "move the wait",
    ),
    "waits for each other": (
        two_rings(
            ("wait go;", FEED[0], FEED[1], FEED[2], FEED[3]),
            ("wait af.at(k);", "trigger go;", "wait bf.at(k);", multiply(), "trigger ae.at(k);", "trigger be.at(k);"),
        ).replace("shared event af", "shared event go, af"),
        "declare `go` with `= ready`",
    ),
    "acknowledged twice": (
        changed(
            acknowledged("t == 0"), ("trigger empty.at(k);", "trigger empty.at(k); inthreads (t == 0) { trigger got; }")
        ),
        "remove `trigger got;`",
    ),
    "turn not ready": (changed(consumer_starts_ready(), ("go = ready", "go")), "declare `go` with `= ready`"),
    "third producer not ready": (changed(three_producers(), ("ge = ready", "ge")), "with `= ready`"),
    "primed once too often": (
        primed("trigger empty.at(0); trigger empty.at(1); trigger empty.at(0);"),
        "remove `trigger empty.at(0);`",
    ),
    "primed once too few": (primed("trigger empty.at(0);"), "add `trigger empty.at(1);` behind line 15"),
    "primed the wrong slot": (
        primed("trigger empty.at(0); trigger empty.at(0);"),
        "write `trigger empty.at(1);` at line 15",
    ),
    "primed in a loop, once too often": (
        primed("foreach {i} in [3] trigger empty.at(i);"),
        "let the loop of line 15 trigger 2 times",
    ),
    "primed in a loop, once too few": (
        primed("foreach {i} in [1] trigger empty.at(i);"),
        "let the loop of line 15 trigger 2 times",
    ),
    "primed, and ready": (
        changed(primed("trigger empty.at(0); trigger empty.at(1);"), ("empty[2]", "empty[2] = ready")),
        "declare `empty` without `= ready`",
    ),
    "primed by another role, taking turns": (
        primed("trigger empty.at(0); trigger empty.at(1);", who="p == 2"),
        "write `trigger empty.at(k + 2);`",
    ),
}
