"""What every CUDA architecture has in common that croq could make code for, each fact with its source.

"CUDA guide" is the table of technical specifications by compute capability in the CUDA C++ Programming Guide: these
rows are the same in every column from 9.0 on. "PTX ISA" and "driver API" are cited by section or function. What differs
between architectures is a field of a `Target` (croq/target/base.py).
"""

from __future__ import annotations

# ------------------------------------------------------------------------------------------ threads. CUDA guide
WARP = 32
WARPGROUP = 128  # four consecutive warps, the first a multiple of four. PTX ISA, "Warpgroup"
UNITS = {"group-4": WARPGROUP, "group": WARP, "thread": 1}  # threads of which a unit of a level has a multiple
MAX_THREADS = 1024  # of a CTA
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
QUARTERS = 4  # of an SM, each with a scheduler of its own, among which the warps are spread. CUDA guide
MAX_REGISTERS = 255  # of a thread
REGISTER_UNIT = 256  # a warp gets a multiple of so many. CUDA guide, "Multiprocessor Level"; occupancy calculator

# -------------------------------------------------------------------------------------------------- synchronisation
CTA_BARRIER = 0  # the named barrier of __syncthreads. PTX ISA, "bar, barrier"
MBARRIER_BYTES = 8  # and 8-byte aligned. PTX ISA, "mbarrier object"
MBARRIER_MAX_TX = 2**20 - 1  # bytes pending in one phase. PTX ISA, "Contents of the mbarrier object"

# ------------------------------------------------------------------------------------------------------------- memory
SHARED_WITHOUT_OPT_IN = 48 * 1024  # bytes of a CTA without cudaFuncAttributeMaxDynamicSharedMemorySize. CUDA guide
VECTOR = 16  # bytes of a thread's widest access, and its alignment. CUDA guide, "Size and Alignment Requirement"

# --------------------------------------------------------------------------- TMA. driver API, cuTensorMapEncodeTiled
TMA_MAX_RANK = 5
TMA_MAX_BOX = 256  # elements, in each dimension
TMA_MAX_EXTENT = 2**32  # elements, in each dimension
TMA_STRIDE_MULTIPLE = 16  # bytes, all dimensions but the innermost
TMA_MAX_STRIDE = 2**40  # bytes, exclusive
TMA_GLOBAL_ALIGNMENT = 16  # bytes, base address
TMA_SHARED_ALIGNMENT = 128  # bytes, destination or source box. PTX ISA, "cp.async.bulk.tensor"
TMA_INNER_MULTIPLE = 16  # bytes of the box in the innermost dimension, without interleave
TMA_MAX_ELEMENT_STRIDE = 8
TMA_SWIZZLES = (32, 64, 128)  # bytes that the innermost extent of the box must not exceed
TENSOR_MAP_ALIGNMENT = 128  # bytes of a map as a kernel's parameter. `TensorMap` of runtime/croq.cuh; 64 would do
