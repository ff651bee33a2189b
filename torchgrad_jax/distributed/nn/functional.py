"""Collectives with gradients: the gradient of each is the collective that goes the other way."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor
from ..._functions.create import empty_like, zeros_like
from ...autograd.function import Function
from .. import _collectives as c
from .._arguments import ReduceOp
from .._groups import get_rank, get_world_size


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        out = tensor.clone()
        c.broadcast(out, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        found = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, found if get_rank() == ctx.src else zeros_like(found)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.group = dst, group
        out = tensor.clone()
        c.reduce(out, dst, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        out = tensor.clone()
        c.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> Any:
        ctx.dst, ctx.group = dst, group
        found = [zeros_like(tensor) for _ in range(get_world_size(group))]
        c.gather(tensor.contiguous(), found if get_rank(group) == dst else None, dst, group)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        out = zeros_like(tensors[0])
        c.scatter(out, list(tensors) if get_rank(group) == src else None, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _Reduce_Scatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Tensor, *inputs: Tensor) -> Tensor:
        ctx.group = group
        out = empty_like(tensor)
        c.reduce_scatter(out, [x.contiguous() for x in inputs], op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, *_AllGather.apply(ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> Any:
        ctx.group = group
        found = [empty_like(tensor) for _ in range(get_world_size(group))]
        c.all_gather(found, tensor.contiguous(), group)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        parts = _AlltoAll.apply(ctx.group, [empty_like(g) for g in grads], *grads)
        return None, functools.reduce(lambda x, y: x + y, parts)


class _AlltoAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: Sequence[Tensor], *tensors: Tensor) -> Any:
        ctx.group = group
        ctx.shapes = [list(x.shape) for x in tensors]
        found = list(outputs)  # torch writes into what it is given
        c.all_to_all(found, [x.contiguous() for x in tensors], group)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        room = [grads[0].new_empty(shape) for shape in ctx.shapes]
        return None, None, *_AlltoAll.apply(ctx.group, room, *grads)


class _AlltoAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, output: Tensor, output_sizes: Any, input_sizes: Any, input: Tensor) -> Tensor:
        ctx.group, ctx.shape = group, list(input.shape)
        ctx.output_sizes, ctx.input_sizes = output_sizes, input_sizes
        out = empty_like(output)
        c.all_to_all_single(out, input.contiguous(), output_sizes, input_sizes, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        room = grad.new_empty(ctx.shape)
        back = _AlltoAllSingle.apply(ctx.group, room, ctx.input_sizes, ctx.output_sizes, grad)
        return None, None, None, None, back


def _older(newer: str) -> Any:
    def decorate(fn: Any) -> Any:
        @functools.wraps(fn)
        def older(*args: Any, **kwargs: Any) -> Any:
            warn.to_user(
                f"torch.distributed.nn.functional.{fn.__name__} is deprecated, use "
                f"torch.distributed._functional_collectives.{newer} instead.",
                FutureWarning,
            )
            return fn(*args, **kwargs)

        return older

    return decorate


@_older("broadcast")
def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of rank `src`; its gradient is the sum of all, there."""
    return _Broadcast.apply(src, group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes at rank `dst`, and zeros elsewhere."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Tensor:
    """The tensor that rank `src` has for this process."""
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of the tensors of all processes at rank `dst`."""
    return _Reduce.apply(dst, op, group, tensor)


@_older("reduce_scatter_single")
def reduce_scatter(output: Tensor, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of the tensors that all processes have for this one."""
    return _Reduce_Scatter.apply(op, group, output, *input_list)


@_older("all_gather_single")
def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes; a gradient goes back to where its tensor came from."""
    return _AllGather.apply(group, tensor)


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors that all processes have for this one."""
    return _AlltoAll.apply(group, output_tensor_list, *input_tensor_list)


@_older("all_to_all_single")
def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Tensor:
    """The parts that all processes have for this one, in one tensor."""
    return _AlltoAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


@_older("all_reduce")
def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of the tensors of all processes, and for its gradient the same."""
    return _AllReduce.apply(op, group, tensor)
