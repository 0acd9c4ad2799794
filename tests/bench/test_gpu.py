"""The suite on a real GPU."""

from __future__ import annotations

import numpy as np
import pytest

from croq.bench.suite import Settings, run_suite
from croq.bench.workload import NUMPY_DTYPES, AttentionWorkload

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu():
    from croq.bench.gpu import Gpu
    from croq.driver.device import require_gpu

    return Gpu(require_gpu())


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_arrays_come_back_as_they_went(gpu, dtype):
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4).astype(NUMPY_DTYPES[dtype])
    back = gpu.download(gpu.upload(host))
    assert back.dtype == host.dtype
    np.testing.assert_array_equal(back, host)


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4", "v5"])
def test_shipped_kernels_are_right_and_timed(gpu, name):
    import croq

    (result,) = run_suite(
        {name: croq.compile(name)}, [AttentionWorkload(2, 3, 1024)], gpu, peers=[], settings=Settings(1, 2, 2)
    )
    assert result.status == "ok", result.reason
    assert result.timing is not None
    assert result.timing.median > 0


def test_every_installed_peer_is_right(gpu):
    results = run_suite({}, [AttentionWorkload(2, 4, 1024)], gpu, settings=Settings(1, 2, 1))
    assert all(result.status in ("ok", "missing") for result in results), results


def outputs(gpu, name, inputs, launches):
    """The output of each launch on the same arrays, poisoned before every one."""
    import croq
    from croq.bench.suite import kernel_values
    from croq.bench.workload import bind

    kernel = croq.compile(name)
    binding = bind(kernel.params)
    host = kernel_values(kernel, binding, inputs.workload)
    host |= {"q": inputs.q, "k": inputs.k, "v": inputs.v, "o": inputs.o}
    arrays = {role: gpu.upload(value) for role, value in host.items()}
    arguments = binding.arguments(arrays)
    for _ in range(launches):
        arrays["o"].fill_bytes(0xFF)
        kernel(*arguments)
        yield gpu.download(arrays["o"])


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4", "v5"])
def test_two_hundred_launches_are_equal_in_every_bit(gpu, name):
    from croq.bench.inputs import make_inputs

    first = None
    for output in outputs(gpu, name, make_inputs(AttentionWorkload(1, 8, 2048)), launches=200):
        bits = output.view(np.uint16)
        first = bits if first is None else first
        assert np.array_equal(bits, first)


def test_overlap_and_traversal_change_rounding_only(gpu):
    from croq.bench.inputs import make_inputs

    inputs = make_inputs(AttentionWorkload(4, 32, 4096))
    results = {name: next(outputs(gpu, name, inputs, 1)).astype(np.float32) for name in ("v2", "v3", "v4", "v5")}
    for name in ("v3", "v4", "v5"):
        assert np.abs(results[name] - results["v2"]).max() <= 0.004
