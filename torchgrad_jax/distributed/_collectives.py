"""What processes do together, done by one: every result is what went in."""

from __future__ import annotations

import enum
import functools
import pickle
import warnings
from collections.abc import Sequence
from typing import Any

from .._engine.record import no_grad
from .._engine.tensor import Tensor
from ._groups import Work, member_of


class RedOpType(enum.IntEnum):
    """How values of several processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class ReduceOp:
    """Names of reductions."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT = RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT
    MIN, MAX = RedOpType.MIN, RedOpType.MAX
    BAND, BOR, BXOR = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM


reduce_op = ReduceOp


def _tensor(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )
    return value


def _tensors(value: Any, name: str) -> list[Tensor]:
    if not isinstance(value, list) or not all(isinstance(x, Tensor) for x in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(value)} instead."
        )
    return value


def _alike(x: Tensor, y: Tensor) -> None:
    if x.dtype != y.dtype:
        raise ValueError(f"Invalid usage of tensors with different dtypesFound {x.dtype} and  {y.dtype}")  # fmt: skip


def _root(name: str, rank: int) -> None:
    if rank != 0:
        raise RuntimeError(f"ProcessGroupGloo::{name}: invalid root rank: {rank}")


def _write(target: Tensor, source: Tensor) -> None:
    with no_grad():
        target.copy_(source)


def _done(async_op: bool, *results: Any) -> Work | None:
    return Work(results) if async_op else None


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Work | None:
    """Wait for nobody."""
    member_of(group)
    return _done(async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait for nobody."""
    member_of(group)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Leave the tensor as it is: there are no others to add.

    Raises:
        ValueError: there is no group, or complex numbers are to be ordered.
    """
    _tensor(tensor, "tensor")
    if tensor.is_complex() and op in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    member_of(group)
    if op == ReduceOp.AVG:  # torch divides by the number of processes
        with no_grad():
            tensor.div_(1)
    return _done(async_op, tensor)


def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Leave the tensor as it is."""
    _tensor(tensor, "tensor")
    member_of(group)
    _root("reduce", _rank(dst, group_dst, "dst"))
    return _done(async_op, tensor)


def _rank(rank: int | None, group_rank: int | None, name: str) -> int:
    if rank is None and group_rank is None:
        raise ValueError(f"Must specify {name} or group_{name}")
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and {name}")
    return int(rank if rank is not None else group_rank or 0)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:  # fmt: skip
    """Leave the tensor as it is."""
    _tensor(tensor, "tensor")
    member_of(group)
    _root("broadcast", _rank(src, group_src, "src"))
    return _done(async_op, tensor)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensor into the one of the list.

    Raises:
        RuntimeError: the list has another length, or the tensor in it another shape.
    """
    _tensors(tensor_list, "tensor_list"), _tensor(tensor, "tensor")
    for x in tensor_list:
        _alike(x, tensor)
    member_of(group)
    _fitting("allgather", tensor_list, tensor)
    _write(tensor_list[0], tensor)
    return _done(async_op, *tensor_list)


def _fitting(name: str, outputs: Sequence[Tensor], tensor: Tensor) -> None:
    if len(outputs) != 1:
        raise RuntimeError(
            f"ProcessGroupGloo::{name}: invalid output tensor list at index 0 (expected length 1, got {len(outputs)})"
        )
    if outputs[0].shape != tensor.shape:
        want, got = (f"({', '.join(map(str, x.shape))})" for x in (tensor, outputs[0]))
        raise RuntimeError(
            f"ProcessGroupGloo::{name}: invalid tensor size at index 0 (expected {want}, got {got})"
        )


def _flat(name: str, output: Tensor, tensor: Tensor, group: Any, async_op: bool) -> Work | None:
    _tensor(output, "output"), _tensor(tensor, "input")
    _alike(output, tensor)
    member_of(group)
    if output.numel() != tensor.numel():
        raise ValueError(
            f"{name}: the output has {output.numel()} elements, and the input of one process {tensor.numel()}"
        )
    _write(output, tensor.reshape(output.shape))
    return _done(async_op, output)


def all_gather_single(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the input into the output."""
    return _flat("all_gather_single", output_tensor, input_tensor, group, async_op)


def reduce_scatter_single(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the input into the output."""
    return _flat("reduce_scatter_single", output, input, group, async_op)


def _older(name: str, newer: Any) -> Any:
    @functools.wraps(newer)
    def older(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`torch.distributed.{name}` is deprecated. Please use `torch.distributed.{newer.__name__}` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return newer(*args, **kwargs)

    older.__name__ = older.__qualname__ = name
    return older


all_gather_into_tensor = _older("all_gather_into_tensor", all_gather_single)
reduce_scatter_tensor = _older("reduce_scatter_tensor", reduce_scatter_single)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Write the input into the output."""
    return _flat("all_to_all_single", output, input, group, async_op)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:  # fmt: skip
    """Write the one input into the one output."""
    outputs = _tensors(output_tensor_list, "output_tensor_list")
    inputs = _tensors(input_tensor_list, "input_tensor_list")
    member_of(group)
    _fitting("alltoall", outputs, _one("all_to_all", inputs))
    _write(outputs[0], inputs[0])
    return _done(async_op, *outputs)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:  # fmt: skip
    """Write the one input into the output."""
    _tensor(output, "output"), _tensors(input_list, "input_list")
    member_of(group)
    _fitting("reduce_scatter", [output], _one("reduce_scatter", input_list))
    _write(output, input_list[0])
    return _done(async_op, output)


def _one(name: str, values: Sequence[Any]) -> Any:
    if len(values) != 1:
        raise RuntimeError(f"{name}: one process has one part, and {len(values)} are given")
    return values[0]


def gather(
    tensor: Tensor, gather_list: Any = None, dst: int | None = None, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Write the tensor into the one of the list."""
    _tensor(tensor, "tensor")
    member_of(group)
    _root("gather", 0 if dst is None and group_dst is None else _rank(dst, group_dst, "dst"))
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _tensors(gather_list, "gather_list")
    _fitting("gather", gather_list, tensor)
    _write(gather_list[0], tensor)
    return _done(async_op, *gather_list)


def scatter(
    tensor: Tensor, scatter_list: Any = None, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Write the one tensor of the list into the tensor."""
    _tensor(tensor, "tensor")
    member_of(group)
    _root("scatter", 0 if src is None and group_src is None else _rank(src, group_src, "src"))
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    _tensors(scatter_list, "scatter_list")
    _fitting("scatter", scatter_list, tensor)
    _write(tensor, scatter_list[0])
    return _done(async_op, tensor)


# --- objects --------------------------------------------------------------------------------------


def _sent(obj: Any) -> Any:
    """An object as it arrives."""
    return pickle.loads(pickle.dumps(obj))


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the object into the list."""
    member_of(group)
    object_list[0] = _sent(obj)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Put the object into the list."""
    member_of(group)
    _root("gather", 0 if dst is None and group_dst is None else _rank(dst, group_dst, "dst"))
    if not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    object_gather_list[0] = _sent(obj)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:  # fmt: skip
    """Leave the list as it is."""
    member_of(group)
    _root("broadcast", 0 if src is None and group_src is None else _rank(src, group_src, "src"))


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Put the one object of the inputs into the outputs."""
    member_of(group)
    _root("scatter", 0 if src is None and group_src is None else _rank(src, group_src, "src"))
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")  # fmt: skip
    if not scatter_object_input_list:
        raise ValueError("source rank must provide non-None scatter_object_input_list")
    scatter_object_output_list[0] = _sent(_one("scatter_object_list", scatter_object_input_list))


# --- from one to another --------------------------------------------------------------------------


def _alone(name: str, doc: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        member_of(kwargs.get("group"))
        raise ValueError(
            f"torch.distributed.{name}: there is one process, and nobody to send to or receive from"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = doc
    return refuse


_ALONE = "Refused: there is one process.\n\nRaises:\n    ValueError: always.\n"
send, recv = _alone("send", _ALONE), _alone("recv", _ALONE)
isend, irecv = _alone("isend", _ALONE), _alone("irecv", _ALONE)
batch_isend_irecv = _alone("batch_isend_irecv", _ALONE)
