"""Small PTX programs for tests: text around a body, and what came out."""

from __future__ import annotations

from typing import Any

import numpy as np

from croq.ptx.parse import parse
from croq.ptx.run import Launch, Pointer, PtxReport, execute

HEAD = """
.version 8.3
.target sm_90a
.address_size 64
"""
REGISTERS = """
.reg .pred %p<20>;
.reg .b16 %h<20>;
.reg .b32 %r<40>;
.reg .f32 %f<20>;
.reg .b64 %rd<40>;
.reg .f64 %d<20>;
"""


def program(body: str, params: int, module: str = "", shared: bool = False) -> str:
    """A kernel `k` whose parameters are pointers; %rd1.. hold them, %r1 the thread index."""
    declared = ", ".join(f".param .u64 k_{i}" for i in range(params))
    loads = "\n".join(f"ld.param.u64 %rd{i + 1}, [k_{i}];" for i in range(params))
    window = ".extern .shared .align 1024 .b8 smem[];" if shared else ""
    inside = f"{REGISTERS}{loads}\nmov.u32 %r1, %tid.x;\n{body}"
    return f"{HEAD}{window}{module}\n.visible .entry k({declared})\n{{{inside}\n}}\n"


def run(
    body: str, *arrays: np.ndarray[Any, Any], threads: int = 32, shared: int = 0, module: str = "", **options: Any
) -> PtxReport:
    """Execute a body with arrays as its parameters."""
    text = program(body, len(arrays), module, shared > 0)
    names = [f"a{i}" for i in range(len(arrays))]
    arguments = tuple(Pointer(name) for name in names)
    launch = Launch("k", (1, 1, 1), (threads, 1, 1), shared, arguments, dict(zip(names, arrays, strict=True)))
    return execute(parse(text), launch, **options)


_REGISTER = {1: "%h", 2: "%h", 4: "%r", 8: "%rd"}


def computed(instructions: str, result: Any, *inputs: Any) -> np.ndarray[Any, Any]:
    """What instructions make of values, one a thread: they read `{0}`, `{1}` .. and write `{d}`, of dtype `result`."""
    arrays = [np.ascontiguousarray(x) for x in inputs]
    out = np.zeros(len(arrays[0]), result)
    names, loads = {}, []
    for number, array in enumerate(arrays):
        size = array.dtype.itemsize
        names[str(number)] = f"{_REGISTER[size]}{number + 10}"
        loads.append(f"mad.wide.u32 %rd30, %r1, {size}, %rd{number + 1};")
        loads.append(f"ld.global.b{size * 8} {names[str(number)]}, [%rd30];")
    size = out.dtype.itemsize
    names["d"] = f"{_REGISTER[size]}19"
    text = instructions
    for name, register in names.items():
        text = text.replace("{" + name + "}", register)
    store = f"mad.wide.u32 %rd30, %r1, {size}, %rd{len(arrays) + 1}; st.global.b{size * 8} [%rd30], {names['d']};"
    run("\n".join([*loads, text, store, "ret;"]), *arrays, out, threads=len(out))
    return out
