"""Emission: hardware IR to CUDA text that a person can read.

`emit_cuda(kernels)` makes one file; `signature(kernel)` says what the launcher must pass. `ops/` has a function for
each operation that works out the fields, `templates/` a template for each operation that lays them out.
"""

from croq.emit.file import emit_cuda, source_lines
from croq.emit.signature import Argument, signature

__all__ = ["Argument", "emit_cuda", "signature", "source_lines"]
