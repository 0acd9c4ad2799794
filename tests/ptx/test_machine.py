"""Threads that part and meet, memory, barriers, calls; and every fault of the machine."""

from __future__ import annotations

import numpy as np
import pytest

from croq.ptx.faults import PtxFault
from tests.ptx.ptx_running import run

SCHEDULES = ("eager", "lazy", "random:1", "random:2")
ADDRESS = "mad.wide.u32 %rd9, %r1, 4, %rd1;"


def words(count: int) -> np.ndarray:
    return np.zeros(count, np.uint32)


def fault_of(body: str, *arrays, **options) -> PtxFault:
    with pytest.raises(PtxFault) as caught:
        run(body, *arrays, **options)
    return caught.value


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_branches_part_and_meet_again(schedule):
    out = words(64)
    body = f"""{ADDRESS}
    and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;
    @%p1 bra EVEN;
    mov.u32 %r3, 7; bra MEET;
    EVEN: mov.u32 %r3, 9;
    MEET: activemask.b32 %r4; popc.b32 %r4, %r4; add.u32 %r3, %r3, %r4;
    shfl.sync.idx.b32 %r5, %r3, 0, 31, -1;
    st.global.u32 [%rd9], %r5; ret;"""
    run(body, out, threads=64, schedule=schedule)
    assert set(out) <= {41, 25} and out[0] == out[31]  # lane 0 is even; 32 lanes, or 16 where they did not meet


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_loops_with_different_trip_counts(schedule):
    out = words(32)
    body = f"""{ADDRESS}
    mov.u32 %r2, 0; mov.u32 %r3, 0;
    LOOP: setp.ge.u32 %p1, %r2, %r1; @%p1 bra DONE;
    add.u32 %r3, %r3, %r2; add.u32 %r2, %r2, 1; bra LOOP;
    DONE: st.global.u32 [%rd9], %r3; ret;"""
    run(body, out, schedule=schedule)
    np.testing.assert_array_equal(out, [n * (n - 1) // 2 for n in range(32)])


def test_guards_act_on_their_threads_alone():
    out = words(32)
    run(
        f"{ADDRESS} setp.lt.u32 %p1, %r1, 3; mov.u32 %r2, 1; @!%p1 mov.u32 %r2, 2;@%p1 st.global.u32 [%rd9], %r2; ret;",
        out,
    )
    np.testing.assert_array_equal(out[:5], [1, 1, 1, 0, 0])


def test_a_table_of_branches():
    out = words(32)
    body = f"""{ADDRESS} and.b32 %r2, %r1, 3;
    T: .branchtargets A, B, C, A;
    brx.idx %r2, T;
    A: mov.u32 %r3, 10; bra END;
    B: mov.u32 %r3, 11; bra END;
    C: mov.u32 %r3, 12;
    END: st.global.u32 [%rd9], %r3; ret;"""
    run(body, out)
    np.testing.assert_array_equal(out[:4], [10, 11, 12, 10])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_barriers_order_warps(schedule):
    out = words(128)
    body = f"""{ADDRESS}
    mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;
    bar.sync 0;
    xor.b32 %r4, %r1, 96; mad.lo.u32 %r5, %r4, 4, %r2; ld.shared.u32 %r6, [%r5];
    st.global.u32 [%rd9], %r6; ret;"""
    run(body, out, threads=128, shared=512, schedule=schedule)
    np.testing.assert_array_equal(out, np.arange(128) ^ 96)


def test_a_barrier_counts_votes():
    out = words(64)
    run(
        f"{ADDRESS} setp.lt.u32 %p1, %r1, 5; bar.red.popc.u32 %r2, 0, %p1; st.global.u32 [%rd9], %r2; ret;",
        out,
        threads=64,
    )
    assert set(out) == {5}


def test_calls_pass_values_and_local_memory_is_private():
    module = """
    .func (.param .b32 r) twice(.param .b32 x) {
      .reg .b32 %r<4>; .reg .b64 %rd<3>; .local .align 8 .b8 spot[8];
      ld.param.u32 %r1, [x]; mov.u64 %rd1, spot; st.local.u32 [%rd1+4], %r1; ld.local.u32 %r2, [%rd1+4];
      add.u32 %r3, %r2, %r1; st.param.b32 [r+0], %r3; ret; }"""
    out = words(32)
    body = f"""{ADDRESS}
    {{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0+0], %r1;
    call.uni (r0), twice, (a0); ld.param.b32 %r2, [r0+0]; }}
    st.global.u32 [%rd9], %r2; ret;"""
    run(body, out, module=module)
    np.testing.assert_array_equal(out, 2 * np.arange(32))


def test_atomics_of_threads_that_meet_at_one_address():
    out = words(4)
    run("and.b32 %r2, %r1, 1; mad.wide.u32 %rd9, %r2, 4, %rd1; atom.global.add.u32 %r3, [%rd9], 3; "
        "red.global.max.u32 [%rd1+8], %r3; ret;", out)  # fmt: skip
    np.testing.assert_array_equal(out, [48, 48, 45, 0])


def test_generic_addresses_find_their_space():
    out = words(32)
    body = f"""{ADDRESS}
    mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; cvt.u64.u32 %rd2, %r3; cvta.shared.u64 %rd3, %rd2;
    st.u32 [%rd3], %r1; setp.lt.u32 %p1, %r1, 16; selp.b64 %rd4, %rd3, %rd1, %p1; ld.u32 %r4, [%rd4];
    st.global.u32 [%rd9], %r4; ret;"""
    run(body, out, shared=256)
    np.testing.assert_array_equal(out, np.where(np.arange(32) < 16, np.arange(32), 0))


INIT = """mov.u32 %r2, smem; setp.ne.u32 %p1, %r1, 0; @!%p1 mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster; bar.sync 0;"""
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra WAIT;"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_bulk_copy_lands_on_its_barrier(schedule):
    data, out = np.arange(32, dtype=np.uint32), words(32)
    body = f"""{INIT}
    @%p1 bra SKIP;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128; add.u32 %r3, %r2, 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [%r2];
    SKIP: {WAIT}
    mad.lo.u32 %r4, %r1, 4, %r2; ld.shared.u32 %r5, [%r4+128];
    mad.wide.u32 %rd9, %r1, 4, %rd2; st.global.u32 [%rd9], %r5; ret;"""
    run(body, data, out, shared=256, schedule=schedule)
    np.testing.assert_array_equal(out, data)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cp_async_groups(schedule):
    data, out = np.arange(128, dtype=np.uint32), words(128)
    body = """mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 16, %r2; mad.wide.u32 %rd8, %r1, 16, %rd1; mul.lo.u32 %r4, %r1, 4;
    min.u32 %r4, %r4, 16;
    cp.async.cg.shared.global [%r3], [%rd8], 16, %r4; cp.async.commit_group; cp.async.wait_group 0;
    ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r3]; mad.wide.u32 %rd9, %r1, 16, %rd2;
    st.global.v4.u32 [%rd9], {%r5, %r6, %r7, %r8}; ret;"""
    run(body, data, out, shared=512, schedule=schedule)
    want = data.copy()
    want[:16] = [0, 0, 0, 0, 4, 0, 0, 0, 8, 9, 0, 0, 12, 13, 14, 0]
    np.testing.assert_array_equal(out, want)


# ------------------------------------------------------------------------------------------------------------ faults
FAULTS = [
    ("E-7012", f"{ADDRESS} st.global.u32 [%rd9+4], %r1; ret;", 0),
    ("E-7012", "mov.u64 %rd9, 12345; ld.global.u32 %r2, [%rd9]; ret;", 0),
    ("E-7012", "mov.u32 %r2, smem; st.shared.u32 [%r2+256], %r1; ret;", 256),
    ("E-7013", "st.global.u32 [%rd1+2], %r1; ret;", 0),
    ("E-7013", "st.global.v2.u32 [%rd1+4], {%r1, %r1}; ret;", 0),
    ("E-7014", "mov.u32 %r2, smem; ld.shared.u32 %r3, [%r2]; ret;", 256),
    ("E-7015", f"{ADDRESS} st.global.u32 [%rd9], %r7; ret;", 0),
    ("E-7015", "setp.eq.u32 %p1, %r7, 0; @%p1 bra OUT; OUT: ret;", 0),
    ("E-7011", "LOOP: add.u32 %r2, %r1, 1; bra LOOP;", 0),
    ("E-7010", f"{INIT} {WAIT} ret;", 256),
    ("E-7010", "setp.eq.u32 %p1, %r1, 99; @%p1 bra A; bar.sync 1, 64; A: ret;", 0),
    ("E-7017", "setp.eq.u32 %p1, %r1, 0; @%p1 bra A; bar.warp.sync -1; A: ret;", 0),
    ("E-7020", f"{INIT} st.shared.u32 [%r2], %r1; ret;", 256),
    ("E-7021", f"{INIT} mbarrier.arrive.shared::cta.b64 _, [%r2], 2; ret;", 256),
    ("E-7021", "mov.u32 %r2, smem; mbarrier.arrive.shared::cta.b64 _, [%r2]; ret;", 256),
    ("E-7022", "bar.sync 1, 33; ret;", 0),
    ("E-7022", "bar.arrive 1, 64; bar.sync 1, 96; ret;", 0),
    ("E-7023", "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], [%r1]; ret;", 256),
    ("E-7026", "trap;", 0),
    ("E-7002", "frob.u32 %r1, %r2;", 0),
]  # fmt: skip


@pytest.mark.parametrize(("code", "body", "shared"), FAULTS, ids=[f"{f[0]}-{n}" for n, f in enumerate(FAULTS)])
def test_faults(code, body, shared):
    found = fault_of(body, words(32), shared=shared, limit=2000)
    assert found.code == code, str(found)


def test_a_read_only_array_is_not_written():
    data = words(32)
    data.flags.writeable = False
    assert fault_of(f"{ADDRESS} st.global.u32 [%rd9], %r1; ret;", data).code == "E-7016"


def test_a_report_names_line_text_and_threads():
    found = str(fault_of(f"{ADDRESS} setp.gt.u32 %p1, %r1, 29; @%p1 st.global.u32 [%rd9+8], %r1; ret;", words(32)))
    assert "`a0`" in found and "threads 30..31" in found and "of the PTX" in found and "st.global.u32" in found


def test_a_deadlock_names_every_group_and_what_its_barrier_lacks():
    body = f"{INIT} setp.lt.u32 %p3, %r1, 32; @%p3 bra A; {WAIT} ret; A: bar.sync 1, 64; ret;"
    notes = " ".join(fault_of(body, threads=64, shared=64).diagnostics[0].notes)
    assert "threads 32..63 wait for parity 0" in notes and "1 of 1 arrivals" in notes
    assert "threads 0..31 wait at barrier 1, where 32 of 64 threads have arrived" in notes


def test_a_copy_in_flight_is_not_read_nor_overwritten():
    start = f"""{INIT} @%p1 bra SKIP; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128; add.u32 %r3, %r2, 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [%r2]; SKIP: bar.sync 0;"""
    for touch in ("ld.shared.u32 %r5, [%r2+128];", "st.shared.u32 [%r2+252], %r1;"):
        found = fault_of(f"{start} {touch} {WAIT} ret;", words(32), shared=256, schedule="lazy")
        assert found.code == "E-7020"


def test_a_source_in_flight_is_not_overwritten():
    body = """mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;
    fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra SKIP;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 128; cp.async.bulk.commit_group; WAIT
    SKIP: bar.sync 0; st.shared.u32 [%r3], %r1; ret;"""
    out = words(32)
    for schedule in SCHEDULES:
        assert fault_of(body.replace("WAIT", ""), out, shared=128, schedule=schedule).code == "E-7020"
        run(body.replace("WAIT", "cp.async.bulk.wait_group.read 0;"), out, shared=128, schedule=schedule)
    np.testing.assert_array_equal(out, np.arange(32))


def test_a_store_that_nobody_waits_for_is_in_flight_at_the_end():
    body = """mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;
    fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %r1, 0; @%p1 ret;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 128; cp.async.bulk.commit_group; ret;"""
    assert fault_of(body, words(32), shared=128).code == "E-7025"


def test_a_selected_value_is_defined_where_its_choice_is():
    out = words(32)
    run(f"{ADDRESS} setp.eq.u32 %p1, %r1, %r1; selp.u32 %r2, %r1, %r7, %p1; st.global.u32 [%rd9], %r2; ret;", out)
    np.testing.assert_array_equal(out, np.arange(32))


def test_views_of_one_array_share_memory():
    data = np.arange(64, dtype=np.uint32)
    run("ld.global.u32 %r2, [%rd2]; bar.sync 0; st.global.u32 [%rd1+64], %r2; ret;", data[:32], data[16:48])
    assert data[16] == 16
    run("mov.u32 %r2, 7; st.global.u32 [%rd1+64], %r2; ld.global.u32 %r3, [%rd2]; st.global.u32 [%rd2+4], %r3; ret;",
        data[:32], data[16:48])  # fmt: skip
    assert list(data[16:18]) == [7, 7]


def test_printing():
    module = '.global .align 1 .b8 text[12] = {37, 100, 32, 37, 46, 49, 102, 37, 37, 10, 0};\n' \
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"  # fmt: skip
    body = """.local .align 8 .b8 spot[16];
    setp.ne.u32 %p1, %r1, 0; @%p1 ret;
    mov.u64 %rd2, spot; mov.u32 %r2, -5; st.local.u32 [%rd2], %r2;
    mov.f64 %d1, 0d3FF8000000000000; st.local.f64 [%rd2+8], %d1;
    cvta.local.u64 %rd3, %rd2; mov.u64 %rd4, text; cvta.global.u64 %rd5, %rd4;
    { .param .b64 a; .param .b64 b; .param .b32 r0; st.param.b64 [a+0], %rd5; st.param.b64 [b+0], %rd3;
      call.uni (r0), vprintf, (a, b); ld.param.b32 %r3, [r0+0]; }
    ret;"""
    assert run(body, module=module).output == "-5 1.5%\n"


def test_what_is_unforeseen_is_no_traceback(monkeypatch):
    monkeypatch.setattr("croq.ptx.machine.Machine.run", lambda self, block: 1 / 0)
    assert fault_of("ret;", words(1)).code == "E-7099"
