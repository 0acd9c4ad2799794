"""cp.async: copies of 4, 8 or 16 bytes by each thread. PTX ISA, "cp.async".

The groups that copies are committed and waited for in are the machine's.
"""

from __future__ import annotations

import numpy as np

from croq.ptx.units.fault import UnitFault, require
from croq.ptx.units.swizzle import Addresses

SIZES = {"ca": (4, 8, 16), "cg": (16,)}


def check(cache: str, destinations: Addresses, sources: Addresses, size: int, source_sizes: Addresses) -> None:
    """Copies of `size` bytes, one a thread, of which `source_sizes` are read and the rest is zero.

    Faults: `cp-async-size`, `cp-async-alignment`.
    """
    require(
        size in SIZES.get(cache, ()), "cp-async-size", f"a cp.async.{cache} of {size} bytes; there are {SIZES} bytes"
    )
    beyond = (source_sizes < 0) | (source_sizes > size)
    if beyond.any():
        read = int(source_sizes[int(np.argmax(beyond))])
        raise UnitFault("cp-async-size", f"a cp.async of {size} bytes reads {read}; more is undefined")
    for name, addresses in (("destination", destinations), ("source", sources)):
        crooked = addresses % size != 0
        if crooked.any():
            address = int(addresses[int(np.argmax(crooked))])
            raise UnitFault(
                "cp-async-alignment", f"the {name} of a cp.async is {address:#x}, which is not {size}-byte aligned"
            )
