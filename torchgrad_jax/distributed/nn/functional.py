"""Collectives with gradients among one process: results are copies of what goes in, and so are gradients."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from ..._engine.tensor import Tensor
from ...autograd.function import Function
from .._collectives import ReduceOp
from .._groups import member_of


class _Copy(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class _Written(_Copy):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        out = tensor.clone()
        return out.copy_(tensor)  # torch makes room first and writes then


def _named(name: str, kind: Any = _Copy) -> Any:
    return type(name, (kind,), {"__module__": __name__})


_Broadcast, _AllReduce, _Reduce = _named("_Broadcast"), _named("_AllReduce"), _named("_Reduce")
_Gather, _AllGather = _named("_Gather", _Written), _named("_AllGather", _Written)
_Scatter, _AlltoAll = _named("_Scatter"), _named("_AlltoAll", _Written)
_Reduce_Scatter = _named("_Reduce_Scatter", _Written)
_AlltoAllSingle = _named("_AlltoAllSingle", _Written)


def _copied(kind: Any, tensor: Tensor, group: Any, root: int = 0) -> Any:
    member_of(group)
    if root != 0:
        raise RuntimeError(f"there is one process, and no rank {root}")
    return kind.apply(tensor)


def _only(tensors: Any) -> Any:
    if len(tensors) != 1:
        raise RuntimeError(f"one process has one part, and {len(tensors)} are given")
    return tensors[0]


def _older(newer: str) -> Any:
    def decorate(fn: Any) -> Any:
        @functools.wraps(fn)
        def older(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(
                f"torch.distributed.nn.functional.{fn.__name__} is deprecated, use "
                f"torch.distributed._functional_collectives.{newer} instead.",
                FutureWarning,
                stacklevel=2,
            )
            return fn(*args, **kwargs)

        return older

    return decorate


@_older("broadcast")
def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """A copy."""
    return _copied(_Broadcast, tensor, group, src)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """A copy, in a tuple."""
    return (_copied(_Gather, tensor, group, dst),)


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Tensor:
    """A copy of the one tensor."""
    return _copied(_Scatter, _only(tensors), group, src)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """A copy."""
    return _copied(_Reduce, tensor, group, dst)


@_older("reduce_scatter_single")
def reduce_scatter(
    output: Tensor, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """A copy of the one tensor."""
    return _copied(_Reduce_Scatter, _only(input_list), group)


@_older("all_gather_single")
def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """A copy, in a tuple."""
    return (_copied(_AllGather, tensor, group),)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None
) -> tuple[Tensor, ...]:
    """A copy of the one tensor, in a tuple."""
    return (_copied(_AlltoAll, _only(input_tensor_list), group),)


@_older("all_to_all_single")
def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Tensor:  # fmt: skip
    """A copy."""
    return _copied(_AlltoAllSingle, input, group)


@_older("all_reduce")
def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """A copy."""
    return _copied(_AllReduce, tensor, group)
