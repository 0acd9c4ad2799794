"""The shared-memory swizzle of the tensor memory accelerator and of WGMMA, a function of address bits.

Both units permute the 16-byte chunks of shared memory the same way: the chunk number within a 128-byte line is XORed
with the line number, as many low bits of each as the mode has. PTX ISA, "Swizzling Modes" (tensor) and "Canonical
Layouts" (wgmma): Swizzle<B,4,3> with B of 0, 1, 2, 3 for no, 32-, 64- and 128-byte swizzle; the pattern repeats every
256, 512 and 1024 bytes of *address*, wherever a buffer begins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croq.ptx.units.fault import UnitFault

Addresses = NDArray[np.int64]

CHUNK_BITS = 4  # 16 bytes
LINE_BITS = 7  # 128 bytes
_BITS_OF_SPAN = {0: 0, 32: 1, 64: 2, 128: 3}


def pattern_bits(span: int) -> int:
    """The number of chunk bits that a swizzle of `span` bytes permutes; 0 is no swizzle. Faults: `swizzle`."""
    if span not in _BITS_OF_SPAN:
        raise UnitFault("swizzle", f"a swizzle of {span} bytes is none of {sorted(_BITS_OF_SPAN)}")
    return _BITS_OF_SPAN[span]


def pattern_bytes(span: int) -> int:
    """The bytes after which the pattern repeats: 256, 512, 1024; 16 without swizzle."""
    bits = pattern_bits(span)
    return 1 << (LINE_BITS + bits) if bits else 1 << CHUNK_BITS


def swizzled(addresses: Addresses, span: int, first_line: int = 0) -> Addresses:
    """Where the byte of each linear shared address really lies.

    `first_line` is the line number, modulo 8, at which the pattern begins: 0 but for a WGMMA descriptor with a base
    offset.
    """
    bits = pattern_bits(span)
    if not bits:
        return addresses
    line = ((addresses >> LINE_BITS) - first_line) & ((1 << bits) - 1)
    return addresses ^ (line << CHUNK_BITS)
