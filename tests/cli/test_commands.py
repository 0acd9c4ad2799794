"""The commands on real kernels, in process; what needs NVRTC is marked."""

from __future__ import annotations

import json

import pytest

from tests.command_line import croq

SAXPY = "tests/cases/saxpy.co"
HANDOFFS = "tests/cases/handoffs.co"
BROKEN = "__co__ void f(global f32 [N] x) {\n  parallel b by 1 : block { y.at(0) = 1.0f; }\n}\n"


@pytest.fixture(autouse=True)
def in_checkout(monkeypatch):
    from tests.conftest import ROOT

    monkeypatch.chdir(ROOT)


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "broken.co"
    path.write_text(BROKEN)
    return path


class TestPlan:
    def test_text_and_json_say_the_same(self):
        text, made = croq("plan", "v4"), json.loads(croq("plan", "v4", "--json").stdout)
        assert text.exit_code == 0 and text.stderr == ""
        assert made[0]["kernel"] == "flash_atten" and made[0]["threads"] == 384
        for event in made[0]["events"]:
            assert event["name"] in text.stdout

    def test_a_bare_name_is_the_file(self):
        assert croq("plan", "v4", "--json").stdout == croq("plan", "kernels/v4.co", "--json").stdout

    def test_macros_reach_the_kernel(self):
        made = json.loads(croq("plan", "v4", "--json", "-D", "K_STAGES=1").stdout)
        assert {e["name"]: e["slots"] for e in made[0]["events"]}["kf"] == 1

    def test_an_object_a_kernel(self):
        made = json.loads(croq("plan", HANDOFFS, "--json").stdout)
        assert [item["kernel"] for item in made] == ["one_slot_ready", "part_of_a_warp", "pending"]


HEAD = 'kernel k file="k.co", grid=(1, 1, 1), threads=32 {\n'


class TestOpt:
    def test_the_rest_of_the_pipeline_goes_on_from_text(self, tmp_path):
        from croq.compiler import pass_names

        names = list(pass_names())
        path = tmp_path / "v1.cir"
        assert croq("compile", "v1", "--after", "events", "-o", path).exit_code == 0
        rest = ",".join(names[names.index("events") + 1 :])
        whole = croq("compile", "v1", "--emit", "ir").stdout
        assert croq("opt", path, "--passes", rest).stdout == whole
        assert croq("opt", "-", "--passes", rest, input=path.read_text()).stdout == whole
        assert croq("opt", path, "--passes", rest, "-o", tmp_path / "out.cir").stdout == ""
        assert (tmp_path / "out.cir").read_text() == whole

    def test_no_pass_prints_what_was_read(self, tmp_path):
        path = tmp_path / "v1.cir"
        croq("compile", "v1", "--emit", "tile-ir", "-o", path)
        assert croq("opt", path).stdout == path.read_text()

    @pytest.mark.parametrize(
        ("text", "passes", "code", "says"),
        [
            ("kernel", "events", "E-2190", "a name"),
            ("", "evnts", "E-3103", "did you mean `events`?"),
            (
                'kernel k file="k.co", grid=(1, 1, 1), threads=32 {\n  %0: s32 = binary add, %1, %1\n}\n',
                "",
                "E-2190",
                "%1",
            ),
            (
                'kernel k file="k.co", grid=(1, 1, 1), threads=32 {\n  break\n}\n',
                "simplify",
                "E-3106",
                "outside a loop",
            ),
        ],
    )
    def test_what_cannot_be_read_or_lowered_is_refused(self, tmp_path, text, passes, code, says):
        path = tmp_path / "x.cir"
        path.write_text(text)
        result = croq("opt", path, "--passes", passes)
        status = 2 if code == "E-3103" else 1  # a pass that there is none of is a fault of the command line
        assert result.exit_code == status and code in result.stderr and says in result.stderr

    def test_a_fault_of_the_text_names_its_file(self, tmp_path):
        path = tmp_path / "x.cir"
        path.write_text("no IR")
        assert f"{path}:1:1" in croq("opt", path).stderr


class TestCacheFolder:
    def test_one_that_others_can_write_is_passed_over_and_v_says_so(self, tmp_path, monkeypatch):
        monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path))
        tmp_path.chmod(0o777)
        result = croq("plan", SAXPY, "-v")
        assert result.exit_code == 0 and "can be written by others" in result.stderr
        assert list(tmp_path.iterdir()) == []
        assert croq("plan", SAXPY).stderr == ""


class TestEmit:
    @pytest.mark.parametrize("kind", ["ast", "tile-ir", "ir", "plan", "cuda"])
    def test_every_stage_prints(self, kind):
        result = croq("compile", SAXPY, "--emit", kind)
        assert result.exit_code == 0 and result.stdout.strip() and result.stderr == ""

    def test_the_same_text_by_path_and_by_name(self):
        assert (
            croq("compile", "v4", "--emit", "cuda").stdout == croq("compile", "kernels/v4.co", "--emit", "cuda").stdout
        )

    def test_to_a_file_and_to_a_folder(self, tmp_path):
        text = croq("compile", SAXPY, "--emit", "cuda").stdout
        assert croq("compile", SAXPY, "--emit", "cuda", "-o", tmp_path / "x.cu").exit_code == 0
        assert (tmp_path / "x.cu").read_text() == text
        assert croq("compile", SAXPY, "--emit", "ir", "-o", tmp_path).exit_code == 0
        assert (tmp_path / "saxpy.ir").exists()

    def test_after_a_pass(self):
        result = croq("compile", "v4", "--after", "participants")
        assert result.exit_code == 0 and "threads=384, " in result.stdout and "known_threads=true" in result.stdout
        assert croq("compile", "v4", "--after", "nothing").exit_code == 2

    def test_a_cubin_needs_a_place(self):
        assert croq("compile", SAXPY, "--emit", "cubin").exit_code == 2


TOUCHED = """\
__co__ void f(global bf16 [64, 64] a, global bf16 [64, 64] b, global f32 [64, 64] c) {
  parallel one by 1 : block {
    shared bf16 [64, 64] a_buf;
    shared bf16 [64, 64] b_buf;
    parallel p by 1 : group-4, t by 128 : thread {
      tma.load.swiz<128> a => a_buf;
      tma.load.swiz<128> b => b_buf;
      acc = mma.fill.f32 0.0f;
      product = mma.row.row.async acc, a_buf, b_buf;
      __cpp__("acc[0] += 1.0f;");
      wait product;
      mma.store acc, c;
    }
  }
}
"""
TOUCHED_LINE = 10


@pytest.mark.nvrtc
class TestCompile:
    def test_the_summary(self):
        result = croq("compile", SAXPY)
        assert result.exit_code == 0
        assert "saxpy: 256 threads" in result.stdout and "no spills" in result.stdout

    def test_json(self):
        made = json.loads(croq("compile", SAXPY, "--format", "json").stdout)
        assert made["kernels"][0]["kernel"] == "saxpy" and made["kernels"][0]["registers"] > 0
        assert list(made["seconds"]) in (
            ["recall", "nvrtc"],
            ["recall", "parse", "analyse", "build", "passes", "verify", "emit", "nvrtc"],
        )

    def test_what_a_kernel_takes(self):
        (v4,) = json.loads(croq("compile", "v4", "--format", "json").stdout)["kernels"]
        assert v4["shared_bytes"] == v4["shared_static"] + v4["shared_dynamic"] and v4["barriers"] > 0
        assert v4["registers"] == 168 and [role["setreg"] for role in v4["roles"]] == [40, 232]
        assert (v4["occupancy"]["ctas"], v4["occupancy"]["warps"]) == (1, 12)
        assert "168 registers (40/232 by role), no spills, 1 CTA an SM" in croq("compile", "v4").stdout

    def test_a_remark_of_ptxas_has_the_line_of_the_source(self, tmp_path):
        path = tmp_path / "touched.co"
        path.write_text(TOUCHED)
        for options in ([], ["--lineinfo"]):
            found = json.loads(croq("compile", path, "--format", "json", *options).stderr)
            assert [(d["code"], d["span"]["line"]) for d in found] == [("W-3004", TOUCHED_LINE)]

    @pytest.mark.parametrize("recalled", [False, True])
    @pytest.mark.parametrize(("flag", "code"), [("--fail-on-spill", "W-3001"), ("--fail-on-serialized", "W-3004")])
    def test_losses_are_refused_and_nothing_is_overwritten(self, tmp_path, monkeypatch, flag, code, recalled):
        monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path / "cache"))
        if recalled:
            assert croq("compile", "v4", "-D", "CONSUMER_REGS=120").exit_code == 0
        kept = tmp_path / "v4.sass"
        kept.write_text("as it was")
        for options in (["--emit", "sass"], []):
            result = croq("compile", "v4", "-D", "CONSUMER_REGS=120", flag, "-o", tmp_path, *options)
            assert result.exit_code == 1 and f"error[{code}]" in result.stderr and not result.stdout
        assert kept.read_text() == "as it was" and not (tmp_path / "v4.cubin").exists()
        assert croq("compile", "v4", flag, "--after", "events").exit_code == 2
        assert croq("compile", SAXPY, flag).exit_code == 0

    def test_all_files_are_written(self, tmp_path):
        assert croq("compile", SAXPY, "-o", tmp_path / "out").exit_code == 0
        assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["saxpy.cu", "saxpy.cubin", "saxpy.plan.json"]
        assert (tmp_path / "out" / "saxpy.cubin").read_bytes()[:4] == b"\x7fELF"
        assert (tmp_path / "out" / "saxpy.plan.json").read_text() == croq("plan", SAXPY, "--json").stdout

    def test_quiet_says_nothing(self):
        result = croq("compile", SAXPY, "-q")
        assert result.exit_code == 0 and result.stdout == "" and result.stderr == ""

    def test_ptx(self):
        assert ".visible .entry saxpy" in croq("compile", SAXPY, "--emit", "ptx").stdout

    def test_a_fault_in_device_text_points_into_the_file(self, tmp_path):
        path = tmp_path / "k.co"
        path.write_text(
            "__device__ float twice(float x) {\n  return x + nothing;\n}\n"
            "__co__ void f(global f32 [N] x) {\n  parallel b by 1 : block, t by 32 : thread {\n"
            "    float y = call twice(x.at(t));\n    x.at(t) = y;\n  }\n}\n"
        )
        executed = ("sim", path, "--shape", "N=32")
        for command in (
            ("compile", path), ("compile", path, "--emit", "ptx"), ("check", "--ptx", path), executed,
            (*executed, "--level", "ptx"),
        ):  # fmt: skip
            result = croq(*command)
            assert result.exit_code == 1, command
            assert "E-3010" in result.stderr and "k.co:2" in result.stderr and "nothing" in result.stderr, command


class TestCheck:
    def test_a_good_kernel(self):
        result = croq("check", SAXPY)
        assert result.exit_code == 0
        assumed = "    assumes that `y` shares no memory with `x`\n"
        assert result.stdout == f"{SAXPY}: ok\n  saxpy: proved for all schedules\n{assumed}"

    def test_a_bad_one(self, broken):
        result = croq("check", broken)
        assert result.exit_code == 1
        assert "error[E-" in result.stderr and "broken.co:2" in result.stderr
        assert result.stdout == f"{broken}: 1 error\n"

    def test_json(self, broken):
        result = croq("check", broken, "--format", "json")
        expected = {"file": str(broken), "ok": False, "errors": 1, "warnings": 0, "verdicts": []}
        assert json.loads(result.stdout) == expected
        assert json.loads(result.stderr)[0]["span"]["line"] == 2

    def test_standard_input(self):
        assert croq("check", "-", input=BROKEN).exit_code == 1

    @pytest.mark.parametrize(
        "text", ["", "int main() {}", "__co__", "__co__ void f(", "\0", "__co__ void f() { }", "#if"]
    )
    def test_no_text_makes_a_traceback(self, text):
        result = croq("check", "-", input=text)
        assert result.exit_code in (0, 1), result.stderr
        assert "E-9001" not in result.stderr


class TestLadder:
    def test_each_rung_adds(self):
        outputs = [croq("plan", SAXPY, *flags).stderr for flags in ([], ["-v"], ["-vv"], ["-vvv"])]
        assert outputs[0] == ""
        assert "recall" in outputs[1] and "__global__" not in outputs[1]
        assert "__global__" in outputs[2] and "after participants" not in outputs[2]
        assert "after participants" in outputs[3]


class TestSim:
    SHAPE = ("--shape", "N=1000", "--arg", "a=1.5")

    def test_text(self):
        result = croq("sim", SAXPY, *self.SHAPE)
        assert result.exit_code == 0, result.stderr
        assert "all 4 blocks" in result.stdout and "y: 1000 of 1000 elements changed" in result.stdout

    def test_a_part_is_said(self):
        result = croq("sim", SAXPY, *self.SHAPE, "--tiles", 2, "--schedule", "random:7")
        assert "2 of 4 blocks: (0, 0, 0); (3, 0, 0)" in result.stdout and "random:7" in result.stdout

    def test_json(self):
        made = json.loads(croq("sim", SAXPY, *self.SHAPE, "--format", "json").stdout)
        assert made["symbols"] == {"N": 1000} and made["outputs"]["y"]["changed"] == 1000

    def test_arrays_from_and_to_files(self, tmp_path):
        import numpy as np

        x, y = np.arange(300, dtype=np.float32), np.ones(300, np.float32)
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", y)
        given = [part for value in ("a=2", f"x={tmp_path}/x.npy", f"y={tmp_path}/y.npy") for part in ("--arg", value)]
        result = croq("sim", SAXPY, *given, "--save", f"y={tmp_path}/out.npy")
        assert result.exit_code == 0, result.stderr
        np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), 2 * x + y)

    @pytest.mark.parametrize(
        ("arguments", "status", "code"),
        [
            ((), 2, "E-4191"),
            (("--shape", "N=10"), 2, "E-4190"),
            (("--shape", "N=10", "--arg", "a=x"), 1, "E-4062"),
            (("--shape", "N=10", "--arg", "a=1", "--arg", "x=nowhere.npy"), 1, "E-4192"),
            (("--shape", "N=99999999999", "--arg", "a=1"), 1, "E-4057"),
            (("--shape", "N=0", "--arg", "a=1"), 2, "positive"),
            (("--shape", "M=4", "--shape", "N=4", "--arg", "a=1"), 2, "no dimension"),
            (("--shape", "N=4", "--arg", "b=1"), 2, "no parameter"),
            (("--shape", "N=4", "--arg", "a=1", "--save", "a=x.npy"), 2, "no parameter"),
            (("--shape", "N4",), 2, "NAME=VALUE"),
            (("--shape", "N=4", "--shape", "N=8", "--arg", "a=1"), 2, "given twice"),
            (("--shape", "N=4", "--arg", "a=1", "--kernel", "axpy"), 2, "E-3104"),
            (("--shape", "N=4", "--arg", "a=1", "--level", "ptx", "--schedule", "hostile"), 2, "E-7003"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_said(self, arguments, status, code):
        result = croq("sim", SAXPY, *arguments)
        assert result.exit_code == status and code in result.stderr

    def test_a_bad_schedule(self):
        assert croq("sim", SAXPY, *self.SHAPE, "--schedule", "wild").exit_code == 2

    @pytest.mark.parametrize("level", ["ir", "ptx"])
    def test_what_is_printed_is_a_part_of_the_json(self, tmp_path, level):
        path = tmp_path / "say.co"
        path.write_text(
            '__device__ void say(int i) { if (i == 3) printf("i is %d\\n", i); }\n'
            "__co__ void f(global f32 [N] x) {\n  parallel b by 1 : block, t by 32 : thread {\n"
            "    call say(t);\n    x.at(t) = 1.0f;\n  }\n}\n"
        )
        result = croq("sim", path, "--shape", "N=32", "--level", level, "--format", "json")
        assert json.loads(result.stdout)["printed"] == "i is 3\n"

    def test_what_is_written_is_said(self, tmp_path):
        path = tmp_path / "y.npy"
        assert f"wrote {path}" in croq("sim", SAXPY, *self.SHAPE, "--save", f"y={path}").stderr


class TestRun:
    SMALL = ("--batch", 1, "--heads", 2, "--seq", 256, "--device", "sim")

    @pytest.mark.parametrize("kernel", ["v1", "v2", "v4"])
    def test_the_shipped_kernels(self, kernel):
        result = croq("run", kernel, *self.SMALL, "--tiles", 4)
        assert result.exit_code == 0, result.stderr
        assert "check   ok" in result.stdout and "4 of 4 blocks" in result.stdout

    def test_a_persistent_kernel_says_which_tasks_ran(self):
        result = croq("run", "v3", *self.SMALL, "--tiles", 3)
        assert result.exit_code == 0, result.stderr
        assert "3 of 4 tasks on 2 of 132 persistent blocks" in result.stdout

    def test_another_shape_and_no_mask(self):
        result = croq("run", "tests/cases/attention_d64.co", *self.SMALL, "--dim", 64, "--no-mask")
        assert result.exit_code == 0, result.stderr
        assert "f16, no mask" in result.stdout

    def test_a_wrong_result_is_status_4(self, tmp_path):
        from tests.conftest import ROOT

        text = (ROOT / "kernels/v4.co").read_text().replace("if (j > cid * WG_M + i)", "if (j >= cid * WG_M + i)")
        path = tmp_path / "wrong.co"
        path.write_text(text)
        result = croq("run", path, *self.SMALL)
        assert result.exit_code == 4
        assert "E-4160" in result.stderr and "WRONG" in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [(("v4", "--dim", 64), "E-4152"), ((SAXPY,), "E-4151")],
    )
    def test_what_is_wrong_is_said(self, arguments, code):
        result = croq("run", "--device", "sim", *arguments)
        assert result.exit_code == 1 and code in result.stderr

    @pytest.mark.parametrize("kernel", ["v1", "v2", "v3", "v4", "v5"])
    def test_a_sequence_need_not_fill_its_last_tile(self, kernel):
        result = croq("run", kernel, "--device", "sim", "--batch", 1, "--heads", 1, "--seq", 200)
        assert result.exit_code == 0 and "check   ok" in result.stdout, result.stderr

    def test_json(self):
        result = croq("run", "v4", *self.SMALL, "--format", "json")
        assert result.stderr == ""  # remarks are no JSON
        made = json.loads(result.stdout)
        assert made["check"]["ok"] is True and made["timing"] is None
        assert made["simulated"]["schedule"] == "eager"
