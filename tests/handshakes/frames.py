"""Programs about handshakes: all compute c = a * b^T over tiles of K, and differ in who waits for what, and where.

A role is a condition on `p` (warpgroup) and `t` (thread in it), and a body. `k` counts tiles.
"""

from __future__ import annotations

FRAME = """__co__ void f(global f16 [64, K] a, global f16 [64, K] b, global f32 [64, 64] c) {
  parallel {x} by [1] : block {
    DECLARED
    parallel p by GROUPS : group-4, t by 128 : thread {
      ROLES
    }
  }
}
"""


def program(declared: str, *roles: tuple[str, str], groups: int = 2) -> str:
    text = "\n      ".join(f"inthreads.async ({when}) {{\n{body}\n      }}" for when, body in roles)
    return FRAME.replace("DECLARED", declared).replace("GROUPS", str(groups)).replace("ROLES", text)


def tiles(a: int = 2, b: int = 2) -> str:
    return f"shared f16 [64, 64] as[{a}], bs[{b}];"


def loop(*body: str) -> str:
    return "foreach {k} in [K / 64] {\n" + "\n".join(body) + "\n}"


def consumer(*body: str, before: str = "") -> str:
    return f"acc = mma.fill.f32 0.0f;\n{before}\n{loop(*body)}\nmma.store acc, c;"


def load(name: str, slot: str = "k % 2", tile: str = "k") -> str:
    """`al` or `bl`: a tile on its way."""
    return f"{name}l = tma.load.async.swiz<128> {name}.subspan(64, 64).at(0, {tile}) => {name}s[{slot}];"


def multiply(a: str = "k % 2", b: str = "k % 2") -> str:
    return f"mma.row.row acc, as[{a}], bs[{b}];"
