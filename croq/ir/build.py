"""AST and model to tile IR.

One kernel at a time: parameters become objects, block variables `block_index` values, and the statements of the body
are translated one by one (build_statements). What is needed from outside the `parallel` (dimensions, scalar parameters,
host scalars) is put at the start of the body when it is first used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from croq import cuda_names
from croq.diagnostics import Sink
from croq.ir.build_context import KernelBuilder
from croq.ir.build_statements import parallel
from croq.ir.core import Block
from croq.ir.objects import Kernel, Module, Param, Requirement
from croq.sema.model import KernelModel, Model
from croq.sema.symbols import DataSymbol
from croq.syntax import ast
from croq.syntax.outside import device_text


def build(model: Model, sink: Sink) -> Module:
    """The tile IR of every kernel of an analysed program. Raises CompileError when a kernel cannot be expressed."""
    used = {word for function in model.program.functions for word in _words(function)}
    text = device_text(model.program.outside.declarations, used)
    kernels = [_kernel(model, kernel, sink, text) for kernel in model.kernels]
    sink.check()
    _entries(kernels)
    return Module(model.program.span.file, kernels)


def _entries(kernels: Sequence[Kernel]) -> None:
    """Give an entry name to the kernels whose own name C++, CUDA or the file's device code has taken."""
    taken = {kernel.name for kernel in kernels}
    for kernel in kernels:
        outside = {word for text in kernel.device_text for word in re.findall(r"\w+", text)}
        entry = cuda_names.kernel_name(kernel.name, outside | (taken - {kernel.name}))
        if entry != kernel.name:
            kernel.entry = entry
            taken.add(entry)


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
        function=made_from.function.function.name,
        device_text=text,
        arch=model.target.name,
    )
    kernel.requirements = [
        Requirement(f"assert_{i}", rule.op, rule.left, rule.right, rule.message, span=rule.span)
        for i, rule in enumerate(made_from.function.requires)
    ]
    builder = KernelBuilder(model, made_from, sink, kernel)
    for symbol, param in zip(symbols, params, strict=True):
        if isinstance(symbol, DataSymbol):
            builder.data[symbol] = param
    parallel(builder, made_from.parallel)
    kernel.body.ops = builder.entry + builder.ir.take()
    return kernel


def _words(node: Any) -> Iterator[str]:
    """The words that the C++ of a tree's calls and `__cpp__` texts mentions."""
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.DeviceCall):
            yield from re.findall(r"\w+", " ".join([node.name, *(a.span.text for a in node.template_args)]))
        elif isinstance(node, ast.CppText):
            yield from re.findall(r"\w+", node.text)
        for value in vars(node).values():
            pending += [
                item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, ast.Node)
            ]
