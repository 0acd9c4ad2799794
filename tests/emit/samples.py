"""Hardware IR as text for the tests of this folder: one small kernel for each thing that emission must get right."""

from __future__ import annotations

import re
from textwrap import dedent

from croq.emit import emit_cuda
from croq.ir.objects import Kernel
from croq.ir.parser import parse_kernel

ALL = "threads {0..128}"


def kernel(objects: str, body: str, *, threads: int = 128) -> Kernel:
    """A kernel of one CTA with these objects and this body; `ALL` in the text means all 128 threads."""
    text = f'kernel k file="k.co", grid=(1, 1, 1), threads={threads} {{\n{dedent(objects)}\n{dedent(body)}\n}}\n'
    return parse_kernel(text.replace("ALL", ALL))


def cuda(objects: str, body: str, *, threads: int = 128) -> str:
    return emit_cuda([kernel(objects, body, threads=threads)])


def body_of(text: str) -> str:
    """The last function's body behind the declarations at its top, without indentation and comments."""
    body = text[text.rindex(") {\n") + 4 :]
    lines = [re.sub(r"\s*//.*$", "", line) for line in body.splitlines()]
    lines = [line for line in lines if line.strip() and not line.startswith("}")]
    top = re.compile(r"  const(expr)? \w+ (thread|lane|warp_row|lane_row|lane_col|smem|\w+_offset|\w+_stride|\w+_lo|\w+_hi) = ")
    address = re.compile(r"  const u32 \w+ = smem \+ \w+_offset;")
    return dedent("\n".join(line for line in lines if not top.match(line) and not address.match(line)))


SAMPLES: dict[str, tuple[str, str]] = {}


def sample(name: str, objects: str, body: str) -> tuple[str, str]:
    SAMPLES[name] = (objects, body)
    return SAMPLES[name]


# ----------------------------------------------------------------------------------------------------------- scalars
VARIABLES = sample(
    "variables",
    "param @out type=s32, shape=(N)\nvariable @n type=s32\nvariable @m type=s32",
    """
    %zero: s32 = const 0
    var.declare @n, %zero
    var.declare @m, %zero
    %0: s32 = var.get @n
    %one: s32 = const 1
    %1: s32 = binary add, %0, %one
    var.set @n, %1
    %2: s32 = var.get @n
    %3: s32 = binary mul, %2, %2
    store_element @out[0:N], (%0), %3
    %four: s32 = const 4
    for %i: s32, %four {
      %5: s32 = var.get @m
      %6: s32 = binary add, %5, %i
      var.set @m, %6
      %7: s32 = var.get @m
      %8: s32 = binary mul, %7, %2
      store_element @out[0:N], (%i), %8
      var.set @n, %one
    }
    """,
)
ARITHMETIC = sample(
    "arithmetic",
    "param @x type=f32, shape=(N)\nparam @h type=bf16, shape=(N)\nparam @d type=f64, shape=(N)\nparam @b type=u8, shape=(N)",
    """
    %i: s32 = thread_index ALL
    %0: f32 = load_element @x[0:N], (%i)
    %1: f32 = unary neg, %0
    %2: f32 = unary neg, %1
    %3: f32 = const -inf
    %4: f32 = const 0.1
    %5: bool = binary lt, %0, %4
    %6: f32 = select %5, %3, %2
    %7: f32 = math tanh, (%6)
    %8: f32 = binary div, %7, %0
    store_element @x[0:N], (%i), %8
    %9: bf16 = load_element @h[0:N], (%i)
    %10: bf16 = binary mul, %9, %9
    %11: bf16 = const 2.0
    %12: bf16 = binary max, %10, %11
    %13: bf16 = math exp2f, (%12)
    store_element @h[0:N], (%i), %13
    %14: f64 = load_element @d[0:N], (%i)
    %15: f64 = math exp, (%14)
    store_element @d[0:N], (%i), %15
    %16: u8 = load_element @b[0:N], (%i)
    %17: u8 = binary add, %16, %16
    %18: s32 = cast %17
    %19: s32 = const 3
    %20: s32 = binary and, %18, %19
    %21: s32 = const 70000
    %22: s32 = binary shl, %20, %19
    %23: s32 = binary or, %22, %21
    %24: u8 = cast %23
    store_element @b[0:N], (%i), %24
    """,
)
CONTROL = sample(
    "control",
    "param @x type=u32, shape=(N)\nvariable @v type=u32",
    """
    %i: s32 = thread_index ALL
    %0: u32 = load_element @x[0:N], (%i)
    var.declare @v, %0
    while head {
      %1: u32 = var.get @v
      %limit: u32 = const 100
      %c: bool = binary lt, %1, %limit
    } %c body {
      %2: u32 = var.get @v
      %three: u32 = const 3
      %4: u32 = binary mul, %2, %three
      var.set @v, %4
      %odd: bool = binary eq, %4, %three
      if %odd then {
        break
      } otherwise {
        continue
      }
    }
    cpp "// by hand\\n__syncwarp();"
    %6: u32 = call helper, (64, f32), (%limit_2, @x[0:N])
    """.replace("%limit_2", "%0"),
)
