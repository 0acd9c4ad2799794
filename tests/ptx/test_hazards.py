"""What asynchronous operations forbid: registers of products in flight, missing fences, waits that end too soon."""

from __future__ import annotations

import numpy as np
import pytest

from croq.ptx.faults import PtxFault
from croq.ptx.groups import Group
from croq.ptx.lanes import Lanes
from croq.ptx.schedule import schedule_of
from tests.ptx.ptx_running import run

SCHEDULES = ("eager", "lazy", "random:1", "random:2")

PREPARED = """
    mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; mov.u32 %r4, 0; st.shared.u32 [%r3], %r4;
    fence.proxy.async.shared::cta; bar.sync 0;
    shr.u32 %r5, %r2, 4; or.b32 %r5, %r5, 0x80000; mov.u32 %r6, 16; mov.b64 %rd5, {%r5, %r6};
    mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
    mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0;
    setp.eq.u32 %p2, %r1, %r1; mad.wide.u32 %rd9, %r1, 4, %rd1;
"""
FENCE = "wgmma.fence.sync.aligned;"
PRODUCT = """wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16
    {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, %rd5, %p2, 1, 1, 0;"""
COMMIT = "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"
STORE = "st.global.f32 [%rd9], %f1; ret;"


def result(*parts: str) -> np.ndarray:
    out = np.zeros(128, np.float32)
    run("\n".join((PREPARED, *parts, STORE)), out, threads=128, shared=1024)
    return out


def fault(*parts: str) -> str:
    with pytest.raises(PtxFault) as caught:
        result(*parts)
    return f"{caught.value.code} {caught.value.diagnostics[0].message}"


def test_a_product_that_is_fenced_and_waited_for() -> None:
    assert (result(FENCE, PRODUCT, PRODUCT, COMMIT, WAIT) == 1.0).all()
    assert (result(FENCE, PRODUCT, COMMIT, WAIT, "mov.f32 %f1, %f2;", FENCE, PRODUCT, COMMIT, WAIT) == 1.0).all()


def test_an_accumulator_is_not_read_before_its_wait() -> None:
    assert "`%f1` while a wgmma that uses it is in flight" in fault(FENCE, PRODUCT, COMMIT)
    assert "in flight" in fault(FENCE, PRODUCT, COMMIT, "wgmma.wait_group.sync.aligned 1;")
    assert "in flight" in fault(FENCE, PRODUCT, COMMIT, "@%p2 mov.f32 %f3, 0f00000000;", WAIT)


def test_a_register_of_a_is_not_changed_before_its_wait() -> None:
    assert "`%r12` while a wgmma that uses it is in flight" in fault(FENCE, PRODUCT, COMMIT, "mov.u32 %r12, 1;", WAIT)
    result(FENCE, PRODUCT, COMMIT, "mov.u32 %r20, %r12;", WAIT, "mov.u32 %r12, 1;")


def test_the_first_product_follows_a_fence() -> None:
    assert "without a wgmma.fence before it" in fault(PRODUCT, COMMIT, WAIT)


def test_registers_that_others_touched_need_a_fence() -> None:
    for touch in ("add.f32 %f2, %f2, %f2;", "mov.u32 %r11, 3;", "mov.f32 %f9, %f4;"):
        assert "with no wgmma.fence since" in fault(FENCE, PRODUCT, COMMIT, WAIT, touch, PRODUCT, COMMIT, WAIT)


def test_ordinary_stores_are_published_before_an_asynchronous_read() -> None:
    store = "st.shared.u32 [%r3], %r1; bar.sync 0;"
    assert "E-7020" in fault(store, FENCE, PRODUCT, COMMIT, WAIT)
    assert "E-7020" in fault(store, "fence.proxy.async.global;", FENCE, PRODUCT, COMMIT, WAIT)
    for published in ("fence.proxy.async.shared::cta; bar.sync 0;", "bar.sync 0; fence.proxy.async;"):
        result(store, published, FENCE, PRODUCT, COMMIT, WAIT)


def test_a_cp_async_is_of_the_generic_proxy() -> None:
    copy = """shl.b32 %r20, %r1, 4; and.b32 %r20, %r20, 0xff; add.u32 %r21, %r20, %r2; cvt.u64.u32 %rd20, %r20;
    add.u64 %rd20, %rd20, %rd1; setp.lt.u32 %p3, %r1, 16; @%p3 cp.async.cg.shared.global [%r21], [%rd20], 16;
    cp.async.wait_all; bar.sync 0;"""
    assert "E-7020" in fault(copy, FENCE, PRODUCT, COMMIT, WAIT)
    result(copy, "fence.proxy.async.shared::cta; bar.sync 0;", FENCE, PRODUCT, COMMIT, WAIT)


@pytest.mark.parametrize(
    ("copy", "words"),
    [
        ("cp.async.cg.shared.global [%r2], [%rd9], 8;", "cp.async.cg of 8 bytes"),
        ("cp.async.ca.shared.global [%r2], [%rd9], 2;", "cp.async.ca of 2 bytes"),
        ("mov.u32 %r20, 5; cp.async.ca.shared.global [%r2], [%rd9], 4, %r20;", "reads 5"),
        ("add.u64 %rd9, %rd9, 2; cp.async.ca.shared.global [%r2], [%rd9], 4;", "4-byte aligned"),
    ],
)
def test_copies_that_cp_async_has_not(copy: str, words: str) -> None:
    assert words in fault(copy, "cp.async.wait_all; bar.sync 0;")


INIT = """mov.u32 %r2, smem; setp.ne.u32 %p1, %r1, 0; @!%p1 mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster; bar.sync 0;"""
START = """@%p1 bra SKIP; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+128], [%rd1], 128, [%r2]; SKIP:"""
TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;"
READ = """mad.lo.u32 %r5, %r1, 4, %r2; ld.shared.u32 %r6, [%r5+128]; mad.wide.u32 %rd9, %r1, 4, %rd1;
    add.u32 %r6, %r6, 1; st.global.u32 [%rd9], %r6; ret;"""


def test_a_wait_may_end_before_its_phase() -> None:
    """PTX ISA, mbarrier.try_wait: it may return false after a time limit; the program must ask again."""
    found = []
    for seed in range(8):
        with_loop = np.arange(32, dtype=np.uint32)
        loop = f"AGAIN: {TRY} @%p2 bra DONE; bra AGAIN; DONE:"
        run(f"{INIT} {START} {loop} {READ}", with_loop, shared=256, schedule=f"random:{seed}")
        np.testing.assert_array_equal(with_loop, np.arange(1, 33))
        try:
            run(f"{INIT} {START} {TRY} {READ}", np.zeros(32, np.uint32), shared=256, schedule=f"random:{seed}")
        except PtxFault as caught:
            found.append(caught.code)
    assert found and set(found) <= {"E-7014", "E-7020"}


def test_warps_that_met_may_part_again() -> None:
    """A product brings the warps of a warpgroup together; nothing keeps them so behind it."""
    exchange = """mov.u32 %r7, 512; add.u32 %r8, %r3, %r7; xor.b32 %r9, %r1, 64; mad.lo.u32 %r9, %r9, 4, %r2;
    st.shared.u32 [%r8], %r1; ld.shared.u32 %r15, [%r9+512]; mad.wide.u32 %rd9, %r1, 4, %rd1;
    cvt.rn.f32.u32 %f1, %r15;"""
    found = []
    for seed in range(12):
        body = "\n".join((PREPARED, FENCE, PRODUCT, COMMIT, WAIT, "bar.warp.sync -1;", exchange, STORE))
        try:
            run(body, np.zeros(128, np.float32), threads=128, shared=1024, schedule=f"random:{seed}")
        except PtxFault as caught:
            found.append(caught.code)
    assert set(found) == {"E-7014"}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_named_barrier_for_fewer_threads_than_reach_it(schedule: str) -> None:
    """Warps that come together complete several generations: each goes on with its own."""
    out = np.zeros(128, np.uint32)
    body = """mad.wide.u32 %rd9, %r1, 4, %rd1; bar.sync 1, 64; st.global.u32 [%rd9], %r1; ret;"""
    run(body, out, threads=128, schedule=schedule)
    np.testing.assert_array_equal(out, np.arange(128))


# ---------------------------------------------------------------------------------------------- warps of a warpgroup
def codes(*parts: str, seeds: int = 12) -> set[str]:
    """What is found under random schedules; "" where nothing is."""
    found = set()
    for seed in range(seeds):
        try:
            body = "\n".join((PREPARED, *parts, STORE))
            run(body, np.zeros(128, np.float32), threads=128, shared=1024, schedule=f"random:{seed}")
            found.add("")
        except PtxFault as caught:
            found.add(caught.code)
    return found


REWRITTEN = "mov.u32 %r4, 0x3f803f80; st.shared.u32 [%r3], %r4; fence.proxy.async.shared::cta;"


def test_a_product_does_not_wait_for_the_stores_of_other_warps() -> None:
    """PTX ISA, wgmma: `.sync` is of a warp: what warps of a warpgroup share needs a barrier as between any."""
    fresh = PREPARED.replace("bar.sync 0;", "")
    found = set()
    for seed in range(12):
        try:
            body = "\n".join((fresh, FENCE, PRODUCT, COMMIT, WAIT, STORE))
            run(body, np.zeros(128, np.float32), threads=128, shared=1024, schedule=f"random:{seed}")
        except PtxFault as caught:
            found.add(caught.code)
    assert found == {"E-7014"}


def test_what_one_warp_has_waited_for_another_may_still_read() -> None:
    assert "E-7020" in codes(FENCE, PRODUCT, COMMIT, WAIT, REWRITTEN)
    assert codes(FENCE, PRODUCT, COMMIT, WAIT, "bar.sync 0;", REWRITTEN) == {""}


LOOP = "mov.u32 %r20, 0; ROUND: add.u32 %r20, %r20, 1; setp.lt.u32 %p3, %r20, 100; @%p3 bra ROUND;"
EXCHANGE = """mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1; {sync}
    xor.b32 %r4, %r1, 1; mad.lo.u32 %r4, %r4, 4, %r2; ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %rd9, %r1, 4, %rd1; st.global.u32 [%rd9], %r5; ret;"""


@pytest.mark.parametrize("sync", ["", "bar.warp.sync -1;"])
def test_lanes_of_a_warp_run_apart_until_they_synchronise(sync: str) -> None:
    found = set()
    for seed in range(12):
        try:
            run(LOOP + EXCHANGE.format(sync=sync), np.zeros(32, np.uint32), shared=128, schedule=f"random:{seed}")
            found.add("")
        except PtxFault as caught:
            found.add(caught.code)
    assert ("E-7014" in found) == (not sync) and found <= {"", "E-7014"}


def test_random_schedules_keep_some_warps_far_behind() -> None:
    def picks(name: str) -> list[int]:
        schedule = schedule_of(name)
        groups = [Group(Lanes(np.arange(32 * w, 32 * w + 32), 128), 0) for w in range(4)]
        return [schedule.pick(groups).lanes.first // 32 for _ in range(2000)]

    for seed in range(4):
        found = np.array(picks(f"random:{seed}"))
        turns = [np.flatnonzero(found == warp) for warp in range(4)]
        assert all(len(t) > 100 for t in turns), "a warp starves"
        assert max(np.diff(t).max() for t in turns) > 50, "no warp is ever behind"
        assert picks(f"random:{seed}") == found.tolist()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_products_of_warps_that_run_apart_are_right(schedule: str) -> None:
    out = np.zeros(128, np.float32)
    ones = "mov.u32 %r10, 0x3f803f80; mov.u32 %r11, %r10; mov.u32 %r12, %r10; mov.u32 %r13, %r10;"
    body = "\n".join((PREPARED, REWRITTEN, "bar.sync 0;", ones, FENCE, PRODUCT, PRODUCT, COMMIT, WAIT, STORE))
    run(body, out, threads=128, shared=1024, schedule=schedule)
    assert (out == 33.0).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "body",
    [
        "setp.lt.u32 %p3, %r1, 96; @%p3 bra DO; bra SKIP; DO:" + FENCE + PRODUCT + COMMIT + WAIT + "SKIP:",
        FENCE + "setp.lt.u32 %p3, %r1, 96; @%p3 bra DO; bra SKIP; DO:" + PRODUCT + "SKIP:" + COMMIT + WAIT,
    ],
)
def test_a_product_that_some_warps_leave_out(body: str, schedule: str) -> None:
    with pytest.raises(PtxFault) as caught:
        out = np.zeros(128, np.float32)
        run("\n".join((PREPARED, body, STORE)), out, threads=128, shared=1024, schedule=schedule)
    assert caught.value.code == "E-7017"


@pytest.mark.parametrize("wait", ["wgmma.wait_group.sync.aligned", "cp.async.wait_group", "cp.async.bulk.wait_group"])
def test_a_wait_for_fewer_than_no_groups(wait: str) -> None:
    assert "-1 groups" in fault(f"{wait} -1;")


@pytest.mark.parametrize("immediates", ["0, 1, 0;", "1, 2, 0;", "1, 1, -1;"])
def test_immediates_that_a_product_has_not_are_refused(immediates: str) -> None:
    assert "E-7024" in fault(FENCE, PRODUCT.replace("1, 1, 0;", immediates), COMMIT, WAIT)


def test_a_copy_counts_on_an_mbarrier_only_behind_a_fence() -> None:
    bare = INIT.replace("fence.mbarrier_init.release.cluster;", "")
    loop = f"AGAIN: {TRY} @%p2 bra DONE; bra AGAIN; DONE:"
    with pytest.raises(PtxFault, match="with no fence.mbarrier_init"):
        run(f"{bare} {START} {loop} {READ}", np.zeros(32, np.uint32), shared=256)
    for published in (INIT, INIT.replace("fence.mbarrier_init.release.cluster", "fence.proxy.async.shared::cta")):
        run(f"{published} {START} {loop} {READ}", np.zeros(32, np.uint32), shared=256)
