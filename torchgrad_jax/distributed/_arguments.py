"""Arguments of collectives: what they must be, and how tensors become arrays and get their new values."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .._core.arrays.meta import meta
from .._core.arrays.transfer import put
from .._core.errors import warn
from .._engine.graph.record import no_grad
from .._engine.memory.strided import write
from .._engine.memory.tensor import Tensor, make
from ..compiler import is_compiling
from ._groups import ProcessGroup, get_group_rank, group as _default, member_of, outside
from ._work import Work


class RedOpType(enum.IntEnum):
    """How values of several processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class _ReduceOpMeta(type):
    """The reductions are what `ReduceOp` is asked about."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, RedOpType)


class ReduceOp(metaclass=_ReduceOpMeta):
    """Names of reductions; called with one of them, it gives that one."""

    RedOpType = RedOpType

    def __new__(cls, op: RedOpType) -> RedOpType:
        return RedOpType(op)

    SUM, AVG, PRODUCT = RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT
    MIN, MAX = RedOpType.MIN, RedOpType.MAX
    BAND, BOR, BXOR = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM


reduce_op = ReduceOp
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


# --- checks ---------------------------------------------------------------------------------------


def tensor_of(value: Any, name: str) -> Tensor:
    """The argument, which must be a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )
    return value


def tensors_of(value: Any, name: str) -> list[Tensor]:
    """The argument, which must be a list of tensors."""
    if not isinstance(value, list) or not all(isinstance(x, Tensor) for x in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(value)} instead."
        )
    return value


def alike(*tensors: Tensor) -> None:
    """Tensors of one call have one dtype."""
    for x in tensors[:-1]:
        if x.dtype != tensors[-1].dtype:
            raise ValueError(f"Invalid usage of tensors with different dtypesFound {x.dtype} and  {tensors[-1].dtype}")


def fitting(name: str, outputs: Sequence[Tensor], tensor: Tensor, size: int) -> None:
    """A list has a tensor for each process, of the same shape."""
    if len(outputs) != size:
        raise RuntimeError(
            f"ProcessGroupGloo::{name}: invalid output tensor list at index 0 "
            f"(expected length {size}, got {len(outputs)})"
        )
    for i, out in enumerate(outputs):
        if out.shape != tensor.shape:
            want, got = (f"({', '.join(map(str, x.shape))})" for x in (tensor, out))
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid tensor size at index {i} (expected {want}, got {got})"
            )


def supports_complex(reduceOp: RedOpType) -> bool:
    """Return whether a reduction takes complex numbers: those that order, multiply or combine bits do not."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


def reduction(op: Any, tensor: Tensor, call: str = "all_reduce") -> RedOpType:
    """The reduction that is meant, which must suit the dtype."""
    if isinstance(op, str) or int(op) not in RedOpType.__members__.values():
        raise TypeError(f"op must be a torch.distributed.ReduceOp, not {op!r}")
    op = RedOpType(int(op))
    if tensor.is_complex() and not supports_complex(op):
        kind = ValueError if call == "all_reduce" else RuntimeError
        raise kind(f"{call} does not support {op} on complex tensors")
    if op in _BITWISE and tensor.is_floating_point():
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if op == ReduceOp.PREMUL_SUM:
        raise RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo")
    return op


def one_rank(rank: int | None, group_rank: int | None, default: int | None = None) -> int | None:
    """Checks that a rank is given in one of two ways; the global one, if it is."""
    if rank is None and group_rank is None and default is None:
        raise ValueError("Must specify global_rank or group_rank")
    if rank is not None and group_rank is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    return default if rank is None and group_rank is None else rank


def root_of(call: str, pg: ProcessGroup, rank: Any, group_rank: Any, default: Any = None) -> int:
    """The rank in the group of the process that sends to, or gets from, all others."""
    found = one_rank(rank, group_rank, default)
    root = group_rank if found is None else found
    if found is not None and pg is not _default.WORLD:
        root = get_group_rank(pg, found)
    if not 0 <= root < pg.size():
        raise RuntimeError(f"ProcessGroupGloo::{call}: invalid root rank: {root}")
    return int(root)


def group_for(call: str, group: Any) -> ProcessGroup | None:
    """The group, or None with a warning where this process is not in it."""
    if outside(group):
        rank = -1 if _default.WORLD is None else _default.WORLD.rank()
        warn.to_user(f"Running {call} on global rank {rank} which does not belong to the given group.")
        return None
    return member_of(group)


# --- arrays ---------------------------------------------------------------------------------------


def tensor_from(array: Any, like: Tensor) -> Tensor:
    """An array as a tensor with the dtype and on the device of another one."""
    placed = array if isinstance(array, jax.core.Tracer) else put(array, like._m.device)
    return make(placed, meta(array.shape, like.dtype, like._m.device))


def fill(target: Tensor, array: Any) -> None:
    """Give a tensor new values, as if they had arrived in its memory: its version stays what it was."""
    if isinstance(array, jax.core.Tracer):
        with no_grad():
            target.copy_(tensor_from(array.reshape(target.shape), target))
    elif array.dtype != target._m.dtype.np:
        target.data.copy_(tensor_from(array.reshape(target.shape), target))
    elif array.size:
        write(target, put(array.reshape(target.shape), target._m.device), bump=False)


def assign(target: Tensor, array: Any) -> None:
    """Give a tensor new values by an in-place copy, which counts as a version.

    Raises:
        RuntimeError: it is a leaf that requires a gradient.
    """
    if target.requires_grad and target.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    with no_grad():
        target.copy_(tensor_from(array.reshape(target.shape), target))


def takes_result(pg: ProcessGroup, at_root: bool, root: int) -> bool:
    """Return whether this process writes what a collective gave, if that is at the root, or everywhere else.

    In a compiled program all processes do, and get their own values back: it is the same program in all of them then.
    """
    return is_compiling() or (pg.rank() == root) is at_root


def size_of(x: Tensor) -> str:
    """Return what the processes of a collective must agree on about a tensor."""
    return f"{x.numel()} elements of {x.dtype}"


def perform(async_op: bool, results: Sequence[Any], run: Callable[[], Any]) -> Work | None:
    """Run a collective now, or in a thread of its own; as a step of a program it is written down now."""
    if async_op and is_compiling():
        run()
        return Work(results)
    if async_op:
        return Work(results, run)
    run()
    return None
