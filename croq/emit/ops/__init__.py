"""How each operation is emitted. Importing this package registers all of them."""

from croq.emit.ops import barriers, control, copies, maps, moves, reductions, scalars, stores, tensor_cores

__all__ = ["barriers", "control", "copies", "maps", "moves", "reductions", "scalars", "stores", "tensor_cores"]
