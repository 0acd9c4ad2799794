"""What sm_90a allows, each number with its source.

"CUDA guide" is the table of technical specifications by compute capability in the CUDA C++ Programming Guide, column
9.0; "PTX ISA" and "driver API" are cited by section or function.
"""

from __future__ import annotations

ARCH = "sm_90a"  # the 'a' is required by wgmma and setmaxnreg. PTX ISA, target ISA notes of both
COMPUTE_CAPABILITY = (9, 0)

# ------------------------------------------------------------------------------------------ threads. CUDA guide
WARP_SIZE = 32
WARPGROUP_SIZE = 128  # four consecutive warps, the first a multiple of four. PTX ISA, "Warpgroup"
MAX_THREADS_PER_CTA = 1024
MAX_BLOCK_DIM = (1024, 1024, 64)
MAX_GRID_DIM = (2**31 - 1, 65535, 65535)

# ---------------------------------------------------------------------------------------- registers. CUDA guide
REGISTERS_PER_SM = 65536
REGISTERS_PER_CTA = 65536
MAX_REGISTERS_PER_THREAD = 255
REGISTER_ALLOCATION_UNIT = 256  # a warp's registers are handed out in units of this. CUDA occupancy calculator

# PTX ISA, "setmaxnreg": the immediate is a multiple of 8 in 24..256
SETMAXNREG_MIN = 24
SETMAXNREG_MAX = 256
SETMAXNREG_STEP = 8

# ------------------------------------------------------------------------------------ shared memory. CUDA guide
SHARED_PER_SM = 228 * 1024
SHARED_PER_CTA = 227 * 1024  # 232448 bytes, with cudaFuncAttributeMaxDynamicSharedMemorySize
SHARED_WITHOUT_OPT_IN = 48 * 1024
SHARED_RESERVED_PER_CTA = 1024
SHARED_BANKS = 32
SHARED_BANK_BYTES = 4
LOCAL_BYTES_PER_THREAD = 512 * 1024

# -------------------------------------------------------------------------------------------------- synchronisation
NAMED_BARRIERS = 16  # ids 0..15. PTX ISA, "bar, barrier"
CTA_BARRIER_ID = 0  # the barrier of __syncthreads
MBARRIER_BYTES = 8  # and 8-byte aligned. PTX ISA, "mbarrier object"
MBARRIER_MAX_COUNT = 2**20 - 1  # pending and expected arrivals. PTX ISA, "Contents of the mbarrier object"
MBARRIER_MAX_TX = 2**20 - 1  # bytes pending in one phase. PTX ISA, "Contents of the mbarrier object"

# --------------------------------------------------------------------------- TMA. driver API, cuTensorMapEncodeTiled
TMA_MAX_RANK = 5
TMA_MAX_BOX_DIM = 256
TMA_MAX_DIM = 2**32  # 1..2^32
TMA_STRIDE_MULTIPLE = 16  # bytes, all dimensions but the innermost
TMA_MAX_STRIDE = 2**40  # bytes, exclusive
TMA_GLOBAL_ALIGNMENT = 16  # bytes, base address
TMA_SHARED_ALIGNMENT = 128  # bytes, destination or source box. PTX ISA, "cp.async.bulk.tensor"
TMA_INNER_BOX_MULTIPLE = 16  # bytes, box[0] * element size without interleave
TMA_MAX_ELEMENT_STRIDE = 8
TMA_SWIZZLE_WIDTHS = (32, 64, 128)  # box[0] * element size must not exceed it
TENSOR_MAP_BYTES = 128
TENSOR_MAP_ALIGNMENT = 64  # CUtensorMap; kernel parameters here use 128
BULK_COPY_MULTIPLE = 16  # bytes and addresses of cp.async.bulk. PTX ISA, "cp.async.bulk"

# ------------------------------------------------------------------------------- WGMMA. PTX ISA, "wgmma.mma_async"
WGMMA_M = 64
WGMMA_N = range(8, 257, 8)
WGMMA_K_BYTES = 32
WGMMA_MAX_OUTSTANDING = 8  # instructions a warp can have in flight before issue stalls; measured on an H200
MATRIX_ROWS = 8  # rows of a core matrix
MATRIX_ROW_BYTES = 16  # bytes of a row of a core matrix

# -------------------------------------------------------------------------------------------- kernels. CUDA guide
MAX_PARAMETER_BYTES = 32764  # of one kernel, since CUDA 12.1 on compute capability 7.0 and up


def is_setmaxnreg(count: int) -> bool:
    """Whether `count` is an operand that setmaxnreg takes."""
    return SETMAXNREG_MIN <= count <= SETMAXNREG_MAX and count % SETMAXNREG_STEP == 0
