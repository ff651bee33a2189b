"""Shapes and dtypes of the values in a graph, noted while it runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.arrays.formats import channels_last, channels_last_3d, contiguous_format, memory_format
from ..._engine.memory.tensor import Tensor
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(
    result: Tensor, include_contiguity: bool = True, is_export: bool = False
) -> TensorMetadata:
    found = None
    if include_contiguity:
        formats = (contiguous_format, channels_last, channels_last_3d)
        dims = {channels_last: 4, channels_last_3d: 5}
        fitting = (
            f for f in formats if dims.get(f, result.ndim) == result.ndim and result.is_contiguous(memory_format=f)
        )
        found = next(fitting, None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {})


class ShapeProp(Interpreter):
    """Runs a graph, and notes in every node's `meta` what kind of value it has: "tensor_meta" and "type".

    Args:
        gm: the module of the graph.
        fake_mode: refused: values are computed.
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError("ShapeProp with a fake mode is not supported: give tensors on the meta device")

    def run_node(self, n: Node) -> Any:
        """The result of one node, which is noted."""
        result = super().run_node(n)
        tensors: list[Tensor] = []

        def noted(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            tensors.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, noted)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph with these arguments."""
        return super().run(*args)
