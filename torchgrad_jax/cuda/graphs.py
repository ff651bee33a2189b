"""torch.cuda.graphs: graphs of kernels, which are refused; `torch.compile` is what runs many kernels at once."""

from __future__ import annotations

from .streams import (
    CUDAGraph as CUDAGraph,
    graph as graph,
    graph_pool_handle as graph_pool_handle,
    is_current_stream_capturing as is_current_stream_capturing,
    make_graphed_callables as make_graphed_callables,
)

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]
