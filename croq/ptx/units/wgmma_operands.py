"""Where WGMMA finds its operands in shared memory: the matrix descriptor and the canonical layouts.

PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout": "Matrix Descriptor Format", "Leading Dimension
Byte Offset", "Stride Dimension Byte Offset", "Canonical Layouts". Every layout moves whole 16-byte chunks, so an
operand is a table of chunk addresses: [rows, 2] for K-major (an instruction's K is always 32 bytes), [K, rows / 8]
for MN-major (16-bit types only). With T the elements of a chunk, S the swizzle span in bytes and w = S / 16:

    K-major,  no swizzle   row r, chunk c:  (r % 8) * 16 + (r / 8) * SBO + c * LBO
    K-major,  swizzle      row r, chunk c:  (r % 8) * S  + (r / 8) * SBO + c * 16
    MN-major, no swizzle   k, chunk c of rows:  (k % 8) * 16 + (k / 8) * LBO + c * SBO
    MN-major, swizzle      k, chunk c of rows:  (k % 8) * S  + (k / 8) * SBO + (c % w) * 16 + (c / w) * LBO

The swizzle then permutes the *address* (croq/ptx/units/swizzle.py): a start address inside a pattern continues it.
That is why a K-step of a swizzled K-major tile adds 32 bytes to the start address (measured on an H200).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from croq.ptx.units.fault import UnitFault, require
from croq.ptx.units.mma_arithmetic import Bytes
from croq.ptx.units.swizzle import Addresses, swizzled

CHUNK = 16
ROWS_OF_CORE = 8
_SPAN_OF_MODE = (0, 128, 64, 32)  # bits 62-63
_FIELD = 0x3FFF
_PATTERN_MAX = 1024
_RESERVED = ((14, 2), (30, 2), (46, 3), (52, 10))  # (first bit, bits)


class Descriptor(NamedTuple):
    """The fields of a 64-bit matrix descriptor, in bytes; `base_offset` in 128-byte lines, modulo 8."""

    start: int
    lbo: int
    sbo: int
    base_offset: int
    swizzle: int

    @classmethod
    def decode(cls, bits: int) -> Descriptor:
        """From the register's bits. Faults: `wgmma-descriptor` (a reserved bit is set)."""
        for first, count in _RESERVED:
            require(
                not bits >> first & ((1 << count) - 1),
                "wgmma-descriptor",
                f"the matrix descriptor {bits:#018x} has reserved bits set in {first}..{first + count - 1}",
            )
        descriptor = cls(
            start=(bits & _FIELD) << 4,
            lbo=(bits >> 16 & _FIELD) << 4,
            sbo=(bits >> 32 & _FIELD) << 4,
            base_offset=bits >> 49 & 7,
            swizzle=_SPAN_OF_MODE[bits >> 62 & 3],
        )
        require(
            bool(descriptor.swizzle) or not descriptor.base_offset,
            "wgmma-descriptor",
            f"the matrix descriptor {bits:#018x} has a base offset without a swizzle",
        )
        return descriptor


def chunks(descriptor: Descriptor, rows: int, k: int, mn_major: bool) -> Addresses:
    """Shared byte addresses of the chunks of an operand of `rows` (M or N) by `k` elements.

    [rows, 2] for K-major, [k, rows / 8] for MN-major.
    """
    phase = descriptor.start % _PATTERN_MAX
    table = _table(*descriptor[1:], phase, rows, k, mn_major)
    return table + (descriptor.start - phase)


def read(memory: Bytes, descriptor: Descriptor, rows: int, k: int, mn_major: bool) -> Bytes:
    """The bytes of an operand from shared memory: K-major [rows, 32], MN-major [k, rows * 2].

    `memory` is the CTA's shared window from address 0. Faults: `wgmma-bounds`.
    """
    addresses = chunks(descriptor, rows, k, mn_major)
    last = int(addresses.max()) + CHUNK
    if last > len(memory):
        raise UnitFault("wgmma-bounds", f"{descriptor} reaches shared address {last - 1:#x} of {len(memory)} bytes")
    whole = len(memory) // CHUNK
    lines = memory[: whole * CHUNK].reshape(whole, CHUNK)
    return np.take(lines, addresses >> 4, axis=0).reshape(len(addresses), -1)


@functools.lru_cache(maxsize=8192)
def _table(
    lbo: int, sbo: int, base_offset: int, swizzle: int, phase: int, rows: int, k: int, mn_major: bool
) -> Addresses:
    """Chunk addresses of an operand that starts at `phase`, an address inside the first repetition of the pattern."""
    linear = _mn_major(lbo, sbo, swizzle, rows, k) if mn_major else _k_major(lbo, sbo, swizzle, rows)
    table = swizzled(linear + phase, swizzle, base_offset)
    table.setflags(write=False)
    return table


def _k_major(lbo: int, sbo: int, swizzle: int, rows: int) -> Addresses:
    row = np.arange(rows, dtype=np.int64)[:, None]
    chunk = np.arange(2, dtype=np.int64)
    outer = row // ROWS_OF_CORE * sbo
    if not swizzle:
        return row % ROWS_OF_CORE * CHUNK + outer + chunk * lbo
    return row % ROWS_OF_CORE * swizzle + outer + chunk * CHUNK


def _mn_major(lbo: int, sbo: int, swizzle: int, rows: int, k: int) -> Addresses:
    line = np.arange(k, dtype=np.int64)[:, None]
    chunk = np.arange(rows // ROWS_OF_CORE, dtype=np.int64)  # 16-bit types only: 8 elements are one chunk
    if not swizzle:
        return line % ROWS_OF_CORE * CHUNK + line // ROWS_OF_CORE * lbo + chunk * sbo
    wide = swizzle // CHUNK
    return line % ROWS_OF_CORE * swizzle + line // ROWS_OF_CORE * sbo + chunk % wide * CHUNK + chunk // wide * lbo
