"""What operations say of themselves: effects with everything inside, until when, and what they do to other threads."""

from __future__ import annotations

from croq.ir import hw, tile
from croq.ir.core import Block, Op, Value
from croq.ir.objects import Buffer, Event, Fragment, FragRef, Param, Start, TensorMap, Variable, View
from croq.ir.scalar import Call, For, FragRead, If, StoreElement, VarSet
from croq.sema.symbolic import Dim

BUFFER = Buffer("tile", "bf16", (64, 64))
PARAM = Param("x", "bf16", (Dim.of(64), Dim.of(64)))
FRAGMENT = Fragment("acc", "f32", (64, 64))
EVENT = Event("full")
SHARED = View(BUFFER, None, (0, 0), (Dim.of(64), Dim.of(64)), (0, 1))
GLOBAL = View(PARAM, None, (0, 0), (Dim.of(64), Dim.of(64)), (0, 1))
MAP = TensorMap("x_map", PARAM, (64, 64), (1, 0), None, (Dim.of(64), Dim.of(64)), 0)
ZERO = Value("s32")


def touched(op: Op) -> list[tuple[str, object, str | None]]:
    return [(effect.kind, effect.root, effect.until) for effect in op.effects()]


def mma(accumulate: bool) -> hw.WgmmaIssue:
    return hw.WgmmaIssue(FragRef(FRAGMENT), SHARED, None, SHARED, None, 64, 64, 64, 16, False, False, accumulate)


def test_a_map_reports_what_its_body_touches_and_who_does() -> None:
    i, j = Value("s32"), Value("s32")
    read = FragRead(FragRef(FRAGMENT), (i, j), Value("f32"))
    store = StoreElement(SHARED, (i, j), read.result)
    body = Block([read, If(Value("bool"), Block([store]), None)])
    made = hw.RegMap(FragRef(FRAGMENT), (), None, (i, j), body, False)
    assert [(effect.kind, effect.root, effect.op) for effect in made.effects()] == [
        ("read", FRAGMENT, read),
        ("write", BUFFER, store),
    ]
    assert list(made.own_effects()) == []
    assert list(made.walk()) == [made, read, body.ops[1], store]


def test_an_operation_with_regions_is_walked_before_what_is_inside() -> None:
    inner = VarSet(Variable("n", "s32"), ZERO)
    loop = For(Value("s32"), ZERO, Block([inner]))
    assert list(Block([loop]).walk()) == list(loop.walk()) == [loop, inner]
    assert loop.decided_by is ZERO
    assert inner.decided_by is None


def test_a_bulk_copy_touches_the_tensor_too_and_goes_on_after_its_issue() -> None:
    load = hw.BulkTensorLoad(MAP, (ZERO, ZERO), SHARED, Start(), EVENT, None, None)
    store = hw.BulkTensorStore(MAP, (ZERO, ZERO), SHARED, Start())
    assert touched(load) == [("read", PARAM, "mbarrier"), ("write", BUFFER, "mbarrier")]
    assert touched(store) == [("read", BUFFER, "bulk group"), ("write", PARAM, "bulk group")]


def test_a_move_without_a_future_is_over_when_it_is_done() -> None:
    for make in (tile.TmaStore, tile.DmaCopy):
        assert {until for *_, until in touched(make(SHARED, GLOBAL, None))} == {None}
        assert {until for *_, until in touched(make(SHARED, GLOBAL, Value("future")))} == {"future"}


def test_the_first_of_several_products_does_not_read_its_accumulator() -> None:
    assert ("read", FRAGMENT, "commit group") in touched(mma(True))
    assert [kind for kind, root, _ in touched(mma(False)) if root is FRAGMENT] == ["write"]


def test_a_function_may_read_and_write_what_it_is_given_but_for_values() -> None:
    call = Call("f", (), (ZERO, FragRef(FRAGMENT)), None)
    assert touched(call) == [("read", FRAGMENT, None), ("write", FRAGMENT, None)]


def test_reads_come_before_writes() -> None:
    copy = hw.RegCopy(FragRef(FRAGMENT), FragRef(Fragment("p", "f32", (64, 64))))
    assert [effect.kind for effect in copy.own_effects()] == ["read", "write"]


def test_events_are_fed_by_arrivals_and_bytes_and_awaited_by_waits() -> None:
    load = hw.BulkTensorLoad(MAP, (ZERO, ZERO), SHARED, Start(), EVENT, None, None)
    for op in (load, hw.MbarrierArrive(EVENT, None), hw.MbarrierExpectTx(EVENT, None, 64)):
        assert (op.feeds, op.awaits) == ((EVENT,), ())
    for waiting in (hw.MbarrierWait(EVENT, None, ZERO), hw.NamedBarrierSync(1, 64, EVENT)):
        assert (waiting.feeds, waiting.awaits) == ((), (EVENT,))
    assert hw.MbarrierInit(EVENT, 1).feeds == ()


def test_arrivals_and_meetings_release_and_waits_for_events_do_not() -> None:
    releasing = [
        hw.MbarrierArrive(EVENT, None),
        hw.NamedBarrierArrive(1, 64, EVENT),
        hw.NamedBarrierSync(1, 64, None),
        hw.CtaSync(),
        hw.WarpSync(),
    ]
    assert all(op.releases for op in releasing)
    others = [hw.NamedBarrierSync(1, 64, EVENT), hw.MbarrierWait(EVENT, None, ZERO), mma(True), hw.ProxyFence()]
    assert not any(op.releases for op in others)


def test_only_a_store_by_stmatrix_takes_the_whole_warp() -> None:
    stores = [hw.RegStore(FragRef(FRAGMENT), SHARED, method, (), False) for method in ("stmatrix", "store")]
    assert [store.collective for store in stores] == ["warp", None]
