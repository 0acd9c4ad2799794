"""What instructions do, one module a family; importing it fills the registry."""

from croq.ptx.ops import (
    access,
    arithmetic,
    atomics,
    barriers,
    bits,
    bulk,
    compare,
    control,
    convert,
    copies,
    floats,
    functions,
    matrix,
    quiet,
    warp,
)

FAMILIES = (
    access, arithmetic, atomics, barriers, bits, bulk, compare, control, convert, copies, floats, functions, matrix,
    quiet, warp,
)  # fmt: skip
