"""Control that depends on what threads have stored in shared memory: what a store leaves is known, or chosen."""

from __future__ import annotations

import pytest

from croq.verify import Verdict, verify_protocol
from tests.verify.helpers import kernels

VOTE = """
__co__ void f(global f32 [N] x, global f32 [128] y) {{
  parallel b by 1 : block {{
    shared u32 [4] raised[{words}];
    shared event voted, left[2];
    parallel p by 2 : group-4, t by 128 : thread {{
      inthreads.async (p == 0) {{
        mutable u32 vote = 0;
        if (t % 32 == 0) {{ foreach {{n}} in [{words}] {{ raised[n].at(t / 32) = 0; }} }}
        {begin}
        foreach {{i}} in [cdiv(N, 128)] {{
          vote++;
          if (x.at(i * 128 + t) > 1.0f) raised[vote % {words}].at(t / 32) = vote;
          {between}
          a = raised[vote % {words}].at(0);
          b = raised[vote % {words}].at(1);
          c = raised[vote % {words}].at(2);
          d = raised[vote % {words}].at(3);
          if (a == vote || b == vote || c == vote || d == vote) {{ {way_out} break; }}
        }}
        trigger left[0];
      }}
      inthreads.async (p == 1) {{ wait left[0]; y.at(t) = 1.0f; }}
    }}
  }}
}}
"""
MEET = "trigger voted; wait voted;"

# One thread hands out work: the others learn from shared memory how much there is.
HANDED = """
__co__ void f(global s32 [T] tasks, global f32 [128] y) {{
  parallel b by 1 : block {{
    shared s32 [1] job;
    shared f32 [128] s;
    shared event posted, taken = ready, full, done = ready;
    parallel p by 3 : group-4, t by 128 : thread {{
      inthreads.async (p == 0) {{
        foreach {{k}} in [T] {{
          wait taken;
          if (t == 0) job.at(0) = {posted};
          trigger posted;
        }}
      }}
      inthreads.async (p == 1) {{
        foreach {{k}} in [T] {{
          wait posted;
          count = job.at(0);
          trigger taken;
          foreach {{n}} in [{made}] {{ wait done; s.at(t) = 1.0f; trigger full; }}
        }}
      }}
      inthreads.async (p == 2) {{
        foreach {{k}} in [T] {{
          wait posted;
          count = job.at(0);
          trigger taken;
          foreach {{n}} in [{used}] {{ wait full; y.at(t) = s.at(127 - t); trigger done; }}
        }}
      }}
    }}
  }}
}}
"""

# The verdict must not rest on what a map has found in data.
MAPPED = """
__co__ void f(global f32 [64, 64] x, global f32 [64] y) {{
  parallel b by 1 : block {{
    shared event e;
    parallel p by 1 : group-4, t by 128 : thread {{
      frag f32 [64, 64] a {{0.0f}};
      mutable s32 large = 0;
      trigger e;
      apply {{i, j}} in a.span {{ if (x.at(i, j) > 1.0f) large = 1; }}
      if (large == 1) {{ {cold} }}
      apply {{i, j}} in a.span {{ x.at(i, j) = a.at(i, j); }}
    }}
  }}
}}
"""


def verdict(text: str, level: str) -> Verdict:
    (kernel,) = kernels(text, after="participants" if level == "tile" else None)
    return verify_protocol(kernel, level=level)  # type: ignore[arg-type]


def vote(words: int = 2, begin: str = MEET, between: str = MEET, way_out: str = "") -> str:
    return VOTE.format(words=words, begin=begin, between=between, way_out=way_out)


def handed(posted: str = "tasks.at(k)", made: str = "count", used: str = "count") -> str:
    return HANDED.format(posted=posted, made=made, used=used)


PROVED = {
    "a vote": vote(),
    "work that is handed out": handed(),
    "data decide about registers": MAPPED.format(cold="apply {i, j} in a.span { a.at(i, j) = 1.0f; }"),
}
FAULTS = {
    "one word for two votes": (vote(words=1), "E-6002"),
    "flags that are set while they are cleared": (vote(begin=""), "E-6002"),
    "flags that are read while they are set": (vote(between=""), "E-6001"),
    "a way out that waits for ever": (vote(way_out="wait left[1];"), "E-6008"),
    "more is made than handed out": (handed(made="count + 1"), "E-6008"),
    "more is used than was handed out": (handed(posted="3", used="4"), "E-6008"),
}


@pytest.mark.parametrize("level", ["hw", "tile"])
@pytest.mark.parametrize("name", PROVED)
def test_what_is_ordered_is_proved(name: str, level: str) -> None:
    found = verdict(PROVED[name], level)
    assert found.outcome == "proved", found.reason


@pytest.mark.parametrize("level", ["hw", "tile"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_on_either_side_is_found(name: str, level: str) -> None:
    text, code = FAULTS[name]
    found = verdict(text, level)
    assert [d.code for d in found.found] == [code], (found.outcome, found.reason)


def test_the_store_that_decides_is_named() -> None:
    found = verdict(vote(way_out="wait left[1];"), "hw")
    notes = "\n".join(found.found[0].notes)
    assert "raised[1, 0, stored at 13:" in notes and "by warp 0, time 1] = 1" in notes, notes


@pytest.mark.parametrize("cold", ["wait e;", "foreach {n} in [3] { wait e; }"])
@pytest.mark.parametrize("level", ["hw", "tile"])
def test_synchronisation_that_data_of_a_map_decide_is_not_decided(level: str, cold: str) -> None:
    found = verdict(MAPPED.format(cold=cold), level)
    assert found.outcome == "undecided" and "data that is not followed" in found.reason


# What data decide about may exclude one another: nothing is claimed of it, and no fault made up.
GUARDED = """
__co__ void f(global f32 [128] x, global f32 [128] y) {{
  parallel b by 1 : block {{
    shared f32 [128] s;
    shared event e;
    parallel p by 1 : group-4, t by 128 : thread {{
      frag f32 [64, 64] a;
      {before}
      trigger e; wait e;
      {behind}
    }}
  }}
}}
"""
MUTUAL = {
    "written and read under one condition": (
        "if (x.at(0) > 0.0f) s.at(t) = 1.0f;",
        "if (x.at(0) > 0.0f) y.at(t) = s.at(127 - t);",
    ),
    "written on one of two sides": ("if (x.at(t) > 0.0f) s.at(t) = 1.0f; else s.at(127 - t) = 2.0f;", ""),
    "a fragment that is filled under a condition": (
        "if (x.at(0) > 0.0f) { apply {i, j} in a.span { a.at(i, j) = 1.0f; } }",
        "apply {i, j} in a.span { y.at(i) = a.at(i, j); }",
    ),
}


@pytest.mark.parametrize("level", ["hw", "tile"])
@pytest.mark.parametrize("name", MUTUAL)
def test_what_data_may_exclude_is_not_decided(name: str, level: str) -> None:
    before, behind = MUTUAL[name]
    found = verdict(GUARDED.format(before=before, behind=behind), level)
    assert found.outcome == "undecided" and "data decide" in found.reason, (found.outcome, found.reason)


@pytest.mark.parametrize("level", ["hw", "tile"])
def test_what_nothing_has_written_is_a_fault_under_a_condition_too(level: str) -> None:
    found = verdict(GUARDED.format(before="", behind="if (x.at(0) > 0.0f) y.at(t) = s.at(127 - t);"), level)
    assert [d.code for d in found.found] == ["E-6009"], (found.outcome, found.reason)
