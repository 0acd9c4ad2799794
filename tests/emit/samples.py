"""Hardware IR as text for the tests of this folder: small kernels that together use every hardware operation."""

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


def cuda(objects: str, body: str, *, threads: int = 128, lineinfo: bool = False) -> str:
    return emit_cuda([kernel(objects, body, threads=threads)], lineinfo=lineinfo)


def function_of(text: str) -> str:
    """The text of the last kernel function."""
    return text[text.rindex('extern "C"') :]


def body_of(text: str) -> str:
    """What the function does: its lines without indentation, comments and the declarations at the top."""
    function = function_of(text)
    head = re.search(r"\) \{.*\n", function)
    assert head is not None
    lines = [re.sub(r"\s*//.*$", "", line) for line in function[head.end() :].splitlines()]
    kept = [line for line in lines if line.strip() and not line.startswith("}") and not _TOP.match(line)]
    return dedent("\n".join(kept))


_TOP = re.compile(
    r"  const(expr)? \w+ ((thread|lane|warp_row|lane_row|lane_col|smem|\w+_(offset|stride|lo|hi)) = |\w+ = smem \+)"
)

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
    """
    param @x type=f32, shape=(N)
    param @h type=bf16, shape=(N)
    param @d type=f64, shape=(N)
    param @b type=u8, shape=(N)
    """,
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
    while %c head {
      %1: u32 = var.get @v
      %limit: u32 = const 100
      %c: bool = binary lt, %1, %limit
    } body {
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
    %6: u32 = call helper, ("64", float), (%0, @x[0:N])
    store_element @x[0:N], (%i), %6
    call helper, (), (%0)
    """,
)

# ------------------------------------------------------------------------------------------------------------ places
MEMORY = sample(
    "memory",
    """
    param @x type=f32, shape=(B, M, 64)
    buffer @plain type=f32, shape=(8, 16), slots=2, array=true, offset=1024
    buffer @swizzled type=bf16, shape=(64, 128), swizzle=64, offset=4096, alignment=1024
    buffer @slabs type=bf16, shape=(64, 16), swizzle=16, offset=20480
    buffer @own type=f32, shape=(4, 4), storage=local
    """,
    """
    %i: s32 = thread_index ALL
    %b: s32 = block_index 1 ALL
    %two: s32 = const 2
    %0: f32 = load_element @x[%b:1!, %i:M, 3:61] kept (1, 2), (%two, %i) ALL
    store_element @plain<%two>[%b:1!, 4:12] kept (1), (%i), %0 ALL
    %1: f32 = load_element @own[1:3, 0:4], (%two, %i) ALL
    store_element @own[0:4, 0:4], (%two, %two), %1 ALL
    %2: bf16 = load_element @swizzled[0:64, 64:64], (%i, %two) ALL
    store_element @slabs[0:64, 0:16], (%i, %two), %2 ALL
    call touch, (), (@own[0:4, 0:4], @plain<1>[0:8, 0:16], @x[%b:1!, 0:M, 0:64] kept (1, 2)) ALL
    """,
)
COPIES = sample(
    "copies",
    """
    param @x type=bf16, shape=(M, 128)
    param @y type=bf16, shape=(M, N)
    param @z type=s32, shape=(4, 8, 16)
    buffer @tile type=bf16, shape=(64, 128), swizzle=128, offset=0, alignment=1024
    buffer @cube type=s32, shape=(4, 8, 16), slots=2, array=true, offset=16384
    """,
    """
    %b: s32 = block_index 0 ALL
    %size: s32 = const 64
    %0: s32 = binary mul, %b, %size ALL
    copy_tile @x[%0:64, 0:128], (0), @tile[0:64, 0:128], (),
      vector=16, rank_base=0, count=128, asynchronous=true, unroll=8 ALL
    copy_tile @tile[0:64, 0:128], (), @x[%0:64, 0:128], (0),
      vector=16, rank_base=0, count=128, asynchronous=false, unroll=8 ALL
    copy_tile @y[%0:64, %0:128], (0, 1), @tile[0:64, 0:128], (),
      vector=2, rank_base=32, count=64, asynchronous=false, unroll=8 ALL
    copy_tile @z[0:4, 0:8, 0:16], (), @cube<1>[0:4, 0:8, 0:16], (),
      vector=8, rank_base=0, count=128, asynchronous=false, unroll=2 ALL
    %1: s32 = const 7
    fill_tile @cube[0:4, 0:8, 0:16], %1, vector=16, rank_base=0, count=128 ALL
    %2: bf16 = const 0.5
    fill_tile @tile[0:64, 0:128], %2, vector=16, rank_base=64, count=64 ALL
    """,
)

# --------------------------------------------------------------------------------------------------------- registers
MAPS = sample(
    "maps",
    """
    param @bias type=f32, shape=(128, 32)
    fragment @wide type=f32, shape=(128, 32), layout=accumulator(m=128, n=32)
    fragment @more type=f32, shape=(128, 32), layout=accumulator(m=128, n=32)
    fragment @pairs type=bf16, shape=(128, 32), layout=accumulator(m=128, n=32), packed=true
    fragment @rows type=f32, shape=(128), layout=row(m=128)
    fragment @flat type=s32, shape=(10, 30), layout=uniform(shape=(10, 30), threads=128)
    """,
    """
    frag.declare @wide ALL
    frag.declare @more ALL
    frag.declare @pairs ALL
    frag.declare @rows ALL
    frag.declare @flat ALL
    %0: f32 = const 0.0
    reg.fill @wide, %0 ALL
    reg.fill @rows, %0 ALL
    %1: bf16 = const 0.0
    reg.fill @pairs, %1 ALL
    reg.map @wide, (%i: s32), (%i_1: s32, %j: s32), guard=false ALL row_body {
      %2: f32 = frag_read @rows, (%i) ALL
      %3: f32 = binary mul, %2, %2 ALL
      frag_write @rows, (%i), %3 ALL
    } body {
      %4: f32 = load_element @bias[0:128, 0:32], (%i_1, %j) ALL
      %5: f32 = frag_read @rows, (%i_1) ALL
      %6: f32 = binary add, %4, %5 ALL
      frag_write @wide, (%i_1, %j), %6 ALL
    }
    reg.map @wide, (%i_2: s32), (%i_3: s32, %j_1: s32), guard=false ALL row_body {
      %7: f32 = frag_read @rows, (%i_2) ALL
      %half: f32 = binary mul, %7, %7 ALL
    } body {
      %9: s32 = binary add, %i_3, %j_1 ALL
      %10: f32 = cast %9 ALL
      %11: f32 = binary mul, %10, %half ALL
      frag_write @wide, (%i_3, %j_1), %11 ALL
    }
    reg.map @pairs, (), (%i_4: s32, %j_2: s32), guard=false ALL body {
      %12: f32 = frag_read @wide, (%i_4, %j_2) ALL
      %13: f32 = cast %j_2 ALL
      %14: f32 = binary mul, %12, %13 ALL
      %15: bf16 = cast %14 ALL
      frag_write @pairs, (%i_4, %j_2), %15 ALL
    }
    reg.map @pairs, (), (%i_5: s32, %j_3: s32), guard=false ALL body {
      %16: bool = binary lt, %i_5, %j_3 ALL
      if %16 ALL then {
        %17: bf16 = frag_read @pairs, (%i_5, %j_3) ALL
        %18: bf16 = unary neg, %17 ALL
        frag_write @pairs, (%i_5, %j_3), %18 ALL
      }
    }
    reg.map @flat, (), (%i_6: s32, %j_4: s32), guard=true ALL body {
      %19: s32 = binary mul, %i_6, %j_4 ALL
      frag_write @flat, (%i_6, %j_4), %19 ALL
    }
    reg.reduce_row max, @rows, @wide ALL
    reg.reduce_row sum, @rows, @pairs ALL
    reg.shuffle_reduce sum, @rows, lanes=4 ALL
    reg.copy @more, @wide ALL
    """,
)
STORES = sample(
    "stores",
    """
    param @c type=f32, shape=(M, 40)
    param @odd type=bf16, shape=(M, N)
    param @r type=f32, shape=(M)
    param @u type=s32, shape=(10, 30)
    buffer @swizzled type=bf16, shape=(128, 64), swizzle=64, offset=0, alignment=1024
    buffer @slabs type=f16, shape=(128, 40), swizzle=16, offset=16384
    buffer @plain type=f32, shape=(128, 40), offset=32768
    fragment @acc type=f32, shape=(128, 40), layout=accumulator(m=128, n=40)
    fragment @half type=bf16, shape=(64, 64), layout=accumulator(m=64, n=64), packed=true
    fragment @tall type=f16, shape=(128, 40), layout=accumulator(m=128, n=40), packed=true
    fragment @rows type=f32, shape=(128), layout=row(m=128)
    fragment @flat type=s32, shape=(10, 30), layout=uniform(shape=(10, 30), threads=128)
    """,
    """
    frag.declare @acc ALL
    frag.declare @half ALL
    frag.declare @tall ALL
    frag.declare @rows ALL
    frag.declare @flat ALL
    %b: s32 = block_index 0 ALL
    %0: f32 = const 1.0
    reg.fill @acc, %0 ALL
    reg.fill @rows, %0 ALL
    %1: bf16 = const 1.0
    reg.fill @half, %1 ALL
    %2: s32 = const 1
    reg.fill @flat, %2 ALL
    %size: s32 = const 128
    %3: s32 = binary mul, %b, %size ALL
    reg.store @acc, @c[%3:128, 0:40], store, (0), pairs=true ALL
    reg.store @acc, @odd[%3:128, 0:40], store, (0, 1), pairs=false ALL
    reg.store @acc, @slabs[0:128, 0:40], stmatrix, (), pairs=false ALL
    reg.store @acc, @plain[0:128, 0:40], store, (), pairs=true ALL
    reg.store @half, @swizzled[64:64, 0:64], stmatrix, (), pairs=false ALL
    reg.store @rows, @r[%3:128], store, (0), pairs=false ALL
    reg.store @flat, @u[0:10, 0:30], store, (), pairs=false ALL
    reg.load @half, @swizzled[64:64, 0:64] ALL
    reg.load @tall, @slabs[0:128, 0:40] ALL
    """,
)

# ------------------------------------------------------------------------------------------------------ tensor cores
PIPELINE = sample(
    "pipeline",
    """
    param @a type=bf16, shape=(M, K), access={tma}
    param @b type=bf16, shape=(N, K), access={tma}
    param @c type=bf16, shape=(M, N), access={tma}
    buffer @a_buf type=bf16, shape=(128, 64), slots=3, array=true, swizzle=128, offset=0, alignment=1024
    buffer @b_buf type=bf16, shape=(128, 64), slots=3, array=true, swizzle=128, offset=49152, alignment=1024
    buffer @c_buf type=bf16, shape=(128, 128), swizzle=128, offset=98304, alignment=1024
    fragment @acc type=f32, shape=(128, 128), layout=accumulator(m=128, n=128)
    event @full slots=3, array=true, lowering=mbarrier, arrivals=1, tx_bytes=32768, offset=131072
    event @empty slots=3, ready=true, array=true, lowering=mbarrier, arrivals=4, offset=131096
    event @done lowering=named_barrier, barrier_id=3, barrier_threads=256
    variable @order type=u32
    variable @order_2 type=u32
    tensor_map @a_map param=@a, box=(64, 128), axes=(1, 0), split=_, dims=(K, M), swizzle=128
    tensor_map @b_map param=@b, box=(64, 128), axes=(1, 0), split=_, dims=(K, N), swizzle=128
    tensor_map @c_map param=@c, box=(64, 128), axes=(1, 0), split=_, dims=(N, M), swizzle=128
    """,
    """
    elect set, thread=0 threads {0..256} {
      mbarrier.init @full, count=1 threads {0..1}
      mbarrier.init @empty, count=4 threads {0..1}
      mbarrier.init_fence threads {0..1}
    }
    cta.sync threads {0..256}
    %bm: s32 = block_index 0 threads {0..256}
    %bn: s32 = block_index 1 threads {0..256}
    %K: s32 = symbol K threads {0..256}
    %90: s32 = const 64 threads {0..256}
    %steps: s32 = binary cdiv, %K, %90 threads {0..256}
    %t: s32 = thread_index threads {0..256}
    %91: s32 = const 128 threads {0..256}
    %p: s32 = binary div, %t, %91 threads {0..256}
    %92: s32 = const 0 threads {0..256}
    %first: bool = binary eq, %p, %92 threads {0..256}
    section "p == 0", thread, role=true, %first threads {0..128} {
      setmaxnreg dec, count=40 threads {0..128}
      %0: u32 = const 0 threads {0..128}
      var.declare @order, %0 threads {0..128}
      for %k: s32, %steps threads {0..128} {
        %1: u32 = var.get @order threads {0..128}
        %three: u32 = const 3 threads {0..128}
        %slot: u32 = binary mod, %1, %three threads {0..128}
        %2: u32 = binary div, %1, %three threads {0..128}
        %one: u32 = const 1 threads {0..128}
        %3: u32 = binary and, %2, %one threads {0..128}
        %4: u32 = binary xor, %3, %one threads {0..128}
        mbarrier.wait @empty, %slot, %4 threads {0..128}
        elect set, thread=0 threads {0..128} {
          mbarrier.expect_tx @full, %slot, bytes=32768 threads {0..1}
          %5: s32 = binary mul, %k, %90 threads {0..1}
          %6: s32 = binary mul, %bm, %91 threads {0..1}
          %7: s32 = binary mul, %bn, %91 threads {0..1}
          bulk_tensor.load @a_map, (%5, %6), @a_buf<%slot>[0:128, 0:64], start(), @full, %slot,
            evict_first threads {0..1}
          bulk_tensor.load @b_map, (%5, %7), @b_buf<%slot>[0:128, 0:64], start(), @full, %slot, _ threads {0..1}
        }
        %8: u32 = binary add, %1, %one threads {0..128}
        var.set @order, %8 threads {0..128}
      }
      named_barrier.arrive barrier=3, count=256, @done threads {0..128}
    }
    %second: bool = binary gt, %p, %92 threads {0..256}
    section "p > 0", thread, role=true, %second threads {128..256} {
      setmaxnreg inc, count=232 threads {128..256}
      frag.declare @acc threads {128..256}
      %10: f32 = const 0.0 threads {128..256}
      reg.fill @acc, %10 threads {128..256}
      %11: u32 = const 0 threads {128..256}
      var.declare @order_2, %11 threads {128..256}
      for %k_1: s32, %steps threads {128..256} {
        %12: u32 = var.get @order_2 threads {128..256}
        %three_1: u32 = const 3 threads {128..256}
        %13: u32 = binary mod, %12, %three_1 threads {128..256}
        %14: u32 = binary div, %12, %three_1 threads {128..256}
        %one_1: u32 = const 1 threads {128..256}
        %15: u32 = binary and, %14, %one_1 threads {128..256}
        mbarrier.wait @full, %13, %15 threads {128..256}
        wgmma.fence (@acc) threads {128..256}
        wgmma.issue @acc, @a_buf<%13>[0:128, 0:64], matrix(lbo=16, sbo=1024, layout=1, block=8192, jump=32),
          @b_buf<%13>[0:128, 0:64], matrix(lbo=16, sbo=1024, layout=1, jump=32),
          m=128, n=128, k=64, k_step=16,
          a_transposed=false, b_transposed=false, accumulate=true threads {128..256}
        %product: future = wgmma.commit threads {128..256}
        wgmma.wait depth=0, (%product), (@acc) threads {128..256}
        elect warp threads {128..256} {
          mbarrier.arrive @empty, %13 threads {128..256}
        }
        %16: u32 = binary add, %12, %one_1 threads {128..256}
        var.set @order_2, %16 threads {128..256}
      }
      reg.store @acc, @c_buf[0:128, 0:128], stmatrix, (), pairs=false threads {128..256}
      fence.proxy_async threads {128..256}
      named_barrier.sync barrier=3, count=256, @done threads {128..256}
      elect warpgroup threads {128..256} {
        %17: s32 = binary mul, %bm, %91
        %18: s32 = binary mul, %bn, %91
        %19: s32 = binary add, %18, %90
        bulk_tensor.store @c_map, (%18, %17), @c_buf[0:128, 0:64], start()
        bulk_tensor.store @c_map, (%19, %17), @c_buf[0:128, 64:64], start(offset=16384)
        bulk.commit
        bulk.wait depth=0, read=false
      }
      warp.sync threads {128..256}
    }
    """,
)
OPERANDS = sample(
    "operands",
    """
    buffer @k_major type=f16, shape=(64, 128), swizzle=32, offset=0, alignment=1024
    buffer @mn_major type=f16, shape=(32, 64), swizzle=64, offset=16384, alignment=1024
    buffer @cores type=f8_e4m3, shape=(64, 64), swizzle=16, offset=20480, alignment=1024
    buffer @a_t type=f16, shape=(32, 64), swizzle=128, offset=24576, alignment=1024
    fragment @acc type=f32, shape=(64, 64), layout=accumulator(m=64, n=64)
    fragment @small type=f16, shape=(64, 64), layout=accumulator(m=64, n=64), packed=true
    fragment @p type=f16, shape=(64, 32), layout=accumulator(m=64, n=32), packed=true
    """,
    """
    frag.declare @acc ALL
    frag.declare @small ALL
    frag.declare @p ALL
    %0: f16 = const 1.0
    reg.fill @p, %0 ALL
    %b: s32 = block_index 0 ALL
    %w: s32 = const 16
    %1: s32 = binary mul, %b, %w ALL
    wgmma.fence (@acc, @small, @p) ALL
    wgmma.issue @acc, @k_major[0:64, 16:64], matrix(lbo=16, sbo=256, layout=3, start=start(offset=2048), jump=2048),
      @k_major[0:64, 64:64], matrix(lbo=16, sbo=256, layout=3, start=start(offset=8192), jump=2048),
      m=64, n=64, k=64, k_step=16,
      a_transposed=false, b_transposed=false, accumulate=false ALL
    wgmma.issue @acc, @k_major[0:64, %1:16],
      matrix(lbo=16, sbo=256, layout=3, start=start(terms=(%b), scales=(2048)), jump=32),
      @k_major[0:64, 0:16], matrix(lbo=16, sbo=256, layout=3, jump=32),
      m=64, n=64, k=16, k_step=16,
      a_transposed=false, b_transposed=false, accumulate=true ALL
    wgmma.issue @acc, @p, _,
      @mn_major[0:32, 0:64], matrix(lbo=2048, sbo=512, layout=2, jump=1024),
      m=64, n=64, k=32, k_step=16,
      a_transposed=false, b_transposed=true, accumulate=true ALL
    wgmma.issue @acc, @cores[0:64, 0:64], matrix(lbo=1024, sbo=128, layout=0, jump=2048),
      @cores[0:64, 0:64], matrix(lbo=1024, sbo=128, layout=0, jump=2048),
      m=64, n=64, k=64, k_step=32,
      a_transposed=false, b_transposed=false, accumulate=true ALL
    wgmma.issue @small, @a_t[0:32, 0:64], matrix(lbo=4096, sbo=1024, layout=1, jump=2048),
      @mn_major[0:32, 0:64], matrix(lbo=2048, sbo=512, layout=2, jump=1024),
      m=64, n=64, k=32, k_step=16,
      a_transposed=true, b_transposed=true, accumulate=true ALL
    wgmma.commit ALL
    wgmma.wait depth=0, (), (@acc, @small) ALL
    """,
)
