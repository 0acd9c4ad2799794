"""Pass `events`: what each event becomes, and its numbers (B1 to B7)."""

from __future__ import annotations

from typing import Any

import pytest

from croq.ir.hw import (
    BulkTensorLoad,
    CtaSync,
    Elect,
    MbarrierArrive,
    MbarrierExpectTx,
    MbarrierInit,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
)
from croq.ir.objects import Kernel
from croq.ir.scalar import Binary, For, If, VarDeclare, VarGet
from tests.passes.helpers import codes, event, every, literal, lower, names, program, reported, role, warpgroups

A = "global f16 [M, K] a, global f32 [M, 64] y"
RING = """
shared f16 [64, 64] s[2];
shared event full[2];
shared event empty[2] = ready;
"""
LOAD = "l = tma.load.async a.subspan(64, 64).at(0, 0) => s;"


def facts(text: str, name: str, *, after: str | None = None) -> dict[str, Any]:
    found = event(lower(text, after=after), name)
    return {
        "lowering": found.lowering,
        "arrivals": found.arrivals,
        "threads": found.barrier_threads,
        "tx": found.tx_bytes,
    }


def handoff(waiter: str, trigger: str, declared: str = "shared event e = ready;", count: int = 3) -> str:
    return warpgroups(
        count,
        f"inthreads.async ({waiter}) {{ foreach i in [M] {{ wait e; }} }}\n"
        f"inthreads.async ({trigger}) {{ foreach i in [M] {{ trigger e; }} }}",
        declared,
        params=A,
    )


def parity_of(wait: MbarrierWait) -> Any:
    """The constant, or the name of the variable that holds the parity."""
    op = wait.parity.op
    return op.var.name if isinstance(op, VarGet) else literal(wait.parity)


# ------------------------------------------------------------------------------------------------------------------- B1
def test_joined_loads_complete_a_generation() -> None:
    body = """
    inthreads.async (p == 0) {
      foreach k in [K] {
        wait empty.at(k);
        x = tma.load.async a.subspan(64, 64).at(0, k) => s[k % 2];
        z = tma.load.async a.subspan(64, 64).at(1, k) => u[k % 2];
        trigger full.at(k) after x, z;
      }
    }
    inthreads.async (p == 1) { foreach k in [K] { wait full.at(k); trigger empty.at(k); } }
    """
    text = warpgroups(2, body, RING + "shared f16 [64, 64] u[2];", params=A)
    assert facts(text, "full") == {"lowering": "mbarrier", "arrivals": 1, "threads": 0, "tx": 2 * 64 * 64 * 2}
    kernel = lower(text)
    producer = names(role(kernel, "p == 0"), "mbarrier.", "bulk_tensor")
    assert producer == ["mbarrier.wait", "mbarrier.expect_tx", "bulk_tensor.load", "bulk_tensor.load"]
    (expect,) = every(kernel, MbarrierExpectTx)
    assert expect.bytes == 2 * 64 * 64 * 2 and expect.event is event(kernel, "full")
    assert {load.slot for load in every(kernel, BulkTensorLoad)} == {expect.slot}


def test_several_triggers_after_loads_are_one_generation_each() -> None:
    body = f"""
    inthreads.async (p == 0) {{
      {LOAD} trigger e after l;
      wait free;
      m = tma.load.async a.subspan(32, 64).at(0, 0) => s.subspan(32, 64).at(0, 0); trigger e after m;
    }}
    inthreads.async (p == 1) {{ wait e; trigger free; wait e; }}
    """
    kernel = lower(warpgroups(2, body, "shared f16 [64, 64] s; shared event e; shared event free;", params=A))
    assert [op.bytes for op in every(kernel, MbarrierExpectTx)] == [64 * 64 * 2, 32 * 64 * 2]
    assert (event(kernel, "e").arrivals, event(kernel, "e").tx_bytes) == (1, 64 * 64 * 2)


def test_bytes_out_of_range_count() -> None:
    """Whether a tile overhangs is only known at launch: the whole box counts."""
    body = f"inthreads.async (p == 0) {{ {LOAD.replace('.at(0, 0)', '.at(M, 0)')} trigger e after l; wait e; }}"
    assert facts(warpgroups(1, body, "shared f16 [64, 64] s; shared event e;", params=A), "e")["tx"] == 8192


def test_the_order_of_a_later_trigger_is_computed_at_the_load() -> None:
    body = """
    inthreads.async (p == 0) {
      mutable u32 n = 0;
      foreach k in [K] {
        l = tma.load.async a.subspan(64, 64).at(0, k) => s[0];
        order = n * 2 + 1;
        trigger full.at(order) after l;
        n = n + 1;
      }
    }
    inthreads.async (p == 1) { wait full.at(1); }
    """
    kernel = lower(warpgroups(2, body, RING, params=A))
    (load,) = every(kernel, BulkTensorLoad)
    assert load.slot is not None and isinstance(load.slot.op, Binary) and load.slot.op.op == "mod"


@pytest.mark.parametrize("order", ["list.at(0)", "n"])
def test_an_order_that_only_the_time_after_the_load_knows(order: str) -> None:
    body = f"""
    inthreads.async (p == 0) {{
      mutable u32 n = 0;
      l = tma.load.async a.subspan(64, 64).at(0, 0) => s[0];
      n = n + 1;
      order = {order};
      trigger full.at(order) after l; //!
    }}
    inthreads.async (p == 1) {{ wait full.at(1); }}
    """
    text = warpgroups(2, body, RING, params=A + ", global s32 [4] list")
    assert reported(text.replace("shared event empty[2] = ready;", ""))[0] == "E-2303"


def test_loads_and_threads_cannot_complete_one_event() -> None:
    body = f"inthreads.async (p == 0) {{ {LOAD} trigger e after l;\n trigger e; //!\n wait e; }}"
    assert reported(warpgroups(1, body, "shared f16 [64, 64] s; shared event e;", params=A))[0] == "E-1026"


def test_more_bytes_than_a_barrier_counts() -> None:
    loads = "".join(f"l{n} = tma.load.async a.subspan(128, 256).at(0, 0) => s;\n" for n in range(17))
    body = f"inthreads.async (p == 0) {{ {loads} trigger e after {', '.join(f'l{n}' for n in range(17))}; wait e; }}"
    declared = "shared f16 [128, 256] s;\n shared event e; //!\n"
    assert reported(warpgroups(1, body, declared, params=A))[0] == "E-2302"


# ------------------------------------------------------------------------------------------------------------ B2 and B3
def test_a_named_barrier() -> None:
    text = handoff("p == 0 && t < 32", "p > 0")
    assert facts(text, "e") == {"lowering": "named_barrier", "arrivals": 256, "threads": 288, "tx": 0}
    kernel = lower(text)
    (sync,) = every(kernel, NamedBarrierSync)
    (arrive,) = every(kernel, NamedBarrierArrive)
    assert (sync.barrier, sync.count) == (arrive.barrier, arrive.count) == (14, 288)
    assert not every(kernel, MbarrierInit)


def test_the_first_wait_of_a_path_passes_without_an_instruction() -> None:
    once = warpgroups(
        2, "inthreads.async (p == 0) { wait e; } inthreads.async (p == 1) { trigger e; }", "shared event e = ready;"
    )
    assert not every(lower(once), NamedBarrierSync)
    kernel = lower(handoff("p == 0", "p == 1"))
    (guard,) = [op for op in every(kernel, If) if every(op, NamedBarrierSync)]
    assert isinstance(guard.condition.op, Binary) and guard.condition.op.op == "ne"


@pytest.mark.parametrize(
    ("waiter", "trigger", "declared", "arrivals", "why"),
    [
        ("p == 0", "p == 1", "shared event e;", 4, "starts pending"),
        ("p == 0", "p >= 0", "shared event e = ready;", 12, "both waits and triggers"),
        ("p == 0 && t == 0", "p == 1", "shared event e = ready;", 4, "part of a warp"),
        ("p == 0", "p == 1 && t < 40", "shared event e = ready;", 40, "part of a warp"),
        ("p == 0", "p == 1 && t < 64", "shared event e = ready;", 2, None),
    ],
)
def test_what_keeps_an_event_from_being_a_named_barrier(
    waiter: str, trigger: str, declared: str, arrivals: int, why: str | None
) -> None:
    """B3, with the counts of B4: a warp, or a thread where a site does not fill its warps."""
    found = event(lower(handoff(waiter, trigger, declared)), "e")
    if why is None:
        assert found.lowering == "named_barrier"
    else:
        assert (found.lowering, found.arrivals) == ("mbarrier", arrivals) and why in found.why


def test_waiters_that_differ_are_no_named_barrier() -> None:
    body = """
    inthreads.async (p == 0) { foreach i in [M] { if (t < 32) { wait e; } else { wait e; } } }
    inthreads.async (p == 1) { foreach i in [M] { trigger e; } }
    """
    assert facts(warpgroups(2, body, "shared event e = ready;", params=A), "e")["lowering"] == "mbarrier"


def test_waiters_known_at_run_time_only() -> None:
    body = "inthreads.async (p == 0) { if (y.at(t, 0) > 0.0f) { wait e; } } inthreads.async (p == 1) { trigger e; }"
    kernel = lower(warpgroups(2, body, "shared event e = ready;", params=A))
    assert (event(kernel, "e").lowering, event(kernel, "e").waiters) == ("mbarrier", None)
    assert len(every(kernel, MbarrierInit)) == 1


def test_events_leave_barrier_ids_to_thread_sets() -> None:
    """There are 14 ids; events take 8 of them and become mbarriers then."""
    declared = "".join(f"shared event e{n} = ready;\n" for n in range(10))
    waits = "".join(f"wait e{n}; " for n in range(10))
    triggers = waits.replace("wait", "trigger")
    body = f"inthreads.async (p == 0) {{ foreach i in [M] {{ {waits} }} inthreads (t < 3) {{ }} }}\n"
    body += f"inthreads.async (p == 1) {{ foreach i in [M] {{ {triggers} }} }}"
    kernel = lower(warpgroups(2, body, declared, params=A))
    ids = [e.barrier_id for e in kernel.events]
    assert ids == [14, 13, 12, 11, 10, 9, 8, 7, None, None]
    assert "no named barrier id is left" in kernel.events[-1].why
    assert [op.barrier for op in every(kernel, NamedBarrierSync) if op.event is None] == [1]


# ------------------------------------------------------------------------------------------------------------------- B4
def test_arrivals_are_elected_by_warp() -> None:
    kernel = lower(handoff("p == 0", "p > 0", "shared event e;"))
    assert event(kernel, "e").arrivals == 8
    (elected,) = [op for op in every(kernel, Elect) if every(op, MbarrierArrive)]
    assert elected.scope == "warp" and str(elected.threads) == "{128..384}"


def test_a_site_of_part_of_a_warp_makes_all_arrive_by_thread() -> None:
    body = """
    inthreads.async (p == 0) { wait e; }
    inthreads.async (p == 1) { trigger e; }
    inthreads.async (p == 2 && t < 8) { trigger e; }
    """
    kernel = lower(warpgroups(3, body, "shared event e;"))
    assert event(kernel, "e").arrivals == 128 + 8
    assert not [op for op in every(kernel, Elect) if every(op, MbarrierArrive)]


def test_a_trigger_at_cta_level_is_one_arrival() -> None:
    body = "shared event e; trigger e; parallel t by 64 : thread { wait e; }"
    assert facts(program(body), "e")["arrivals"] == 1


def test_a_trigger_by_unknown_threads() -> None:
    body = "inthreads.async (p == 0) { wait e; }\n if (y.at(t, 0) > 0.5f) {\n trigger e; //!\n }"
    assert reported(warpgroups(1, body, "shared event e;", params=A))[0] == "E-2101"


def test_an_event_that_no_thread_triggers() -> None:
    """The trigger stands in a role of no thread: the wait would never end."""
    body = "inthreads.async (p == 5) { trigger e; }\n inthreads.async (p == 0) { wait e; }"
    text = warpgroups(2, body, "shared event e;", params=A)
    assert codes(text) == ["W-2102", "E-2301"]
    assert codes(text.replace("event e;", "event e = ready;")) == ["W-2102"]  # its only wait passes


# ------------------------------------------------------------------------------------------------------------------- B5
@pytest.mark.parametrize(("slots", "operations"), [(1, ["and"]), (2, ["div", "and"]), (3, [])])
def test_slot_and_parity_of_an_order(slots: int, operations: list[str]) -> None:
    body = """
    inthreads.async (p == 0) { mutable u32 n = 0; foreach i in [M] { wait e.at(n); wait f.at(n); n = n + 1; } }
    inthreads.async (p == 1) { mutable u32 m = 0; foreach i in [M] { trigger e.at(m); trigger f.at(m++); } }
    """
    kernel = lower(warpgroups(2, body, f"shared event e[{slots}]; shared event f[{slots}] = ready;", params=A))
    pending, ready = every(role(kernel, "p == 0"), MbarrierWait)
    assert _chain(pending.parity) == operations
    assert _chain(ready.parity) == [*operations, "xor"]
    assert (pending.slot is None) == (slots == 1)
    assert all(op.count == 4 for op in every(kernel, MbarrierInit))


def _chain(value: Any) -> list[str]:
    """Operations that made the value from a variable, first to last; a ring of 3 has its own (pass `counters`)."""
    found: list[str] = []
    while isinstance(value.op, Binary):
        found.insert(0, value.op.op)
        value = value.op.left
    return found


# ------------------------------------------------------------------------------------------------------------------- B6
def implicit(body: str, declared: str = "shared event e; shared event f;", count: int = 2) -> Kernel:
    return lower(warpgroups(count, body + " inthreads.async (p == 1) { trigger e; trigger e; }", declared, params=A))


def test_a_single_wait_needs_no_variable() -> None:
    kernel = implicit("inthreads.async (p == 0) { wait e; }")
    assert [parity_of(op) for op in every(kernel, MbarrierWait)] == [0] and not every(kernel, VarDeclare)


def test_a_single_wait_for_a_ready_event_passes_without_an_instruction() -> None:
    kernel = implicit("inthreads.async (p == 0 && t < 7) { wait e; }", "shared event e = ready;")
    assert event(kernel, "e").lowering == "mbarrier" and not every(kernel, MbarrierWait)


def test_the_phase_of_a_ready_event_starts_on_the_other_parity() -> None:
    kernel = implicit("inthreads.async (p == 0 && t < 7) { wait e; wait e; }", "shared event e = ready;")
    assert [literal(op.value) for op in every(kernel, VarDeclare)] == [1]


@pytest.mark.parametrize("body", ["foreach i in [M] { wait e; }", "wait e; wait e;", "if (M > 3) { wait e; } wait e;"])
def test_a_path_counts_its_waits(body: str) -> None:
    kernel = implicit(f"inthreads.async (p == 0) {{ {body} }}")
    section = role(kernel, "p == 0")
    assert {parity_of(op) for op in every(section, MbarrierWait)} == {"e_phase"}
    assert [literal(op.value) for op in section.body.ops if isinstance(op, VarDeclare)] == [0]
    assert len(every(section, VarGet)) == len(every(section, MbarrierWait))


def test_paths_of_different_threads_count_on_their_own() -> None:
    kernel = implicit(
        "inthreads.async (p == 0) { wait e; wait e; } inthreads.async (p == 2) { wait e; wait e; }", count=3
    )
    assert sorted(v.name for v in kernel.variables) == ["e_phase", "e_phase_2"]


@pytest.mark.parametrize(
    "body",
    [
        "inthreads.async (p == 0) { wait e; } inthreads.async (p == 0) { wait e; }",
        "inthreads.async (p == 0) { wait e; } inthreads.async (p == 0 && t < 32) { wait e; }",
        "wait e; inthreads.async (p == 0) { wait e; }",
    ],
)
def test_roles_that_share_threads_count_together(body: str) -> None:
    """The second wait of a thread is for the next generation, whatever role it stands in."""
    kernel = implicit(body)
    assert [parity_of(op) for op in every(kernel, MbarrierWait)] == ["e_phase"] * 2
    assert [op.var.name for op in kernel.body.ops if isinstance(op, VarDeclare)] == ["e_phase"]


def test_a_role_in_a_loop_of_the_cta_keeps_its_phase() -> None:
    roles = "inthreads.async (p == 1) { wait f; trigger e; } inthreads.async (p == 0) { wait e; trigger f; }"
    body = f"foreach i in [4] {{ parallel p by 2 : group-4, t by 128 : thread {{ {roles} }} }}"
    kernel = lower(program(f"shared event e; shared event f = ready;\n{body}", params=A))
    assert {op.var.name for op in kernel.body.ops if isinstance(op, VarDeclare)} == {"e_phase", "f_begun"}
    assert not every(every(kernel, For)[0], VarDeclare)


def test_slots_by_number_keep_a_bit_each() -> None:
    body = """
    inthreads.async (p == 0) { foreach i in [M] { wait e[i % 4]; } }
    inthreads.async (p == 1) { foreach i in [M] { trigger e[i % 4]; } }
    """
    kernel = lower(warpgroups(2, body, "shared event e[4] = ready;", params=A))
    (wait,) = every(kernel, MbarrierWait)
    assert _chain(wait.parity) == ["shr", "and"]
    (declared,) = every(kernel, VarDeclare)
    assert literal(declared.value) == 0b1111


def test_more_slots_than_bits() -> None:
    body = """
    inthreads.async (p == 0) { foreach i in [40] {
      wait e[i]; //!
    } }
    inthreads.async (p == 1) { foreach i in [40] { trigger e[i]; } }
    """
    assert reported(warpgroups(2, body, "shared event e[40];", params=A))[0] == "E-2305"


def test_slots_that_different_numbers_of_threads_trigger() -> None:
    body = """
    inthreads.async (p == 0) { wait e[0]; wait e[1]; }
    inthreads.async (p == 1) { trigger e[0]; }
    inthreads.async (p > 0) { trigger e[1]; }
    """
    assert reported(warpgroups(3, body, "shared event e[2]; //!\n", params=A))[0] == "E-2304"


# ------------------------------------------------------------------------------------------------------------------- B7
SYNC = "tma.load a.subspan(64, 64).at(0, 0) => s;"
USE = "y.at(t, 0) = __to<f32>(s.at(0, 0));"


def loading(body: str) -> Kernel:
    return lower(warpgroups(1, body, "shared f16 [64, 64] s;", params=A))


def test_a_synchronous_load_gets_a_barrier_and_waits() -> None:
    kernel = loading(SYNC)
    assert names(kernel, "mbarrier", "bulk_tensor", "cta") == [
        "mbarrier.init", "mbarrier.init_fence", "cta.sync", "mbarrier.expect_tx", "bulk_tensor.load", "mbarrier.wait",
    ]  # fmt: skip
    assert [(e.name, e.arrivals, e.tx_bytes) for e in kernel.events] == [("s_full", 1, 8192)]
    assert [parity_of(op) for op in every(kernel, MbarrierWait)] == [0]


def test_any_number_of_waits_for_one_load() -> None:
    """A second wait, or one in a loop, is for the same load: it must not go on to a generation that never comes."""
    kernel = loading(f"{LOAD} wait l; {USE} wait l; foreach i in [M] {{ wait l; }}")
    assert [parity_of(op) for op in every(kernel, MbarrierWait)] == [0, 0, 0] and not kernel.variables


def test_a_load_in_a_loop_counts_loads_not_waits() -> None:
    kernel = loading(f"foreach i in [M] {{ {LOAD} if (i > 1) {{ wait l; }} else {{ wait l; }} {USE} }}")
    assert [parity_of(op) for op in every(kernel, MbarrierWait)] == ["l_full_phase"] * 2
    (declared,) = every(kernel, VarDeclare)
    assert literal(declared.value) == 1  # the first load turns it to 0
    loop = every(kernel, For)[0]
    assert names(loop, "var.set", "bulk_tensor", "mbarrier.wait") == [
        "var.set", "bulk_tensor.load", "mbarrier.wait", "mbarrier.wait",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "barriers"),
    [
        (SYNC, 0),
        (f"{SYNC} {USE} {SYNC}", 1),
        (f"foreach i in [M] {{ {SYNC} {USE} }}", 1),
        (f"s.at(0, t % 64) = __to<f16>(1.0f); {SYNC}", 1),
    ],
)
def test_a_load_over_a_buffer_in_use_waits_for_its_users(body: str, barriers: int) -> None:
    assert len(every(loading(body), CtaSync)) - 1 == barriers  # one is the prologue's


def test_a_future_waited_for_by_a_role() -> None:
    text = program(
        f"shared f16 [64, 64] s; {LOAD} parallel p by 2 : group-4, t by 128 : thread {{"
        " inthreads.async (p == 1) { wait l; y.at(t, 0) = 1.0f; } }",
        params=A,
    )
    kernel = lower(text)
    assert [str(op.threads) for op in every(kernel, MbarrierWait)] == ["{128..256}"]


def test_a_load_whose_wait_no_thread_runs() -> None:
    body = f"\n{LOAD} //!\n if (p == 7) {{ wait l; }}"
    assert reported(warpgroups(1, body, "shared f16 [64, 64] s;", params=A))[0] == "E-815"


def test_a_load_by_unknown_threads() -> None:
    body = f"if (y.at(t, 0) > 0.5f) {{\n {SYNC} //!\n }}"
    assert reported(warpgroups(1, body, "shared f16 [64, 64] s;", params=A))[0] == "E-2101"


def test_a_load_whose_tile_differs() -> None:
    body = "cid = p;\n tma.load a.subspan(32, 64).at(cid, 0) => s.subspan(32, 64).at(cid, 0); //!"
    assert reported(warpgroups(2, body, "shared f16 [64, 64] s;", params=A))[0] == "E-832"
