"""Right programs, by name; each is to be proved, as written and as lowered, and to give right numbers."""

from __future__ import annotations

from tests.handshakes.frames import consumer, load, loop, multiply, program, tiles


def ring(depth: int) -> str:
    slot = f"k % {depth}"
    return program(
        f"{tiles(depth, depth)} shared event full[{depth}], empty[{depth}] = ready;",
        ("p == 0", loop("wait empty.at(k);", load("a", slot), load("b", slot), "trigger full.at(k) after al, bl;")),
        ("p == 1", consumer("wait full.at(k);", multiply(slot, slot), "trigger empty.at(k);")),
    )


def mixed(order: str, who: str = "p == 0", depth: int = 2) -> str:
    """A scalar event for A, a ring for B, both fed by one role in the given order."""
    steps = {
        "wait_a": "wait ae;",
        "wait_b": "wait be.at(k);",
        "a": load("a", "0") + " trigger af after al;",
        "b": load("b", f"k % {depth}") + " trigger bf.at(k) after bl;",
        "wait_x": "wait xe;",
    }
    third = "wait_x" in order
    return program(
        f"{tiles(1, depth)} shared event af, bf[{depth}]; shared event ae = ready, be[{depth}] = ready;"
        + (" shared event xe = ready;" if third else ""),
        (who, loop(*(steps[step] for step in order.split()))),
        (
            "p == 1",
            consumer(
                "wait af;",
                "wait bf.at(k);",
                multiply("0", f"k % {depth}"),
                "trigger ae;",
                "trigger be.at(k);" + (" trigger xe;" if third else ""),
            ),
        ),
    )


def two_scalars(order: str) -> str:
    text = mixed(order, depth=1)
    return text.replace("bf[1]", "bf").replace("be[1]", "be").replace("bf.at(k)", "bf").replace("be.at(k)", "be")


def nested() -> str:
    outer = f"wait ae; {load('a', '0', 'n')} trigger af after al;"
    inner = f"wait be.at(o); {load('b', 'o % 2', 'n')} trigger bf.at(o++) after bl;"
    multiplied = f"wait bf.at(o); {multiply('0', 'o % 2')} trigger be.at(o++);"
    return program(
        f"{tiles(1, 2)} shared event af, bf[2]; shared event ae = ready, be[2] = ready;",
        ("p == 0", f"mutable u32 o = 0;\nforeach {{n}} in [K / 64] {{ {outer} foreach {{j}} in [3] {{ {inner} }} }}"),
        (
            "p == 1",
            "acc = mma.fill.f32 0.0f;\nmutable u32 o = 0;\n"
            f"foreach {{n}} in [K / 64] {{ wait af; foreach {{j}} in [3] {{ {multiplied} }} trigger ae; }}\n"
            "apply {i, j} in acc.span acc.at(i, j) = acc.at(i, j) / 3.0f;\nmma.store acc, c;",
        ),
    )


def acknowledged(who: str, turn: str = "wait go;") -> str:
    """All threads of the consumer wait for a token; some of them hand it back, and the rings are deeper than it."""
    feed = ("wait empty.at(k);", load("a", "k % 3"), load("b", "k % 3"), "trigger full.at(k) after al, bl;")
    answer = f"inthreads ({who}) {{ trigger got; }}"
    return program(
        f"{tiles(3, 3)} shared event full[3], empty[3] = ready, go, got = ready;",
        ("p == 0 && t == 0", loop(*feed, "wait got;", "trigger go;")),
        (
            "p == 1",
            consumer("wait full.at(k);", turn, multiply("k % 3", "k % 3"), "trigger empty.at(k);", answer),
        ),
    )


def copied(*, apart: bool) -> str:
    """One role feeds B by the copy engine and A by its own threads."""
    by_engine = f"wait be.at(k); {load('b')} trigger bf.at(k) after bl;"
    by_threads = "wait ae.at(k); dma.copy.swiz<128> a.subspan(64, 64).at(0, k) => as[k % 2]; trigger af.at(k);"
    if apart:
        by_engine, by_threads = (f"foreach {{j}} in [1] {{ {part} }}" for part in (by_engine, by_threads))
    return program(
        f"{tiles()} shared event af[2], bf[2]; shared event ae[2] = ready, be[2] = ready;",
        ("p == 0", loop(by_engine, by_threads)),
        ("p == 1", consumer("wait bf.at(k); wait af.at(k);", multiply(), "trigger be.at(k); trigger ae.at(k);")),
    )


def consumer_starts_ready() -> str:
    """Both roles use `= ready`: the consumer waits for a turn that a third role hands back."""
    return program(
        f"{tiles()} shared event full[2], empty[2] = ready; shared event go = ready, turn;",
        ("p == 0", loop("wait empty.at(k);", load("a"), load("b"), "trigger full.at(k) after al, bl;")),
        ("p == 2", loop("wait turn;", "trigger go;")),
        ("p == 1", consumer("wait go;", "trigger turn;", "wait full.at(k);", multiply(), "trigger empty.at(k);")),
        groups=3,
    )


def three_producers() -> str:
    return program(
        f"{tiles(2, 1)} shared event af[2], bf, go; shared event ae[2] = ready, be = ready, ge = ready;",
        ("p == 0", loop("wait ae.at(k);", load("a"), "trigger af.at(k) after al;")),
        ("p == 1", loop("wait be;", load("b", "0"), "trigger bf after bl;")),
        ("p == 2", loop("wait ge;", "trigger go;")),
        (
            "p == 3",
            consumer(
                "wait go; trigger ge;",
                "wait af.at(k); wait bf;",
                multiply("k % 2", "0"),
                "trigger ae.at(k); trigger be;",
            ),
        ),
        groups=4,
    )


MEETING = "inthreads (t == 1) { c.at(0, 0) = 0.0f; }"  # all meet behind it
ORDERS = (
    "wait_b b wait_a a",
    "wait_a a wait_b b",
    "wait_b wait_a a b",
    "wait_a wait_b b a",
    "wait_b wait_x b wait_a a",
)
NARROWED = {f"mixed {order}": mixed(order) for order in ORDERS} | {
    "mixed, one warp": mixed(ORDERS[0], "p == 0 && t < 32"),
    "mixed, two warps": mixed(ORDERS[2], "p == 0 && t < 64"),
    "mixed, the second warp": mixed(ORDERS[0], "p == 0 && t >= 32 && t < 64"),
    "mixed, ring of 1": mixed(ORDERS[0], depth=1),
    "mixed, ring of 3": mixed(ORDERS[0], depth=3),
    "mixed, ring of 5": mixed(ORDERS[2], depth=5),
}
MEET = {
    "acknowledged by a thread": acknowledged("t == 0"),
    "acknowledged by a warp": acknowledged("t < 32"),
    "acknowledged, waited for in a loop that is left": acknowledged(
        "t == 0", f"foreach {{j}} in [2] {{ wait go; if (j == 0) break; {MEETING} }}"
    ),
    "acknowledged, waited for by a part": acknowledged("t == 0", "if (t < 64) { wait go; }"),
    "copied, in loops of their own": copied(apart=True),
}
OTHERS = {f"ring of {depth}": ring(depth) for depth in (1, 2, 3, 5)} | {
    "two scalars, one after the other": two_scalars("wait_a a wait_b b"),
    "two scalars, both first": two_scalars("wait_b wait_a a b"),
    "mixed, half a warp": mixed(ORDERS[0], "p == 0 && t < 16"),
    "mixed, one thread": mixed(ORDERS[2], "p == 0 && t == 0"),
    "nested loops": nested(),
    "copied and loaded": copied(apart=False),
    "consumer starts ready": consumer_starts_ready(),
    "three producers": three_producers(),
}


def primed(prime: str, who: str = "", depth: int = 2, order: str = "k") -> str:
    """Slots are handed out by hand: by the consumer before its loop, or by a role of their own."""
    slot = f"k % {depth}"
    feed = loop("wait empty.at(k);", load("a", slot), load("b", slot), "trigger full.at(k) after al, bl;")
    use = ("wait full.at(k);", multiply(slot, slot), f"trigger empty.at({order});")
    roles = [("p == 0", feed), ("p == 1", consumer(*use, before="" if who else prime))]
    return program(
        f"{tiles(depth, depth)} shared event full[{depth}], empty[{depth}];",
        *roles,
        *([(who, prime)] if who else []),
        groups=3 if who else 2,
    )


IN_A_LOOP = "foreach {i} in [DEPTH] trigger empty.at(i);"
PRIMED = {
    "primed": primed("trigger empty.at(0); trigger empty.at(1);"),
    "primed at once": primed("trigger empty.at(0), empty.at(1);"),
    "primed in a loop": primed(IN_A_LOOP.replace("DEPTH", "2")),
    "primed, depth 1": primed("trigger empty.at(0);", depth=1),
    "primed, depth 3": primed(IN_A_LOOP.replace("DEPTH", "3"), depth=3),
    "primed, orders go on": primed(IN_A_LOOP.replace("DEPTH", "2"), order="k + 2"),
    "primed by another role": primed("trigger empty.at(0); trigger empty.at(1);", who="p == 2", order="k + 2"),
    "primed by another role, in a loop": primed(IN_A_LOOP.replace("DEPTH", "3"), who="p == 2", depth=3, order="k + 3"),
}
