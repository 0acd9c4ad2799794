"""Pass `fences`: proxy fences exactly where ordinary stores meet the async proxy (P1 to P4)."""

from __future__ import annotations

import pytest

from croq.ir.hw import ProxyFence
from croq.ir.scalar import For, If
from tests.passes.helpers import every, lower, names, program, reported, role, warpgroups

PARAMS = "global f16 [M, K] x, global f32 [C, 64] y"
TILES = """
shared f16 [64, 64] a;
shared f16 [64, 64] b;
shared f32 [64, 64] o;
"""
WRITE = "a.at(t % 64, 0) = __to<f16>(1.0f);"
MMA = "mma.row.row acc, a, b;"
ACC = "acc = mma.fill.f32 0.0f;"
LOAD = "tma.load.swiz<128> x.subspan(64, 64).at(0, 0) => a;"
STORE = "tma.copy o => y.subspan(64, 64).at(0, 0);"
SEEN = ("fence", "cta.sync", "named", "warp.sync", "mbarrier.arrive", "wgmma.fence", "store_element", "copy_tile",
        "bulk_tensor", "reg.store", "elect")  # fmt: skip


def trace(body: str, declared: str = TILES, count: int = 1, label: str = "") -> list[str]:
    """Stores, barriers, fences and what the async proxy does, in program order, behind the prologue."""
    kernel = lower(warpgroups(count, body, declared, params=PARAMS))
    scope = role(kernel, label) if label else kernel.body.ops[-1]
    return names(scope, *SEEN)


def fences(body: str, declared: str = TILES, count: int = 1) -> int:
    return len(every(lower(warpgroups(count, body, declared, params=PARAMS)), ProxyFence))


# --------------------------------------------------------------------------------------------------------------- P1, P4
@pytest.mark.parametrize(
    "body",
    [
        "o.at(0, t % 64) = 1.0f; sync.shared; y.at(0, t % 64) = o.at(0, t % 64);",
        f"{LOAD} {ACC} {MMA} mma.store acc, y.subspan(64, 64).at(0, 0);",
        f"{LOAD} sync.shared; y.at(0, 0) = __to<f32>(a.at(0, 0));",
        f"{ACC} {MMA} sync.shared; y.at(0, 0) = 1.0f;",
    ],
    ids=["ordinary-only", "tma-and-mma", "tma-and-loads", "mma-only"],
)
def test_none_where_the_proxies_do_not_meet(body: str) -> None:
    assert fences(body) == 0


# ------------------------------------------------------------------------------------------------------------------- P2
def test_a_fence_before_the_barrier_that_a_store_waits_at() -> None:
    assert trace(f"{ACC} {MMA} mma.store acc, o; {STORE}") == [
        "wgmma.fence", "reg.store", "fence.proxy_async", "cta.sync", "elect", "bulk_tensor.store",
    ]  # fmt: skip


def test_a_fence_after_a_cooperative_copy() -> None:
    assert trace(f"dma.copy x.subspan(64, 64).at(0, 0) => a; {ACC} {MMA}") == [
        "copy_tile", "fence.proxy_async", "cta.sync", "wgmma.fence",
    ]  # fmt: skip


def test_a_fence_before_an_arrival() -> None:
    body = f"""
    inthreads.async (p == 0) {{ {WRITE} trigger full; }}
    inthreads.async (p == 1) {{ {ACC} wait full; {MMA} mma.store acc, y.subspan(64, 64).at(0, 0); }}
    """
    declared = TILES + "shared event full;"
    assert trace(body, declared, 2, "p == 0") == ["store_element", "fence.proxy_async", "elect", "mbarrier.arrive"]
    assert fences(body, declared, 2) == 1


def test_a_fence_before_a_named_arrival_but_not_before_a_wait() -> None:
    body = f"""
    inthreads.async (p == 0) {{ foreach i in [M] {{ {WRITE} wait free; trigger full; }} }}
    inthreads.async (p == 1) {{ {ACC} foreach i in [M] {{ wait full; {MMA} trigger free; }} }}
    """
    found = trace(body, TILES + "shared event full = ready; shared event free = ready;", 2, "p == 0")
    assert found == ["store_element", "named_barrier.sync", "fence.proxy_async", "named_barrier.arrive"]


def test_one_fence_for_many_stores() -> None:
    found = trace(f"{WRITE} {WRITE} sync.shared; sync.shared; {ACC} {MMA}")
    assert found == ["store_element", "store_element", "fence.proxy_async", "cta.sync", "wgmma.fence"]


def test_a_single_thread_fences_before_it_starts_the_copy() -> None:
    body = "shared f32 [4, 32] s; s.at(0, 0) = 1.0f; tma.copy s => y.subspan(4, 32).at(0, 0);"
    assert names(lower(program(body, params=PARAMS)), *SEEN) == [
        "store_element", "fence.proxy_async", "elect", "bulk_tensor.store",
    ]  # fmt: skip


def test_a_warp_alone() -> None:
    body = f"inthreads.async (t < 32) {{ o.at(0, t) = 1.0f; {STORE} }}"
    assert trace(body) == ["store_element", "fence.proxy_async", "warp.sync", "elect", "bulk_tensor.store"]


def test_a_load_over_what_was_stored() -> None:
    """The copy engine's write must not overtake the ordinary one before it."""
    assert trace(f"{WRITE} {LOAD} {ACC} {MMA}")[:4] == ["store_element", "fence.proxy_async", "cta.sync", "elect"]


# ----------------------------------------------------------------------------------------------- branches, loops, roles
def test_a_store_on_one_path_is_enough() -> None:
    assert fences(f"if (M > 3) {{ {WRITE} }} sync.shared; {ACC} {MMA}") == 1


def test_a_branch_that_has_fenced_does_not_fence_again() -> None:
    kernel = lower(
        warpgroups(1, f"if (M > 3) {{ {WRITE} sync.shared; }} sync.shared; {ACC} {MMA}", TILES, params=PARAMS)
    )
    assert len(every(kernel, ProxyFence)) == 1
    assert len(every(every(kernel, If)[0], ProxyFence)) == 1


def test_what_an_iteration_leaves_is_fenced_in_the_next() -> None:
    kernel = lower(warpgroups(1, f"{ACC} foreach i in [M] {{ sync.shared; {MMA} {WRITE} }}", TILES, params=PARAMS))
    (loop,) = every(kernel, For)
    assert names(loop, "fence", "cta.sync", "wgmma.issue")[:3] == ["fence.proxy_async", "cta.sync", "wgmma.issue"]


def test_an_iteration_that_has_fenced_leaves_nothing() -> None:
    assert fences(f"{ACC} foreach i in [M] {{ {WRITE} sync.shared; {MMA} }} sync.shared; {MMA}") == 1


def test_what_a_break_leaves_is_fenced_behind_the_loop() -> None:
    body = f"{ACC} foreach i in [M] {{ {WRITE} if (i > 3) {{ break; }} sync.shared; }} sync.shared; {MMA}"
    kernel = lower(warpgroups(1, body, TILES, params=PARAMS))
    (loop,) = every(kernel, For)
    assert (len(every(loop, ProxyFence)), len(every(kernel, ProxyFence))) == (1, 2)


def test_what_a_continue_leaves_is_fenced_in_the_next_iteration() -> None:
    body = f"{ACC} foreach i in [M] {{ sync.shared; {MMA} if (i > 3) {{ {WRITE} continue; }} }}"
    (loop,) = every(lower(warpgroups(1, body, TILES, params=PARAMS)), For)
    assert names(loop, "fence", "cta.sync")[:2] == ["fence.proxy_async", "cta.sync"]


def test_a_role_does_not_fence_for_another() -> None:
    body = f"""
    inthreads.async (p == 0) {{ {WRITE} }}
    inthreads.async (p == 1) {{ {ACC} trigger done; }}
    inthreads.async (p == 2) {{ wait done; {MMA} }}
    """.replace(ACC, "").replace(MMA, f"{ACC} {MMA}")
    assert fences(body, TILES + "shared event done;", 3) == 0


# ------------------------------------------------------------------------------------------------------------------- P3
def test_an_operand_that_the_warpgroup_wrote_itself() -> None:
    assert trace(f"{ACC} {WRITE} {MMA}") == ["store_element", "fence.proxy_async", "cta.sync", "wgmma.fence"]


def test_each_warpgroup_waits_for_itself() -> None:
    body = f"inthreads.async (p > 0) {{ {ACC} {WRITE} {MMA} }}"
    found = trace(body, TILES, 3)
    assert found == ["store_element", "fence.proxy_async", "named_barrier.sync", "named_barrier.sync", "wgmma.fence"]


def test_global_data_that_is_stored_and_loaded_by_tma() -> None:
    """P5."""
    text = """__co__ void f(global f32 [N, 64] y) {
      parallel b by 1 : block {
        parallel t by 128 : thread {
          y.at(0, t % 64) = 1.0f; //!
          s = tma.load y.subspan(8, 64).at(0, 0) => shared;
        }
      }
    }"""
    assert reported(text)[0] == "E-2108"
