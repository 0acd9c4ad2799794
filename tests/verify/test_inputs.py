"""Both sides of what inputs decide are followed, with inputs that are solved for, or the verdict says which is not.

Every program here has a fault that only some inputs show; beside it stands the same program without the fault.
"""

from __future__ import annotations

import pytest

from croq.verify import Options, Verdict, verify_protocol
from tests.verify.helpers import kernels

PAIR = """
__co__ void f({params}) {{
  parallel {{b, c}} by [{grid}] : block {{
    shared f32 [128] s[4];
    shared event e[4];
    parallel p by 2 : group-4, t by 128 : thread {{
      inthreads.async (p == 0) {{ {producer} }}
      inthreads.async (p == 1) {{ {consumer} }}
    }}
  }}
}}
"""
X, Y, TASKS = "global f32 [M, K] x", "global f32 [N] y", "global s32 [T] tasks"
USE = "wait e[0]; y.at(t) = s[0].at(127 - t);"
GIVE = "s[0].at(t) = x.at(0, t); trigger e[0];"


def pair(producer: str, consumer: str = USE, params: str = f"{X}, {Y}", grid: str = "1, 1") -> str:
    return PAIR.format(params=params, producer=producer, consumer=consumer, grid=grid)


def guarded(condition: str) -> str:
    """The trigger stands under a condition that has to hold always."""
    return pair(f"s[0].at(t) = x.at(0, t); if ({condition}) {{ trigger e[0]; }}")


def verdict(text: str, level: str = "hw", options: Options | None = None) -> Verdict:
    (kernel,) = kernels(text, after="participants" if level == "tile" else None)
    return verify_protocol(kernel, level=level, options=options)  # type: ignore[arg-type]


CHOSEN = """
__co__ void f(global f32 [M, 128] x, global f32 [N] y) {{
  parallel b by 1 : block {{
    shared f32 [128] s[2];
    shared event e[2];
    parallel p by 2 : group-4, t by 128 : thread {{
      inthreads.async (p == 0) {{
        foreach {{k}} in [2] {{ s[k].at(t) = x.at(k, t); trigger e[k]; }}
      }}
      inthreads.async (p == 1) {{
        slot = {slot};
        wait e[0]; {waited}
        y.at(t) = s[slot].at(127 - t);
      }}
    }}
  }}
}}
"""

LISTED = """
__co__ void f(global s32 [T] tasks, global f32 [N] y) {{
  parallel b by 1 : block {{
    shared f32 [128] s;
    shared event e, done = ready;
    parallel p by 2 : group-4, t by 128 : thread {{
      inthreads.async (p == 0) {{
        foreach {{k}} in [T] {{ task = tasks.at(k); wait done; s.at(t) = 1.0f; {give} }}
      }}
      inthreads.async (p == 1) {{
        foreach {{k}} in [T] {{ task = tasks.at(k); {take} y.at(t) = s.at(127 - t); trigger done; }}
      }}
    }}
  }}
}}
"""

RING = """
__co__ void f(global bf16 [M, K] a, global f32 [M, 64] c) {{
  parallel bm by [cdiv(M, 64)] : block {{
    shared bf16 [64, 64] buf[2];
    shared event full[2], empty[2] = ready;
    parallel p by 2 : group-4, t by 128 : thread {{
      inthreads.async (p == 0) {{
        foreach {{k}} in [cdiv(K, 64)] {{
          wait empty.at(k);
          l = tma.load.async.swiz<128> a.subspan(64, 64).at(bm, k) => buf[k % 2];
          trigger full.at(k) after l;
        }}
      }}
      inthreads.async (p == 1) {{
        acc = mma.fill.f32 0.0f;
        {steps}
        foreach {{k}} in [steps] {{
          {extra}
          wait full.at(k);
          mma.row.row acc, buf[k % 2], buf[k % 2];
          trigger empty.at(k);
        }}
        mma.store acc, c.subspan(64, 64).at(bm, 0);
      }}
    }}
  }}
}}
"""


def ring(steps: str, extra: str = "") -> str:
    return RING.format(steps=steps, extra=extra)


BRANCH = "if ({}) {{ trigger e[0]; }} else {{ trigger e[1]; }}"

# name -> (program, codes of the fault, what the counterexample says of the inputs)
FAULTY: dict[str, tuple[str, str, str]] = {
    "size above a threshold": (guarded("N < 1000000"), "E-6008", "N = 1000000"),
    "size equal to a number": (guarded("M != 777"), "E-6008", "M = 777"),
    "product of two sizes": (guarded("M * K < 100000"), "E-6008", ""),
    "product that is one number": (guarded("M * K != 1763"), "E-6008", ""),
    "square": (guarded("M * M < 5000000"), "E-6008", ""),
    "remainder": (guarded("M % 12 != 7"), "E-6008", "M = 7"),
    "two remainders": (guarded("!(M % 7 == 3 && M % 11 == 5 && M > 1000)"), "E-6008", "M = 1039"),
    "rounded up": (guarded("cdiv(M, 64) < 5000"), "E-6008", "M = 319937"),
    "shifted and masked": (guarded("((M >> 8) & 63) != 41"), "E-6008", "M = 10496"),
    "two sizes compared": (guarded("M <= K + 500"), "E-6008", ""),
    "conjunction": (guarded("!(M == 777 && K > 90000 && N == 5)"), "E-6008", "M = 777"),
    "disjunction": (guarded("M < 900 || K != 33"), "E-6008", "K = 33"),
    "negative scalar": (
        pair("s[0].at(t) = 1.0f; if (shift > -12345) { trigger e[0]; }", params=f"int shift, {Y}"),
        "E-6008",
        "shift = -12345",
    ),
    "scalar in a sum": (
        pair("s[0].at(t) = 1.0f; if (M - 3 * shift < 99999) { trigger e[0]; }", params=f"int shift, {X}, {Y}"),
        "E-6008",
        "",
    ),
    "place of the block": (
        pair("s[0].at(t) = 1.0f; if (b != 100) { trigger e[0]; }", params=f"{X}, {Y}", grid="cdiv(M, 16), 1"),
        "E-6008",
        "block (100, 0, 0)",
    ),
    "nested branches": (
        pair(
            "if (M > 300) { if (K == 12) { s[0].at(t) = 1.0f; } else { s[0].at(t) = 2.0f; trigger e[0]; } } "
            "else { s[0].at(t) = 3.0f; trigger e[0]; }"
        ),
        "E-6008",
        "K = 12",
    ),
    "branch of the consumer only": (
        pair(GIVE, f"{USE} if (M > 4321) {{ wait e[1]; }}"),
        "E-6008",
        "M = 4322",
    ),
    "conditions that differ in both roles": (
        pair(BRANCH.format("M > 1000"), "if (M > 2000) { wait e[0]; } else { wait e[1]; }"),
        "E-6008",
        "",
    ),
    "slot by a conditional": (CHOSEN.format(slot="M == 4000 ? 1 : 0", waited=""), "E-6001", "M = 4000"),
    "slot by a minimum": (CHOSEN.format(slot="__min(M / 100, 1)", waited=""), "E-6001", "M = 100"),
    "slot by a comparison": (CHOSEN.format(slot="__to<s32>(M > 500)", waited=""), "E-6001", "M = 501"),
    "slot outside the buffer": (CHOSEN.format(slot="M > 9000 ? 2 : 0", waited="wait e[1];"), "E-6010", "M = 9001"),
    "count by a conditional": (ring("steps = M == 777 ? cdiv(K, 64) - 1 : cdiv(K, 64);"), "E-6012", "M = 777"),
    "count by a comparison": (ring("steps = cdiv(K, 64) - __to<s32>(M > 640);"), "E-6012", "M = 641"),
    "count by a quotient": (ring("steps = cdiv(K, 64) - M / 5000;"), "E-6012", "M = 5000"),
    "count by a minimum": (ring("steps = __min(cdiv(K, 64), 20);"), "E-6", ""),
    "count that is rounded down": (ring("steps = K / 64;"), "E-6012", ""),
    "late iteration": (ring("steps = cdiv(K, 64);", "if (k == 30) { wait full.at(k + 1); }"), "E-6", ""),
    "break under a condition": (ring("steps = cdiv(K, 64);", "if (M > 1234 && k == 2) break;"), "E-6", "M = 1235"),
    "flag in a variable": (
        pair("mutable s32 go = 1; if (M == 555) { go = 0; } s[0].at(t) = 1.0f; if (go == 1) { trigger e[0]; }"),
        "E-6008",
        "M = 555",
    ),
    "size in a variable": (
        pair("mutable s32 m = 0; m = M * 2 + 1; s[0].at(t) = 1.0f; if (m != 2001) { trigger e[0]; }"),
        "E-6008",
        "M = 1000",
    ),
    "task of a list": (
        LISTED.format(give="if (task < 1000000) { trigger e; }", take="wait e;"),
        "E-6008",
        "= 1000000",
    ),
    "field of a task": (
        LISTED.format(give="if (((task >> 8) & 255) != 200) { trigger e; }", take="wait e;"),
        "E-6008",
        "= 51200",
    ),
    "task against a size": (
        LISTED.format(give="if (task <= N + 77) { trigger e; }", take="wait e;"),
        "E-6008",
        "",
    ),
    "tasks against one another": (
        LISTED.format(give="if (k == 0 || task != tasks.at(0) + 41) { trigger e; }", take="wait e;"),
        "E-6008",
        "",
    ),
    "negative task": (
        LISTED.format(give="if (task > -500) { trigger e; }", take="wait e;"),
        "E-6008",
        "= -500",
    ),
    "unsigned scalar": (
        pair("s[0].at(t) = 1.0f; if (u < 4000000000) { trigger e[0]; }", params=f"u32 u, {Y}"),
        "E-6008",
        "u = 4000000000",
    ),
    "exclusive or": (guarded("(M ^ 5) != 1000"), "E-6008", "M = 1005"),
    "exclusive or of two sizes": (guarded("((M ^ K) & 1023) != 700"), "E-6008", ""),
    "narrow conversion": (guarded("__to<s32>(__to<s8>(M)) != -5"), "E-6008", "M = 251"),
    "minimum of three sizes": (guarded("__min(M, __min(K, N)) < 321"), "E-6008", "M = 321, K = 321, N = 321"),
    "quotient of two sizes": (guarded("M / K < 50"), "E-6008", "M = 50, K = 1"),
    "remainder of two sizes": (guarded("N == 1 || M % N != 17"), "E-6008", ""),
    "flags of three sizes": (
        pair(
            "mutable s32 f = 0; if (M > 500) { f = f + 1; } if (K > 700) { f = f + 1; } if (N > 900) { f = f + 1; } "
            "s[0].at(t) = 1.0f; if (f < 3) { trigger e[0]; }"
        ),
        "E-6008",
        "M = 501, K = 701, N = 901",
    ),
    "count of a while": (
        pair(f"mutable s32 n = 0; while (n < M) {{ n += 1; if (n == 40) {{ wait e[3]; }} }} {GIVE}"),
        "E-6008",
        "",
    ),
    "sum over a loop": (
        pair(f"mutable s32 n = 0; foreach {{k}} in [M] {{ n += 2; if (n == 300) {{ wait e[3]; }} }} {GIVE}"),
        "E-6008",
        "",
    ),
    "list of each thread": (
        pair(
            "s[0].at(t) = 1.0f; if (list.at(t) < 1000000) { s[1].at(t) = 2.0f; } trigger e[0];",
            "wait e[0]; y.at(t) = s[1].at(t);",
            params=f"global s32 [K] list, {Y}",
        ),
        "E-6001",
        "= 1000000",
    ),
    "place in a list that a list gives": (
        LISTED.format(give="if (tasks.at(task & 15) != 99999) { trigger e; }", take="wait e;"),
        "E-6008",
        "= 99999",
    ),
    "count that a list gives": (
        LISTED.format(give="foreach {q} in [task] { if (q == 50) { wait e; } } trigger e;", take="wait e;"),
        "E-6008",
        "= 51",
    ),
    "one block of a plane": (
        pair("s[0].at(t) = 1.0f; if (b != 33 || c != 44) { trigger e[0]; }", params=f"{X}, {Y}", grid="M, K"),
        "E-6008",
        "block (33, 44, 0)",
    ),
    "slot by a quotient": (CHOSEN.format(slot="M / 4096", waited="wait e[1];"), "E-6010", "M = 8192"),
    "slot of a list": (
        LISTED.format(give="trigger e;", take="wait e;").replace(" s;", " s[4];").replace(" s.at", " s[task & 7].at"),
        "E-6010",
        "= 4",
    ),
    "element beyond the buffer": (pair(f"if (t < N) {{ s[3].at(t + N / 1000) = 1.0f; }} {GIVE}"), "E-6010", "N = 1000"),
    "element of a loop": (
        pair(f"foreach {{k}} in [M] {{ if (t == 0) s[3].at(k) = 1.0f; }} {GIVE}"),
        "E-6010",
        "M = 129",
    ),
    "slot that a size chooses for one role": (
        pair("s[(M / 3000) & 1].at(t) = 1.0f; trigger e[0];", f"{USE}"),
        "E-60",
        "M = 3000",
    ),
    "two sizes that are large together": (guarded("M < 70000 || K < 80000 || N < 9"), "E-6008", "M = 70000, K = 80000"),
    "one lane and a size": (
        pair(
            "s[0].at(t) = 1.0f; if (t != 5 || M < 30000) { s[1].at(t) = 1.0f; } trigger e[0];",
            "wait e[0]; y.at(t) = s[1].at(127 - t);",
        ),
        "E-60",
        "M = 30000",
    ),
    "all lanes of the last warp": (
        pair("if (t < 96 || t + N < 20000) { s[0].at(t) = 1.0f; } trigger e[0];"),
        "E-60",
        "",
    ),
    "some of the lanes": (pair("if (t + N < 100100) { s[0].at(t) = 1.0f; } trigger e[0];"), "E-60", ""),
}


@pytest.mark.parametrize("level", ["hw", "tile"])
@pytest.mark.parametrize("name", FAULTY)
def test_fault_that_few_inputs_show_is_found_with_its_inputs(name: str, level: str) -> None:
    text, code, inputs = FAULTY[name]
    found = verdict(text, level)
    assert found.outcome == "fault", found
    (diagnostic,) = found.diagnostics()
    assert diagnostic.code.startswith(code), diagnostic.render()
    assert inputs in diagnostic.render()


RIGHT = {
    "element of a loop inside the buffer": pair(
        f"foreach {{k}} in [M] {{ if (t == 0 && k < 128) s[3].at(k) = 1.0f; }} {GIVE}"
    ),
    "place that a loop keeps inside": pair(
        f"foreach {{k}} in [cdiv(M, 64)] {{ if (k * 64 + t < M && M <= 128) s[3].at(t) = 1.0f; }} {GIVE}"
    ),
    "side that a peeled iteration excludes": pair(
        "mutable u32 n = 0; foreach {turn} in [turns] { if (trips > 0) { n = n + 1; } "
        f"foreach {{k}} in [trips - 1] {{ if (n > 0) {{ s[3].at(t) = 1.0f; }} n = n + 1; }} }} {GIVE}",
        params=f"{X}, {Y}, int turns, int trips",
    ),
    "counter that goes up": pair(
        f"mutable s32 n = 0; foreach {{k}} in [M] {{ if (t == 0) s[n % 4].at(t) = 1.0f; n += 3; }} {GIVE}"
    ),
    "threshold on both sides alike": pair(
        BRANCH.format("M > 1000"), "if (M > 1000) { wait e[0]; } else { wait e[1]; }"
    ),
    "both sides trigger": pair("s[0].at(t) = 1.0f; if (M * K == 1763) { trigger e[0]; } else { trigger e[0]; }"),
    "slot by a conditional, waited for": CHOSEN.format(slot="M == 4000 ? 1 : 0", waited="wait e[1];"),
    "slot by a minimum, waited for": CHOSEN.format(slot="__min(M / 100, 1)", waited="wait e[1];"),
    "count of both roles": ring("steps = cdiv(K, 64);"),
    "count that takes a size twice": ring("steps = M == 777 ? cdiv(K, 64) : (K + 63) / 64;"),
    "task in both roles": LISTED.format(give="if (task < 1000000) { trigger e; } else { trigger e; }", take="wait e;"),
    "side that cannot be": pair(f"if (M < 1) {{ wait e[3]; }} {GIVE}"),
    "side that cannot be behind another": pair(f"if (M < 100) {{ if (M > 200) {{ wait e[3]; }} }} {GIVE}"),
    "side that a loop excludes": ring("steps = cdiv(K, 64);", "if (k * 64 >= K) { wait full.at(k + 1); }"),
    "side that the grid excludes": pair(
        f"if (b * 16 >= M) {{ wait e[3]; }} {GIVE}", params=f"{X}, {Y}", grid="cdiv(M, 16), 1"
    ),
    "large size, short loops": pair(f"if (N == 1000000) {{ {GIVE} }} else {{ {GIVE} }}"),
}


@pytest.mark.parametrize("level", ["hw", "tile"])
@pytest.mark.parametrize("name", RIGHT)
def test_right_program_is_proved(name: str, level: str) -> None:
    found = verdict(RIGHT[name], level)
    assert found.proved, [str(found), *(d.render() for d in found)]


ASSERTED = 'assert(N < 1000000, "so large is never asked for"); parallel'


def test_what_is_asserted_at_host_level_need_not_be_followed() -> None:
    assert verdict(guarded("N < 1000000").replace("parallel", ASSERTED, 1)).proved
    assert verdict(guarded("N < 999999").replace("parallel", ASSERTED, 1)).outcome == "fault"


UNDECIDED = {
    "call that only a product leads to": ("if (M * K == 1763) { call g(); }", "`g`"),
    "place that nothing bounds": ("if (t < N) { s[(M % 1000) * (M % 1000) % 4 + 2].at(t) = 1.0f; }", "place"),
    "square root that is not whole": ("if (M * M == 7) { wait e[3]; }", "leads into this branch"),
    "curve": ("if (M * M * M + K * K == 1000003 * N + 29) { wait e[3]; }", "leads into this branch"),
    "loop that would be too long": ("foreach {k} in [M] { if (k == 150000) { wait e[3]; } }", "leads into this branch"),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_side_without_input_is_not_decided_and_named(name: str) -> None:
    """Not all of these sides can be reached; that nothing shows it is said, with the place."""
    what, reason = UNDECIDED[name]
    found = verdict("__device__ void g() { __syncthreads(); }" + pair(f"{what}\n{GIVE}"))
    assert found.outcome == "undecided" and reason in found.reason, found
    assert found.span is not None and found.span.line == 7
    (warning,) = found.diagnostics()
    assert warning.code == "W-6000"


def test_small_budget_is_no_excuse() -> None:
    """The sides of decisions are followed even where the budget ends before all combinations of sizes."""
    found = verdict(FAULTY["conjunction"][0], options=Options(steps=1, runs=1))
    assert found.outcome == "fault", found


# ------------------------------------------------------------------------------------------------ what shows only later
RING = """
__co__ void f(global f32 [K, 128] x, global f32 [K, 128] y{params}) {{
  parallel b by 1 : block {{
    shared f32 [128] s;
    shared event full;
    shared event empty = ready;
    parallel p by 2 : group-4, t by 128 : thread {{
      inthreads.async (p == 0) {{
        foreach {{k}} in [{count}] {{ wait empty; s.at(t) = x.at(k, t); trigger full; }}
      }}
      inthreads.async (p == 1) {{
        foreach {{k}} in [{count}] {{ wait full; y.at(k, t) = s.at(127 - t); if ({condition}) {{ trigger empty; }} }}
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize("level", ["hw", "tile"])
@pytest.mark.parametrize(
    ("condition", "params", "count"),
    [
        ("(n & 255) != 171", ", int n", "K"),
        ("n % 97 != 13 || n < 5000", ", int n", "K"),
        ("k * k != 2500", "", "K"),
        ("k != 6", "", "K"),
        ("n * m * K != 3003", ", int n, int m", "K"),
        ("(n & 255) != 171", ", int n, global s32 [1] trips", "trips.at(0)"),
    ],
)
def test_side_that_harms_only_later_iterations_is_followed_in_a_longer_run(
    condition: str, params: str, count: str, level: str
) -> None:
    """The first inputs that lead to the side do so in the last iteration, behind which nothing waits any more."""
    found = verdict(RING.format(condition=condition, params=params, count=count), level)
    assert found.outcome == "fault"
    assert found.found[0].code == "E-6008"
    right = RING.format(condition=f"k >= 0 || {condition}", params=params, count=count)
    assert verdict(right, level).outcome == "proved"
