"""`croq.compile`, `croq.check` and what a kernel offers, without a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import croq
from croq.compiler import pass_names
from croq.settings import Settings
from croq.texts import load
from tests.conftest import ROOT

SAXPY = ROOT / "tests/cases/saxpy.co"
HANDOFFS = ROOT / "tests/cases/handoffs.co"
X = np.zeros(4, np.float32)


def code_of(action, *args, kind=croq.CompileError, **kwargs):
    with pytest.raises(kind) as caught:
        action(*args, **kwargs)
    return caught.value.diagnostics[0].code


class TestSources:
    def test_path_string_text_and_bare_name(self):
        for source in (SAXPY, str(SAXPY), SAXPY.read_text()):
            assert croq.compile(source).name == "saxpy"
        assert croq.compile("v4").name == "flash_atten"

    def test_text_is_text_when_it_says_co_even_on_one_line(self):
        assert code_of(croq.compile, "__co__ frob") == "E-200"

    def test_line_ends_do_not_matter(self):
        text = SAXPY.read_text()
        assert croq.compile(text.replace("\n", "\r\n")).cuda == croq.compile(text).cuda

    @pytest.mark.parametrize("name", ["nowhere.co", "v9", Path("no/where.co")])
    def test_a_missing_file(self, name):
        assert code_of(croq.compile, name) == "E-2001"

    def test_a_shipped_kernel_does_not_depend_on_the_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert load("v4").name == "v4.co"
        assert croq.compile("v4").cuda == croq.compile(ROOT / "kernels/v4.co").cuda


class TestSettings:
    def test_macros_of_any_plain_type(self):
        made = Settings.of({"A": 3, "B": True, "C": "x + 1", "D": 0.5})
        assert made.defines == (("A", "3"), ("B", "1"), ("C", "x + 1"), ("D", "0.5"))
        assert made == Settings.of({"D": 0.5, "C": "x + 1", "B": 1, "A": "3"})

    def test_they_reach_the_kernel(self):
        assert croq.compile("v4", defines={"K_STAGES": 1}).plan[0]["events"] != croq.compile("v4").plan[0]["events"]

    def test_another_architecture_is_refused(self):
        assert code_of(croq.compile, SAXPY, arch="sm_80") == "E-3100"

    def test_a_bad_macro_name_is_refused(self):
        assert code_of(croq.compile, SAXPY, defines={"3": 1}) == "E-2009"


class TestKernel:
    def test_parameters_as_declared(self):
        params = croq.compile(SAXPY).params
        assert [(p.name, p.dtype, p.shape) for p in params] == [
            ("x", "f32", ("N",)),
            ("y", "f32", ("N",)),
            ("a", "f32", None),
        ]

    def test_plan_cuda_and_ir(self):
        kernel = croq.compile(SAXPY)
        assert kernel.plan[0]["kernel"] == "saxpy"
        assert "__global__" in kernel.cuda and "saxpy.co:" in kernel.cuda
        assert kernel.ir().startswith("kernel saxpy")
        assert "saxpy" in repr(kernel)

    def test_parts_of_the_ir(self):
        kernel = croq.compile("v4")
        assert kernel.ir("events").startswith("event @qf")
        assert code_of(kernel.ir, "frobs") == "E-3105"

    def test_ir_after_a_pass(self):
        kernel = croq.compile("v4")
        assert "mma " in kernel.ir(after="events") and "wgmma" not in kernel.ir(after="events")
        assert kernel.ir(after=pass_names()[-1]) == kernel.ir()
        assert code_of(kernel.ir, after="frob") == "E-3103"

    def test_two_compilations_are_the_same(self):
        assert croq.compile("v4").cuda == croq.compile("v4").cuda


class TestSeveralFunctions:
    def test_one_is_chosen_by_name(self):
        assert croq.compile(HANDOFFS, kernel="pending").name == "pending"
        assert code_of(croq.compile, HANDOFFS, kernel="pendin") == "E-3104"

    def test_all_are_offered(self):
        every = croq.compile(HANDOFFS)
        assert list(every.kernels) == ["one_slot_ready", "part_of_a_warp", "pending"]
        assert every.kernels["pending"].plan[0]["kernel"] == "pending"
        assert len(every.plan) == 3

    def test_a_launch_needs_a_choice(self):
        every = croq.compile(HANDOFFS)
        with pytest.raises(croq.LaunchError) as caught:
            every(np.zeros(4, np.float32))
        (fault,) = caught.value.diagnostics
        assert fault.code == "E-4065"
        assert all(name in fault.message for name in every.kernels)

    def test_one_alone_is_its_own_choice(self):
        kernel = croq.compile(SAXPY)
        assert kernel.kernels == {"saxpy": kernel}


class TestLaunch:
    """What is refused before any driver is asked."""

    def test_arrays_on_the_cpu(self):
        kernel, x = croq.compile(SAXPY), np.zeros(4, np.float32)
        assert code_of(kernel, x, x.copy(), 2.0, kind=croq.LaunchError) == "E-4061"

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [((X, X), "E-4050"), ((X, X, 1.0, 2.0), "E-4050"), ((X, "y", 1.0), "E-4001"), ((X, X, X), "E-4062")],
    )
    def test_wrong_arguments(self, arguments, code):
        assert code_of(croq.compile(SAXPY), *arguments, kind=croq.LaunchError) == code


class TestCheck:
    def test_nothing_to_say(self):
        assert croq.check(SAXPY) == []

    def test_faults_are_returned_not_raised(self):
        found = croq.check("__co__ void f(global f32 [N] x) { parallel b by 1 : block { z.at(0) = 1.0f; } }")
        assert [d.severity for d in found] == ["error"]
        assert found[0].span is not None and found[0].span.line == 1

    def test_a_missing_file_is_a_diagnostic_too(self):
        assert [d.code for d in croq.check("nowhere.co")] == ["E-2001"]


def test_host_memory_of_another_library_is_reached_by_its_address():
    from croq.driver.arrays import ArrayView
    from croq.launching import host_array

    memory = np.arange(24, dtype=np.float32).reshape(4, 6)
    seen = host_array(ArrayView(memory.ctypes.data, (4, 3), (6, 2), "f32", ("cpu", 0)))
    np.testing.assert_array_equal(seen, memory[:, ::2])
    seen[0, 1] = -1
    assert memory[0, 2] == -1
