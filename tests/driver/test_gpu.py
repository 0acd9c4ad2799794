"""On a Hopper GPU: every descriptor and swizzle by results, TMA both ways, launches, graphs, arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from croq.driver.arrays import view
from croq.driver.bindings import driver
from croq.driver.device import ensure_context, require_gpu, synchronize, time_launches
from croq.driver.device_array import DeviceArray
from croq.driver.errors import check
from croq.driver.launch import Module, PreparedLaunch, pointer, scalar
from croq.driver.nvrtc import compile_cuda
from croq.driver.tensormap import TensorMapSpec, encode
from croq.target.sm90.descriptors import Descriptor, Major, describe
from croq.target.sm90.instructions import Wgmma, register_fence
from croq.target.swizzle import tile_bytes

pytestmark = pytest.mark.gpu
SHARED_BASE = 1024  # tiles start here; barriers lie before


@pytest.fixture(autouse=True)
def current_context() -> None:
    """Tensor maps are encoded by the driver of the thread's current context."""
    ensure_context(0)


def test_the_device_is_described() -> None:
    info = require_gpu()
    assert info.is_hopper
    assert info.multiprocessors > 100


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "s32", "u8", "f8_e4m3"])
def test_device_arrays_keep_their_contents(dtype: str) -> None:
    from croq.driver.arrays import NUMPY_TYPES

    host = np.arange(96).reshape(4, 24).astype(NUMPY_TYPES[dtype])
    device = DeviceArray.from_numpy(host)
    assert np.array_equal(device.to_numpy().view(np.uint8), host.view(np.uint8))
    assert view(device).device == ("cuda", 0)


@dataclass(frozen=True)
class Tile:
    """An operand [rows, cols] of 16-bit elements in slabs of `width` bytes, cols contiguous."""

    rows: int
    cols: int
    width: int
    major: Major

    @property
    def descriptor(self) -> Descriptor:
        return describe(self.rows, self.cols, 2, self.major, self.width)

    @property
    def slabs(self) -> int:
        return self.cols * 2 // self.width

    @property
    def slab_bytes(self) -> int:
        return self.rows * self.width

    @property
    def k(self) -> int:
        return self.cols if self.major == "k" else self.rows

    def step(self, i: int) -> int:
        """Bytes from the first K step of 16 to step `i`."""
        if self.major == "mn":
            return i * 16 * self.width
        return i * 32 // self.width * self.slab_bytes + i * 32 % self.width

    @property
    def box(self) -> tuple[int, int]:
        return self.width // 2, self.rows


def matmul_kernel(op: Wgmma, a: Tile, b: Tile) -> str:
    """One CTA: TMA brings both tiles, slab by slab; WGMMA over all K steps; accumulators go out by plain stores."""
    n = op.acc_registers
    lines = [
        f"{op.name}(acc, croq::make_descriptor(a_lo + {a.step(i) >> 4}u, {a.descriptor.high_word:#x}u),"
        f" croq::make_descriptor(b_lo + {b.step(i) >> 4}u, {b.descriptor.high_word:#x}u), {int(i > 0)});"
        for i in range(a.k // 16)
    ]
    loads = [
        f"for (int i = 0; i < {tile.slabs}; i++)"
        f" croq::tma_load_2d({name} + i * {tile.slab_bytes}, &t{name}, bar, i * {tile.box[0]}, 0);"
        for name, tile in (("a", a), ("b", b))
    ]
    return f"""#include "croq.cuh"
{op.wrapper}{register_fence(n)}
extern "C" __global__ void __launch_bounds__(128)
mm(const __grid_constant__ croq::TensorMap ta, const __grid_constant__ croq::TensorMap tb, float* out) {{
    extern __shared__ __align__(1024) unsigned char shared[];
    const croq::u32 bar = croq::smem_addr(shared), a = bar + {SHARED_BASE};
    const croq::u32 b = a + {-(-a.slabs * a.slab_bytes // 1024) * 1024};
    if (threadIdx.x == 0) {{
        croq::mbarrier_init(bar, 1);
        croq::fence_mbarrier_init();
        croq::mbarrier_arrive_expect_tx(bar, {a.slabs * a.slab_bytes + b.slabs * b.slab_bytes});
        {loads[0]}
        {loads[1]}
    }}
    croq::cta_sync();
    croq::mbarrier_wait(bar, 0);
    const croq::u32 a_lo = (a >> 4) | {a.descriptor.low_word:#x}u, b_lo = (b >> 4) | {b.descriptor.low_word:#x}u;
    float acc[{n}];
    croq::wgmma_fence();
    {chr(10).join(lines)}
    croq::wgmma_commit();
    croq::wgmma_wait<0>();
    register_fence(acc);
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < {n}; i++) out[(row + i / 2 % 2 * 8) * {op.shape_n} + i / 4 * 8 + lane % 4 * 2 + i % 2] = acc[i];
}}
"""


def tensor_map(array: DeviceArray, box: tuple[int, int], swizzle: int) -> bytes:
    """The map of a 2-D array; `box` innermost first."""
    rows, cols = array.shape
    spec = TensorMapSpec(array.dtype, box, swizzle)
    return encode(spec, array.pointer, (cols, rows), (cols * view(array).elem_bytes,))


@pytest.mark.parametrize("b_major", ["k", "mn"])
@pytest.mark.parametrize("a_major", ["k", "mn"])
@pytest.mark.parametrize("width", [16, 32, 64, 128])
def test_descriptors_by_results(width: int, a_major: Major, b_major: Major) -> None:
    m, n, k = 64, 128, 64
    op = Wgmma(n, False, "bf16", "bf16", trans_a=a_major == "mn", trans_b=b_major == "mn")
    random = np.random.default_rng(7)
    a = random.integers(-4, 5, (m, k)).astype(ml_dtypes.bfloat16)
    b = random.integers(-4, 5, (k, n)).astype(ml_dtypes.bfloat16)
    a_host = np.ascontiguousarray(a if a_major == "k" else a.T)
    b_host = np.ascontiguousarray(b.T if b_major == "k" else b)
    tiles = [Tile(h.shape[0], h.shape[1], width, major) for h, major in ((a_host, a_major), (b_host, b_major))]
    source = matmul_kernel(op, *tiles)
    on_device = [DeviceArray.from_numpy(host) for host in (a_host, b_host)]
    swizzle = 0 if width == 16 else width
    maps = [tensor_map(array, tile.box, swizzle) for array, tile in zip(on_device, tiles, strict=True)]
    out = DeviceArray.from_numpy(np.full((m, n), np.nan, dtype=np.float32))
    shared = SHARED_BASE + sum(
        -(-tile_bytes(h.shape[0], h.shape[1], 2, width) // 1024) * 1024 for h in (a_host, b_host)
    )
    kernel = Module(compile_cuda(source).cubin).kernel("mm")
    kernel.launch((1, 1, 1), (128, 1, 1), shared, None, [*maps, pointer(out.pointer)])
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(out.to_numpy(), expected)


SCALE = """#include "croq.cuh"
extern "C" __global__ void scale(float* p, int n, unsigned factor) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = p[i] * factor;
}
"""


def scale_launch(array: DeviceArray, factor: int = 2) -> PreparedLaunch:
    kernel = Module(compile_cuda(SCALE).cubin).kernel("scale")
    assert kernel.parameter_bytes in (None, (8, 4, 4))
    n = array.shape[0]
    return kernel.prepare(
        (-(-n // 128), 1, 1), (128, 1, 1), 0, [pointer(array.pointer), scalar("s32", n), scalar("u32", factor)]
    )


def test_relaunch_with_another_parameter() -> None:
    array = DeviceArray.from_numpy(np.ones(1000, dtype=np.float32))
    launch = scale_launch(array)
    launch()
    launch.set(2, scalar("u32", 5))
    launch()
    synchronize()
    assert np.all(array.to_numpy() == 10)


def test_a_relaunch_costs_microseconds() -> None:
    array = DeviceArray.from_numpy(np.ones(128, dtype=np.float32))  # must outlive the launches
    launch = scale_launch(array, 1)
    assert time_launches(launch, warmup=100, repeat=1000) < 0.05  # milliseconds; about 0.005 on a quiet machine


def test_a_launch_can_be_captured_in_a_graph() -> None:
    cu = driver()
    array = DeviceArray.from_numpy(np.ones(256, dtype=np.float32))
    launch = scale_launch(array)
    stream = check(cu.cuStreamCreate(1), "cuStreamCreate")  # 1: does not order with the legacy default stream
    check(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL), "begin")
    launch(int(stream))
    launch(int(stream))
    graph = check(cu.cuStreamEndCapture(stream), "end")
    assert np.all(array.to_numpy() == 1)
    instance = check(cu.cuGraphInstantiate(graph, 0), "instantiate")
    check(cu.cuGraphLaunch(instance, stream), "cuGraphLaunch")
    synchronize(int(stream))
    assert np.all(array.to_numpy() == 4)


STORE = """#include "croq.cuh"
extern "C" __global__ void __launch_bounds__(128)
store(const __grid_constant__ croq::TensorMap from, const __grid_constant__ croq::TensorMap to) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const croq::u32 bar = croq::smem_addr(shared), tile = bar + 1024;
    if (threadIdx.x == 0) {
        croq::mbarrier_init(bar, 1);
        croq::fence_mbarrier_init();
        croq::mbarrier_arrive_expect_tx(bar, 64 * 64 * 2);
        croq::tma_load_2d(tile, &from, bar, 0, 0, croq::policy_evict_first());
    }
    croq::cta_sync();
    croq::mbarrier_wait(bar, 0);
    // Each thread doubles its elements in place, at swizzled addresses.
    for (int i = threadIdx.x; i < 64 * 64; i += 128) {
        const croq::u32 at = tile + croq::swizzle<128>(i * 2);
        const float x = croq::to<float>(croq::ld_shared<croq::bf16>(at));
        croq::st_shared(at, croq::to<croq::bf16>(x + x + float(i % 64)));
    }
    croq::fence_proxy_async();
    croq::cta_sync();
    if (threadIdx.x == 0) {
        croq::tma_store_2d(&to, tile, 0, 0);
        croq::bulk_commit();
        croq::bulk_wait<0>();
    }
}
"""


def test_tma_both_ways_with_swizzled_access() -> None:
    host: npt.NDArray[Any] = (np.arange(64 * 64) % 61).reshape(64, 64).astype(ml_dtypes.bfloat16)
    source, target = DeviceArray.from_numpy(host), DeviceArray.empty((64, 64), "bf16")
    maps = [tensor_map(array, (64, 64), 128) for array in (source, target)]
    Module(compile_cuda(STORE).cubin).kernel("store").launch((1, 1, 1), (128, 1, 1), 1024 + 8192, None, maps)
    expected = (2 * host.astype(np.float32) + np.arange(64)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(target.to_numpy().astype(np.float32), expected.astype(np.float32))


CONVERT = """#include "croq.cuh"
extern "C" __global__ void convert(const float* in, float* out, int n) {
    const int i = threadIdx.x;
    const float x = in[i];
    out[i] = croq::to<float>(croq::to<croq::bf16>(x));
    out[n + i] = croq::to<float>(croq::to<croq::f16>(x));
    out[2 * n + i] = croq::to<float>(croq::to<croq::f8_e4m3>(x));
    out[3 * n + i] = croq::to<float>(croq::to<croq::f8_e5m2>(x));
    const croq::u32 pair = croq::pack<croq::bf16>(x, 3.0f);
    out[4 * n + i] = croq::unpack_lo<croq::bf16>(pair) + croq::unpack_hi<croq::bf16>(pair);
    out[5 * n + i] = croq::ex2(x);
    out[6 * n + i] = croq::div(1.0f, x);
    out[7 * n + i] = croq::exp(x);
}
"""


def test_conversions_and_arithmetic() -> None:
    x = np.random.default_rng(3).normal(0, 3, 256).astype(np.float32)
    out = DeviceArray.empty((8, 256), "f32")
    device = DeviceArray.from_numpy(x)
    params = [pointer(device.pointer), pointer(out.pointer), scalar("s32", 256)]
    Module(compile_cuda(CONVERT).cubin).kernel("convert").launch((1, 1, 1), (256, 1, 1), 0, None, params)
    found = out.to_numpy()
    types = (ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
    for row, dtype in enumerate(types):
        assert np.array_equal(found[row], x.astype(dtype).astype(np.float32)), dtype
    assert np.array_equal(found[4], x.astype(ml_dtypes.bfloat16).astype(np.float32) + 3)
    assert np.allclose(found[5], np.exp2(x.astype(np.float64)), rtol=3e-7)
    assert np.allclose(found[6], 1 / x.astype(np.float64), rtol=3e-7)
    assert np.allclose(found[7], np.exp(x.astype(np.float64)), rtol=3e-7)
