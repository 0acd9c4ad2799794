"""AST and model to tile IR.

One kernel at a time: parameters become objects, block variables `block_index` values, and the statements of the body
are translated one by one (build_statements). What is needed from outside the `parallel` (dimensions, scalar parameters,
host scalars) is put at the start of the body when it is first used.
"""

from __future__ import annotations

import re

from croq.diagnostics import Sink
from croq.ir.build_context import KernelBuilder
from croq.ir.build_statements import parallel
from croq.ir.core import Block
from croq.ir.objects import Kernel, Module, Param
from croq.sema.model import KernelModel, Model
from croq.sema.symbols import DataSymbol
from croq.syntax import ast


def build(model: Model, sink: Sink) -> Module:
    """The tile IR of every kernel of an analysed program. Raises CompileError when a kernel cannot be expressed."""
    text = device_text(model.program)
    kernels = [_kernel(model, kernel, sink, text) for kernel in model.kernels]
    sink.check()
    return Module(model.program.span.file, kernels)


def _kernel(model: Model, made_from: KernelModel, sink: Sink, text: tuple[str, ...]) -> Kernel:
    symbols = made_from.function.params
    params = [
        Param(s.name, s.element, s.shape, s.is_global, span=s.span)
        if isinstance(s, DataSymbol)
        else Param(s.name, s.type.element, None, span=s.span)
        for s in symbols
    ]
    kernel = Kernel(
        made_from.name,
        model.program.span.file,
        params,
        made_from.grid,
        made_from.threads,
        Block(),
        grid_rank=made_from.grid_rank,
        min_blocks=made_from.min_blocks,
        max_threads=made_from.max_threads,
        is_async=made_from.is_async,
        device_text=text,
    )
    kernel.notes["function"] = made_from.function.function.name
    kernel.notes["requires"] = tuple(made_from.function.requires)
    builder = KernelBuilder(model, made_from, sink, kernel)
    for symbol, param in zip(symbols, params, strict=True):
        if isinstance(symbol, DataSymbol):
            builder.data[symbol] = param
    parallel(builder, made_from.parallel)
    kernel.body.ops = builder.entry + builder.ir.take()
    return kernel


# ------------------------------------------------------------------------------------------------------- device text
# What may stand between other host text and the `__device__` that it belongs to.
_HEADER = re.compile(
    r"(?:\btemplate\s*<[^{};]*>|\bstatic\b|\binline\b|\bconstexpr\b|__forceinline__|__noinline__|\bextern\s*\"C\"|\s)+\Z"
)


def device_text(program: ast.Program) -> tuple[str, ...]:
    """C++ of the file that kernels need: its device functions, each with its template header and specifiers.

    Those stand at the end of the host text in front of the function. Other host text (includes, macros, host functions)
    is not device code: a device function must be complete in itself.
    """
    found: list[str] = []
    before = ""
    for item in program.items:
        if isinstance(item, ast.HostText):
            before = item.text
            continue
        if isinstance(item, ast.DeviceText):
            header = _HEADER.search(before)
            found.append(((header.group() if header else "") + item.text).strip())
        before = ""
    return tuple(found)
