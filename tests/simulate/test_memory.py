"""Layouts: what TMA writes is what elements, copies and MMAs read, also at the edges of a tensor."""

import numpy as np
import pytest

from croq.ir.objects import Buffer
from croq.simulate import Watcher, run
from croq.simulate.memory import Shared, SharedTile
from croq.target import swizzle


@pytest.mark.parametrize("width", [0, 16, 32, 64, 128])
@pytest.mark.parametrize("type_", ["f8_e4m3", "bf16", "f32"])
def test_the_elements_of_a_tile_are_where_the_target_says(width, type_):
    buffer = Buffer("t", type_, (2, 8, 128), slots=3, swizzle=width, offset=2048, alignment=1024)
    tile = SharedTile(buffer)
    assert tile.chunks is not None
    for row, col in [(0, 0), (3, 17), (15, 127)]:
        want = swizzle.tile_offset(row, col, 16, tile.size, width, 128)
        assert tile.index[row, col] * tile.size == want
        assert tile.chunks[row, col // tile.per_chunk] == want // 16
    assert len(np.unique(tile.index)) == 16 * 128


def test_shared_memory_starts_poisoned():
    assert np.isnan(Shared(100).typed(np.dtype("bfloat16"))).all()
    assert (Shared(100).typed(np.dtype(np.int32)) == -1).all()


COPY = """
  param @x type=f16, shape=(M, K)
  param @y type=f16, shape=(64, 128)
  buffer @t type=f16, shape=(64, 128), swizzle={width}, offset=0, alignment=1024
  event @e lowering=mbarrier, offset=16384
  tensor_map @m param=@x, box={box}, axes={axes}, split={split}, dims={dims}, swizzle={width}
"""
BODY = """
  elect set, thread=0 {{
    mbarrier.init @e, count=1
  }}
  cta.sync
  %zero: u32 = const 0
  elect set, thread=0 {{
    mbarrier.expect_tx @e, _, bytes=16384
{loads}
  }}
  mbarrier.wait @e, _, %zero
  copy_tile @t[0:64, 0:128], (), @y[0:64, 0:128], (), vector=16, rank_base=0, count=128, asynchronous=false, unroll=1
"""


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random:1"])
@pytest.mark.parametrize(("rows", "start"), [(64, 0), (200, 100), (100, 64), (70, 64), (64, -7), (30, 40)])
@pytest.mark.parametrize("split", [True, False])
def test_a_box_at_the_edge_is_filled_with_zeros(ir, schedule, rows, start, split):
    """One instruction over two slabs, or one a slab."""
    x = np.random.default_rng(0).standard_normal((rows, 128)).astype(np.float16)
    y = np.full((64, 128), np.nan, np.float16)
    consts = f"    %r: s32 = const {start}\n    %c: s32 = const 64\n    %z: s32 = const 0\n"
    if split:
        objects = COPY.format(width=128, box=(64, 64, 2), axes=(1, 0, 1), split=64, dims="(64, M, K/64)")
        loads = consts + "    bulk_tensor.load @m, (%z, %r, %z), @t[0:64, 0:128], start(), @e, _, _"
    else:
        objects = COPY.format(width=128, box=(64, 64), axes=(1, 0), split="_", dims="(K, M)")
        loads = (
            consts
            + "    bulk_tensor.load @m, (%z, %r), @t[0:64, 0:64], start(), @e, _, _\n"
            + "    bulk_tensor.load @m, (%c, %r), @t[0:64, 64:64], start(offset=8192), @e, _, _"
        )
    kernel = ir(objects, BODY.format(loads=loads), shared=16400)
    run(kernel, {"x": x, "y": y}, schedule=schedule)
    want = np.zeros((64, 128), np.float16)
    for i in range(64):
        if 0 <= start + i < rows:
            want[i] = x[start + i]
    assert (y == want).all()


def test_a_store_is_clipped(ir):
    objects = COPY.format(width=64, box=(32, 64), axes=(1, 0), split="_", dims="(K, M)")
    body = """
  copy_tile @y[0:64, 0:128], (), @t[0:64, 0:128], (), vector=16, rank_base=0, count=128, asynchronous=false, unroll=1
  fence.proxy_async
  cta.sync
  %r: s32 = const 64
  elect set, thread=0 {
    %c0: s32 = const 0
    %c1: s32 = const 32
    %c2: s32 = const 64
    %c3: s32 = const 96
    bulk_tensor.store @m, (%c0, %r), @t[0:64, 0:32], start()
    bulk_tensor.store @m, (%c1, %r), @t[0:64, 32:32], start(offset=4096)
    bulk_tensor.store @m, (%c2, %r), @t[0:64, 64:32], start(offset=8192)
    bulk_tensor.store @m, (%c3, %r), @t[0:64, 96:32], start(offset=12288)
    bulk.commit
    bulk.wait depth=0, read=true
  }
"""
    y = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float16)
    for schedule in ("eager", "lazy", "random:5"):
        x = np.zeros((100, 112), np.float16)
        run(ir(objects, body, shared=16400), {"x": x, "y": y}, schedule=schedule)
        assert (x[64:] == y[:36, :112]).all()
        assert not x[:64].any()


class Recorder(Watcher):
    """A watcher that keeps what it is told of memory and of barriers."""

    def __init__(self):
        self.reads, self.loads, self.order = [], [], []

    def touch(self, warp, op, place, *, write, together=False):
        if place.root.storage == "shared":
            self.reads.append((warp.index, write, place.units))

    def load(self, warp, lane, op, source, dest, barrier):
        self.loads.append((lane, source.units, dest.units))

    def complete(self, op, barrier):
        self.order.append("complete")

    def passed(self, warp, op, barrier, parity, lanes):
        self.order.append(f"passed {warp.index}")


def test_a_watcher_sees_accesses_and_their_order(ir):
    objects = COPY.format(width=128, box=(64, 64, 2), axes=(1, 0, 1), split=64, dims="(64, M, K/64)")
    loads = "    %z: s32 = const 0\n    bulk_tensor.load @m, (%z, %z, %z), @t[0:64, 0:128], start(), @e, _, _"
    kernel = ir(objects, BODY.format(loads=loads), shared=16400)
    data = {"x": np.zeros((64, 128), np.float16), "y": np.zeros((64, 128), np.float16)}
    watch = Recorder()
    run(kernel, data, watch=lambda block: watch)
    ((lane, source, dest),) = watch.loads
    assert lane == 0
    assert sorted(dest.at * dest.size) == list(range(0, 16384, 16))
    assert len(np.unique(source.at)) == 64 * 128
    assert not any(write for _, write, _ in watch.reads)
    assert {warp for warp, _, _ in watch.reads} == {0, 1, 2, 3}
    assert sum(len(units.at) for _, _, units in watch.reads) == 16384 // 16
    assert all(set(units.lanes) == set(range(32)) for _, _, units in watch.reads)
    assert watch.order[0] == "complete"
    assert sorted(watch.order[1:]) == [f"passed {warp}" for warp in range(4)]
