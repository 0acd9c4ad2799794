"""The package as it is imported: cheap, and `croq.simulate` is both a package and a function."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

import croq

HEAVY = ("numpy", "lark", "jinja2", "rich", "cuda", "ml_dtypes")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_loads_nothing_heavy():
    loaded = python("import sys, croq; print(*sys.modules)").split()
    assert not [name for name in HEAVY if name in loaded]


def test_import_is_quick():
    best = min(
        float(python("import time; t = time.perf_counter(); import croq; print(time.perf_counter() - t)"))
        for _ in range(3)
    )
    assert best < 0.3


@pytest.mark.parametrize(
    "imports",
    [
        "import croq; f = croq.simulate",
        "from croq import simulate as f",
        "import croq.simulate; f = croq.simulate",
        "import croq.simulate.dtypes; import croq; f = croq.simulate",
        "from croq.simulate import dtypes; from croq import simulate as f",
        "import importlib; f = importlib.import_module('croq.simulate')",
    ],
)
def test_simulate_is_callable_however_it_is_imported(imports):
    code = f"""
{imports}
assert callable(f)
import croq
import croq.simulate.dtypes as d
assert d.__name__ == "croq.simulate.dtypes"
try:
    f("no kernel")
except croq.LaunchError as error:
    print(error.diagnostics[0].code)
"""
    assert python(code).strip() == "E-4068"


def test_all_public_names_exist():
    for name in croq.__all__:
        assert getattr(croq, name) is not None
    assert croq.__version__
    with pytest.raises(AttributeError, match="nothing"):
        croq.nothing  # noqa: B018


def test_time_is_measured_for_each_stage():
    from croq.stages import timed

    seconds: dict[str, float] = {}
    with pytest.raises(KeyError), timed(seconds, "parse"):
        time.sleep(0.01)
        raise KeyError
    assert seconds["parse"] >= 0.01
