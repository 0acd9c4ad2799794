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


@pytest.mark.parametrize("name", ["v1", "v2", "v3", "v4"])
def test_shipped_kernels_are_right_and_timed(gpu, name):
    import croq

    (result,) = run_suite(
        {name: croq.compile(name)}, [AttentionWorkload(2, 3, 1024)], gpu, peers=[], settings=Settings(1, 2, 2)
    )
    assert result.status == "ok", result.reason
    assert result.timing.median > 0


def test_every_installed_peer_is_right(gpu):
    results = run_suite({}, [AttentionWorkload(2, 4, 1024)], gpu, settings=Settings(1, 2, 1))
    assert all(result.status in ("ok", "missing") for result in results), results
