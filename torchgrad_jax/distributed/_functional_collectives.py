"""torch.distributed._functional_collectives: collectives that return new tensors, with gradients.

Each is a linear map over the tensors of all processes, and its gradient is the transposed map: what was gathered is
scattered, and what went from 0 to 1 comes back from 1 to 0. They may be part of compiled programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._core.errors.messages import missing as _missing
from .._engine.entry.bind import ops
from .._engine.memory.tensor import Tensor
from .._functions.create import zeros_like
from ..autograd.function import Function
from . import _collectives as c
from ._arguments import ReduceOp
from ._beginning import new_group
from ._groups import ProcessGroup, _groups, member_of

Map = Callable[[Tensor], Tensor]

_OPS = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}


class _Linear(Function):
    """A map between the tensors of all processes, and the transposed one for its gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, there: Map, back: Map) -> Tensor:
        ctx.maps = there, back
        return there(tensor.contiguous())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        there, back = ctx.maps
        return _Linear.apply(grad, back, there), None, None


def _no_gradient(name: str, op: str) -> Map:
    def refuse(grad: Tensor) -> Tensor:
        raise RuntimeError(f"{name} backward only supports 'sum' reduction, got '{op}'")

    return refuse


def _reduction(name: str) -> Any:
    if name.lower() not in _OPS:
        raise RuntimeError(f"Unrecognized reduce_op: {name}")
    return _OPS[name.lower()]


def _group(group: Any) -> ProcessGroup:
    """The group that is meant: one, its name, ranks, or a dimension of a mesh."""
    if isinstance(group, ProcessGroup):
        return member_of(group)
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        return group[0].get_group(group[1])
    if hasattr(group, "get_group"):
        return group.get_group()
    if isinstance(group, str):
        found = next((g for g in _groups if g.group_name == group), None)
        if found is None:
            raise ValueError(f"there is no process group with the name {group!r}")
        return found
    if isinstance(group, list) and group and all(isinstance(r, int) for r in group):
        found = next((g for g in _groups if g._members == group), None)
        return found or new_group(group, use_local_synchronization=True, sort_ranks=False)
    raise ValueError(f"Unsupported group type: {type(group)}, {group}")


# --- the maps -------------------------------------------------------------------------------------


def _with_rows(x: Any, rows: int) -> Tensor:
    """Room for rows like those of a tensor."""
    return x.new_empty([rows, *x.shape[1:]])


def _reduced(pg: ProcessGroup, op: Any) -> Map:
    def run(x: Tensor) -> Tensor:
        out = x.clone()
        c.all_reduce(out, op, pg)
        return out

    return run


def _gathered(pg: ProcessGroup, dim: int) -> Map:
    def run(x: Tensor) -> Tensor:
        out = _with_rows(x, len(x) * pg.size())
        c.all_gather_single(out, x, pg)
        return out if dim == 0 else ops.cat(out.chunk(pg.size()), dim=dim)

    return run


def _scattered(pg: ProcessGroup, dim: int, op: Any = ReduceOp.SUM) -> Map:
    def run(x: Tensor) -> Tensor:
        moved = x if dim == 0 else ops.cat(x.chunk(pg.size(), dim=dim))
        out = _with_rows(moved, len(moved) // pg.size())
        c.reduce_scatter_single(out, moved.contiguous(), op, pg)
        return out

    return run


def _exchanged(pg: ProcessGroup, outgoing: Any, incoming: Any) -> Map:
    def run(x: Tensor) -> Tensor:
        out = _with_rows(x, len(x) if incoming is None else sum(incoming))
        c.all_to_all_single(out, x, incoming, outgoing, pg)
        return out

    return run


def _from_root(pg: ProcessGroup, root: int) -> Map:
    def run(x: Tensor) -> Tensor:
        out = x.clone()
        c.broadcast(out, group=pg, group_src=root)
        return out

    return run


def _to_root(pg: ProcessGroup, root: int) -> Map:
    def run(x: Tensor) -> Tensor:
        out = x.clone()
        c.reduce(out, group=pg, group_dst=root)
        return out if pg.rank() == root else zeros_like(out)

    return run


# --- collectives ----------------------------------------------------------------------------------


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: what these functions return is there already."""
    return tensor


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of the process `src`.

    Differs from torch: the gradient is the sum of all, at `src`, and zero elsewhere; torch gives each process its own.
    """
    pg = _group(group)
    root = pg._members.index(src)
    return _Linear.apply(self, _from_root(pg, root), _to_root(pg, root))


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The sum of the tensors of all processes, or what else the name says; only the sum has a gradient."""
    pg, op = _group(group), _reduction(reduceOp)
    there = _reduced(pg, op)
    back = there if op == ReduceOp.SUM else _no_gradient("all_reduce", reduceOp.lower())
    return _Linear.apply(self, there, back)


def all_gather_single(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes, one after another along a dimension."""
    pg = _group(group)
    return _Linear.apply(self, _gathered(pg, gather_dim), _scattered(pg, gather_dim))


def reduce_scatter_single(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    """This process's part, along a dimension, of the sum of all tensors."""
    pg, op = _group(group), _reduction(reduceOp)
    length: Any = self.shape[scatter_dim]
    if length % pg.size():
        raise AssertionError(f"input dimension {scatter_dim} ({length} must be a multiple of group_size {pg.size()})")
    back = _gathered(pg, scatter_dim)
    if op != ReduceOp.SUM:
        back = _no_gradient("reduce_scatter_tensor", reduceOp.lower())
    return _Linear.apply(self, _scattered(pg, scatter_dim, op), back)


def all_to_all_single(
    self: Tensor, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = ""
) -> Tensor:
    """The parts that all processes have for this one, one after another."""
    pg = _group(group)
    there = _exchanged(pg, input_split_sizes, output_split_sizes)
    return _Linear.apply(self, there, _exchanged(pg, output_split_sizes, input_split_sizes))


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """The tensor of the process that sends to this one: rank `r` sends to rank `src_dst[r]`.

    Raises:
        ValueError: two processes send to the same one.
    """
    pg = _group(group)
    if sorted(src_dst) != list(range(pg.size())):
        raise ValueError(f"permute_tensor: {list(src_dst)} does not name each of {pg.size()} ranks once")
    to, source = src_dst[pg.rank()], list(src_dst).index(pg.rank())

    def moved(to: int, source: int) -> Map:
        def run(x: Tensor) -> Tensor:
            flat = x.reshape(-1)
            outgoing = [flat.numel() * (r == to) for r in range(pg.size())]
            incoming = [flat.numel() * (r == source) for r in range(pg.size())]
            return _exchanged(pg, outgoing, incoming)(flat).reshape(x.shape)

        return run

    return _Linear.apply(self, moved(to, source), moved(source, to))


all_gather_tensor = all_gather_single
reduce_scatter_tensor = reduce_scatter_single
all_to_all_single_autograd = all_to_all_single


class AsyncCollectiveTensor:
    """No tensor is one: what these functions return is there already."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("torch.distributed._functional_collectives.AsyncCollectiveTensor")


__getattr__ = _missing(__name__)
