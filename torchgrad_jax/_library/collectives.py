"""The operators of `torch.ops._c10d_functional`: collectives that return new tensors, of a group by its name.

Packages with classes of tensors, as torchao's, name them when they are imported, to say what they are for their own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from .whole import Kernel, made, refused


def _functional() -> Any:
    return importlib.import_module("torchgrad_jax.distributed._functional_collectives")


_WITH_CODE: dict[str, Kernel] = {
    "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor": lambda x, op, group: _functional().all_reduce(
        x, op, group
    ),
    "all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor": lambda x, size, group: (
        _functional().all_gather_single(x, 0, group)
    ),
    "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor": (
        lambda x, op, size, group: _functional().reduce_scatter_single(x, op, 0, group)
    ),
    "all_to_all_single(Tensor input, int[] output_split_sizes, int[] input_split_sizes, str group_name) -> Tensor": (
        lambda x, coming, going, group: _functional().all_to_all_single(x, coming, going, group)
    ),
    "broadcast(Tensor input, int src, str group_name) -> Tensor": lambda x, src, group: _functional().broadcast(
        x, src, group
    ),
    "wait_tensor(Tensor tensor) -> Tensor": lambda x: x.view_as(x),
}

_OF_RANKS: dict[str, Kernel] = {
    "all_reduce(Tensor self, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor": (
        lambda x, op, tag, ranks, size: _functional().all_reduce(x, op, list(ranks))
    ),
    "all_gather_into_tensor(Tensor shard, str tag, int[] ranks, int group_size) -> Tensor": (
        lambda x, tag, ranks, size: _functional().all_gather_single(x, 0, list(ranks))
    ),
    "reduce_scatter_tensor(Tensor input, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor": (
        lambda x, op, tag, ranks, size: _functional().reduce_scatter_single(x, op, 0, list(ranks))
    ),
    "all_to_all_single(Tensor input, int[] output_split_sizes, int[] input_split_sizes, str tag, int[] ranks, "
    "int group_size) -> Tensor": (
        lambda x, coming, going, tag, ranks, size: _functional().all_to_all_single(x, coming, going, list(ranks))
    ),
    "broadcast(Tensor self, int src, str tag, int[] ranks, int group_size) -> Tensor": (
        lambda x, src, tag, ranks, size: _functional().broadcast(x, src, list(ranks))
    ),
    "wait_tensor(Tensor self) -> Tensor": lambda x: x.view_as(x),
}
"""The same in the older namespace `c10d_functional`, where ranks name the group."""


_OF_CALLS = (
    "_allgather_base_", "_reduce_scatter_base_", "allgather_", "allgather_coalesced_",
    "allgather_into_tensor_coalesced_", "allreduce_", "allreduce_coalesced_", "alltoall_", "alltoall_base_",
    "broadcast_", "gather_", "reduce_", "reduce_scatter_", "reduce_scatter_tensor_coalesced_", "scatter_",
)  # fmt: skip
"""The operators behind `torch.distributed.all_reduce` and its kin in torch, by which these are counted."""


def operators() -> Iterator[object]:
    """The operators of both namespaces."""
    for schema, fn in _WITH_CODE.items():
        yield made(f"_c10d_functional::{schema}", fn)
    for schema, fn in _OF_RANKS.items():
        yield made(f"c10d_functional::{schema}", fn)
    for name in ("all_reduce_", "all_reduce_coalesced", "all_gather_into_tensor_coalesced",
                 "reduce_scatter_tensor_coalesced", "broadcast_", "_wrap_tensor_autograd"):  # fmt: skip
        yield refused("_c10d_functional", name, "those that return new tensors, of one tensor")
    for name in _OF_CALLS:
        yield refused("c10d", name, "their names, under which they are counted; call those of torch.distributed")
