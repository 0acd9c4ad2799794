"""What docs/extending.md shows is done in a copy of the checkout, and is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extending.scratch import Scratch, changed, diff_of, files_of, gained

FUNCTION = "A function of floats"
OPERATION, PASS, PEER = "An operation of the machine", "A pass", "A peer of `croq bench`"
DIAGNOSTIC, PAGES = "A diagnostic", "tests/api/test_diagnostic_pages.py"
CONTRACTS = "tests/passes/test_contracts.py"
CONSUMERS = "tests/ir/test_consumers.py"
UPDATED = ("tests/emit/test_samples.py", "tests/ir/test_printer_docs.py")


# -------------------------------------------------------------------------------------------------------- a function
LOGARITHMS = """
import croq, numpy
for name, type in (("f32", numpy.float32), ("f64", numpy.float64), ("bf16", None)):
    text = f"__co__ void k(global {name} [32] x) {{ parallel t by 32 : thread {{ x.at(t) = __log2(x.at(t)); }} }}\\n"
    kernel = croq.compile(text)
    print(kernel.cuda.count("croq::lg2("))
    if type is not None:
        for level in ("ir", "ptx"):
            x = numpy.linspace(0.5, 8, 32, dtype=type)
            wanted = numpy.log2(x)
            croq.simulate(kernel, x, level=level)
            numpy.testing.assert_allclose(x, wanted, atol=2.0**-22 if type is numpy.float32 else 1e-15)
print(*(d.message for d in croq.check(text.replace("(x.at(t))", "(x.at(t), 2)"))))
"""


def test_a_function_is_a_row_and_what_cuda_lacks(scratch: Scratch) -> None:
    scratch.apply(diff_of(FUNCTION))
    assert scratch.succeeds("-c", LOGARITHMS).splitlines() == ["1"] * 3 + ["`__log2` takes 1 argument, 2 are given"]
    scratch.passes("--update-golden", "tests/api/test_functions.py")
    scratch.passes("tests/api/test_functions.py", "tests/driver/test_prelude.py", "tests/syntax/test_grammar.py")


def test_a_function_without_doubles_is_named(scratch: Scratch) -> None:
    scratch.apply(files_of(diff_of(FUNCTION))["croq/functions.py"])
    said = scratch.fails("tests/api/test_functions.py", "-k", "test_the_runtime_has_it")
    assert "test_the_runtime_has_it_for_both_types[double-log2]" in said and "1 failed" in said


# ------------------------------------------------------------------------------------------------------- an operation
def test_an_operation_is_known_to_everybody(scratch: Scratch) -> None:
    scratch.apply(diff_of(OPERATION))
    scratch.passes("--update-golden", *UPDATED)
    scratch.passes(CONSUMERS, "tests/ir", "tests/emit/test_coverage.py", "tests/emit/test_samples.py")


@pytest.mark.parametrize("forgotten", ["croq/ir/verify.py", "croq/simulate/ops_copy.py", "croq/verify/hw.py"])
def test_a_forgotten_rule_is_named(scratch: Scratch, forgotten: str) -> None:
    files = files_of(diff_of(OPERATION))
    scratch.apply("".join(diff for path, diff in files.items() if path != forgotten))
    assert "has no rule for `tensor_map.prefetch`" in scratch.fails(CONSUMERS)


def test_every_rule_of_an_operation_is_asked_for(scratch: Scratch) -> None:
    """With its class alone, every other file of the diff is missed by somebody."""
    files = files_of(diff_of(OPERATION))
    scratch.apply(files["croq/ir/hw.py"])
    said = scratch.fails(CONSUMERS, "tests/emit/test_coverage.py")
    missed = [line for line in said.splitlines() if line.endswith("has no rule for `tensor_map.prefetch`")]
    rules = {path for path in files if path.startswith(("croq/", "tools/"))}
    rules -= {"croq/ir/hw.py", "croq/emit/templates/tensor_map.prefetch.j2"}
    assert len({line.removeprefix("E").strip() for line in missed}) == len(rules)


# ------------------------------------------------------------------------------------------------------------- a pass
def test_a_pass_does_what_its_rule_says(scratch: Scratch) -> None:
    scratch.apply(diff_of(OPERATION))
    scratch.apply(diff_of(PASS))
    cuda = scratch.succeeds("-m", "croq", "compile", "v4", "--emit", "cuda")
    assert cuda.count("croq::prefetch_tensormap(&") == 4
    assert cuda.index("croq::prefetch_tensormap(&Q_map)") < cuda.index("croq::tma_load")
    assert "proved for all schedules" in scratch.succeeds("-m", "croq", "check", "v4")
    assert "prefetch" in scratch.succeeds("-m", "croq", "compile", "v4", "--after", "prefetch")
    scratch.passes("--update-golden", CONTRACTS)
    scratch.passes(CONTRACTS, "tests/passes/test_cases.py", "tests/test_rules.py", "tests/test_layering.py")
    scratch.passes("tests/passes/test_resume.py", "tests/api/test_docs.py")


def test_a_pass_before_what_it_needs_is_refused(scratch: Scratch) -> None:
    scratch.apply(diff_of(OPERATION))
    scratch.apply(
        diff_of(PASS)
        .replace("         DeadCode(),\n+        Prefetch(),", "         Events(),\n+        Prefetch(),")
        .replace("         Prologue(),\n", "         Moves(),\n")
    )
    assert "pass `prefetch` stands before moves" in scratch.run("-m", "croq", "compile", "v4").stderr


# ------------------------------------------------------------------------------------------------------- a diagnostic
def test_a_diagnostic_is_reported_and_explained(scratch: Scratch) -> None:
    scratch.apply(diff_of(DIAGNOSTIC))
    assert "docs/diagnostics/W-716.md" in files_of(diff_of(DIAGNOSTIC))
    scratch.fails(PAGES, "-k", "W-716")
    scratch.passes("--update-golden", PAGES, "-k", "W-716")
    scratch.passes(PAGES, "-k", "W-716 or have_a_page")
    said = "warning[W-716]: 48 threads leave a part of a warp empty"
    assert said in scratch.succeeds("-m", "croq", "explain", "W-716")


def test_a_code_without_a_page_is_named(scratch: Scratch) -> None:
    scratch.apply(files_of(diff_of(DIAGNOSTIC))["croq/sema/levels.py"])
    assert "assert ['W-716'] == []" in scratch.fails(PAGES, "-k", "have_a_page")


# ------------------------------------------------------------------------------------------------------------- a peer
WITHOUT_TORCH = """
from croq.bench.peers import PEERS
from croq.bench.workload import AttentionWorkload
for peer in PEERS:
    print(peer.name, "-", peer.missing(AttentionWorkload(dtype="f16")))
"""
TORCH = """
import numpy

class Tensor(numpy.ndarray):
    def transpose(self, a, b):
        return self.swapaxes(a, b)

def from_dlpack(array):
    return array.view(Tensor)

class cuda:
    is_available = staticmethod(lambda: True)
"""
FUNCTIONAL = """
import numpy

def scaled_dot_product_attention(q, k, v, scale, is_causal):
    scores = scale * q @ k.swapaxes(2, 3)
    if is_causal:
        scores = numpy.where(numpy.tri(scores.shape[2], dtype=bool), scores, -numpy.inf)
    weights = numpy.exp(scores - scores.max(axis=3, keepdims=True))
    return weights / weights.sum(axis=3, keepdims=True) @ v
"""
WITH_TORCH = """
import numpy
from croq.bench.peers import PEERS
from croq.bench.reference import attention_reference
from croq.bench.workload import AttentionWorkload
workload = AttentionWorkload(1, 2, 40, 16)
q, k, v = (numpy.random.default_rng(n).standard_normal((1, 40, 2, 16)) for n in range(3))
peer = next(peer for peer in PEERS if peer.name == "PyTorch")
assert peer.missing(workload) is None
launch, output = peer.prepare(workload, q, k, v)
launch()
for part in attention_reference(q, k, v, {(0, 0): range(40), (0, 1): range(40)}, causal=True):
    numpy.testing.assert_allclose(output()[part.slab[0], :, part.slab[1]], part.values, atol=1e-12)
"""


def test_a_peer_that_is_missing_says_so(scratch: Scratch) -> None:
    scratch.apply(diff_of(PEER))
    scratch.write("torch.py", 'raise ImportError("it is not here")')
    said = scratch.succeeds("-c", WITHOUT_TORCH).splitlines()
    assert said == [
        "FA3 - the package has no f16 kernels",
        "PyTorch - `torch` cannot be imported (it is not here); install `torch`",
    ]
    scratch.passes("tests/bench/test_suite.py")


def test_a_peer_computes_what_the_kernels_do(scratch: Scratch) -> None:
    scratch.apply(diff_of(PEER))
    scratch.write("torch/__init__.py", TORCH)
    scratch.write("torch/nn/functional.py", FUNCTIONAL)
    scratch.succeeds("-c", WITH_TORCH)


# -------------------------------------------------------------------------------------------------------- the harness
def test_a_hunk_fits_one_place_or_none(tmp_path: Path) -> None:
    assert changed("a\nb\nc\n", [" b", "+x"], "f") == "a\nb\nx\nc\n"
    assert changed("a\nb\nb\n", [" a", "-b"], "f") == "a\nb\n"
    with pytest.raises(AssertionError, match="fits 2 places of f"):
        changed("b\nb\n", ["-b"], "f")
    with pytest.raises(AssertionError, match="fits 0 places of f"):
        changed("ab\n", ["-b"], "f")


@pytest.mark.parametrize(("section", "most"), [(FUNCTION, 2), (OPERATION, 25), (PASS, 30), (PEER, 12)])
def test_the_diffs_are_short(section: str, most: int) -> None:
    """Cases (`.cir`) do not count: `--update-golden` writes the half below the dashes."""
    parts = files_of(diff_of(section))
    assert sum(gained(part) for path, part in parts.items() if not path.endswith(".cir")) <= most
