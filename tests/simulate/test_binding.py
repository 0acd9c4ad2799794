"""Arrays against parameters: every misfit is coded."""

import ml_dtypes
import numpy as np
import pytest

from croq.diagnostics import LaunchError
from croq.simulate import bind_symbols, run, spread_blocks

OBJECTS = """
  param @x type=bf16, shape=(N, 4)
  param @y type=f32, shape=(N, M)
  param @s type=f32, shape=_
"""


@pytest.fixture(scope="module")
def kernel(ir):
    return ir(OBJECTS, "  cta.sync threads {0..128}")


def _arrays(x=(8, 4), y=(8, 5), dtype=ml_dtypes.bfloat16):
    return {"x": np.zeros(x, dtype), "y": np.zeros(y, np.float32)}


def _codes(error):
    return [d.code for d in error.value.diagnostics]


def test_symbols_come_from_shapes(kernel):
    assert bind_symbols(kernel, _arrays()) == {"N": 8, "M": 5}


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ({"x": np.zeros((8, 4), ml_dtypes.bfloat16)}, "E-5001"),
        ({**_arrays(), "z": np.zeros(1)}, "E-5001"),
        ({**_arrays(), "y": [1, 2]}, "E-5001"),
        (_arrays(dtype=np.float16), "E-5002"),
        (_arrays(x=(8, 4, 1)), "E-5003"),
        (_arrays(y=(9, 5)), "E-5004"),
        (_arrays(x=(8, 3)), "E-5004"),
        (_arrays(y=(8, 0)), "E-5004"),
    ],
)
def test_misfits(kernel, arrays, code):
    with pytest.raises(LaunchError) as error:
        bind_symbols(kernel, arrays)
    assert code in _codes(error)


@pytest.mark.parametrize("scalars", [{}, {"s": 1.0, "t": 2.0}])
def test_scalars_must_be_there(kernel, scalars):
    with pytest.raises(LaunchError) as error:
        run(kernel, _arrays(), scalars)
    assert _codes(error) == ["E-5001"]


@pytest.mark.parametrize("schedule", ["fast", "random", "random:", "random:-1", "random:x", "eager:1", ""])
def test_unknown_schedules(kernel, schedule):
    with pytest.raises(LaunchError) as error:
        run(kernel, _arrays(), {"s": 1.0}, schedule=schedule)
    assert _codes(error) == ["E-5007"]


@pytest.mark.parametrize("block", [(1, 0, 0), (0, -1, 0), (0, 0)])
def test_blocks_outside_the_grid(kernel, block):
    with pytest.raises(LaunchError) as error:
        run(kernel, _arrays(), {"s": 1.0}, blocks=[block])
    assert _codes(error) == ["E-5006"]


def test_blocks_are_spread_over_the_grid():
    assert spread_blocks((4, 3, 2), 3) == [(0, 0, 0), (3, 2, 0), (3, 2, 1)]
    assert spread_blocks((2, 1, 1), 5) == [(0, 0, 0), (1, 0, 0)]
    assert spread_blocks((9, 9, 9), 1) == [(0, 0, 0)]
    chosen = spread_blocks((64, 32, 4), 10)
    assert len(set(chosen)) == 10
    assert chosen[-1] == (63, 31, 3)
    with pytest.raises(ValueError):
        spread_blocks((1, 1, 1), 0)


def test_progress_and_report(kernel):
    seen = []
    report = run(kernel, _arrays(), {"s": 1.0}, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 1)]
    assert report.complete
    assert report.grid == (1, 1, 1)
