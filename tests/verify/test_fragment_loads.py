"""A fragment filled by ldmatrix reads its tile as element loads do: what waits or orders too little is refused."""

from __future__ import annotations

import numpy as np
import pytest

from croq.ir.objects import Kernel
from croq.ir.parser import parse_kernel
from croq.simulate import SimulationFault
from croq.simulate import run as simulate
from croq.verify import verify_protocol
from tests.verify.helpers import kernels, read

PROGRAM = read("tests/programs/loaded_operand.co")
LOAD = """          apply {i, j} in left.span
            left.at(i, j) = a_buf[k % STAGES].subspan(ROWS, TILE_K).at(p - 1, 0).at(i, j);
"""
GIVE_BACK = "          trigger a_empty.at(k);\n"
WAIT = "          wait full.at(k);\n"
OWN = """kernel k file="k.co", grid=(1, 1, 1), threads=128, shared_bytes=8192 {
  buffer @s type=bf16, shape=(64, 64), offset=0
  fragment @f type=bf16, shape=(64, 64), layout=accumulator(m=64, n=64), packed=true
  frag.declare @f
  %one: bf16 = const 1.0
  reg.fill @f, %one
  reg.store @f, @s[0:64, 0:64], store, (), pairs=false
  FIRST
  reg.load @f, @s[0:64, 0:64]
  SECOND
  reg.store @f, @s[0:64, 0:64], store, (), pairs=false
}
"""


def proof(kernel: Kernel) -> str:
    found = verify_protocol(kernel)
    return found.diagnostics()[0].code if not found.proved else "proved"


def race(kernel: Kernel, **shapes: tuple[int, int]) -> str:
    arrays = {name: np.ones(shape, "bfloat16") for name, shape in shapes.items()}
    try:
        simulate(kernel, arrays, schedule="random:3", races=True)
    except SimulationFault as fault:
        return fault.diagnostics[0].code
    return "proved"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (PROGRAM, "proved"),
        (PROGRAM.replace(LOAD + GIVE_BACK, GIVE_BACK + LOAD), "E-6002"),
        (PROGRAM.replace(WAIT, ""), "E-6001"),
    ],
    ids=["right", "given back too early", "not waited for"],
)
def test_a_load_keeps_its_tile(text: str, code: str) -> None:
    (kernel,) = kernels(text)
    assert proof(kernel) == code
    assert (race(kernel, a=(128, 256), b=(64, 256), c=(128, 64)) == "proved") == (code == "proved")


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [("warp.sync", "warp.sync", "proved"), ("", "warp.sync", "E-6001"), ("warp.sync", "", "E-6002")],
)
def test_lanes_receive_what_others_address(first: str, second: str, code: str) -> None:
    """The stores are of each lane's own elements, the load is not."""
    kernel = parse_kernel(OWN.replace("FIRST", first).replace("SECOND", second))
    assert proof(kernel) == code
    assert (race(kernel) == "proved") == (code == "proved")
