"""Collectives on tensors: each checks its arguments, exchanges arrays, and writes what arrived into its tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.errors import warn
from .._engine.graph.record import no_grad
from .._engine.memory.tensor import Tensor
from . import _exchange, _in_xla
from ._arguments import (
    ReduceOp,
    alike,
    assign,
    fill,
    fitting,
    group_for,
    perform,
    reduction,
    root_of,
    size_of,
    takes_result,
    tensor_of,
    tensors_of,
)
from ._call import array_of, begin, joined, like
from ._errors import DistBackendError
from ._exchange import Turn
from ._groups import ProcessGroup
from ._work import Work


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Work | None:
    """Return when all processes of the group are here."""
    pg = group_for("barrier", group)
    if pg is None:
        return None
    found = begin(pg, "barrier", [], [], _exchange.barrier, timeout=timeout, in_xla=_in_xla.barrier)
    return perform(async_op, [], found)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Return when all processes of the group are here; otherwise rank 0 says who is not.

    Args:
        group: the group.
        timeout: how long to wait.
        wait_all_ranks: whether rank 0 names all that are missing instead of the first one.

    Raises:
        DistBackendError: somebody is not here in time.
    """
    pg = group_for("monitored_barrier", group)
    if pg is None:
        return
    turn = pg.turn("monitored_barrier", timeout=timeout)
    if turn.rank == 0:
        _wait_for_all(turn, wait_all_ranks)
        return
    turn.send(0, _NOTHING)
    turn.deadline += 1  # rank 0 is the one to say who is missing
    try:
        turn.take(0)
    except DistBackendError as e:
        raise DistBackendError(
            f"Rank {turn.wires.rank} successfully reached monitoredBarrier, but received errors while waiting for "
            f"send/recv from rank 0. Please check rank 0 logs for faulty rank.\nOriginal exception: {e}"
        ) from None


_NOTHING = np.zeros(0, np.uint8)


def _wait_for_all(turn: Turn, wait_all_ranks: bool) -> None:
    missing: list[int] = []
    for r in range(1, turn.size):
        try:
            turn.take(r)
        except DistBackendError:
            missing.append(turn.members[r])
            if not wait_all_ranks:
                break
    if missing:
        named = f"Rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        raise DistBackendError(
            f"[Rank {turn.wires.rank}]: {named} failed to pass monitoredBarrier in {int(turn.timeout * 1000)} ms"
        )
    for r in range(1, turn.size):
        turn.send(r, _NOTHING)


# --- reductions -----------------------------------------------------------------------------------


def _averaged(op: Any, tensor: Tensor, size: int) -> None:
    """torch adds first, and divides then by the number of processes."""
    if op == ReduceOp.AVG:
        with no_grad():
            tensor.div_(size)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Write the sum of all processes' tensors into each of them.

    Args:
        tensor: what is added, and where the sum is written to.
        op: how values become one.
        group: which processes; all of them if it is None.
        async_op: whether to return something to wait for.

    Raises:
        ValueError: there is no group, or complex numbers are to be ordered.
        DistBackendError: a process did not take part; the message names it.
    """
    op = reduction(op, tensor_of(tensor, "tensor"))
    pg = group_for("all_reduce", group)
    if pg is None:
        return None
    what = f"all_reduce({op.name}) of {size_of(tensor)}"
    found = begin(
        pg,
        what,
        [array_of(tensor)],
        [like(tensor)],
        lambda turn, x: [_exchange.all_reduce(turn, x, op.name)],
        in_xla=partial(_in_xla.all_reduce, op=op.name),
    )

    def run() -> None:
        fill(tensor, found()[0])
        _averaged(op, tensor, pg.size())

    return perform(async_op, [tensor], run)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Write the sum of all processes' tensors into that of one of them."""
    op = reduction(op, tensor_of(tensor, "tensor"), "reduce")
    pg = group_for("reduce", group)
    if pg is None:
        return None
    root = root_of("reduce", pg, dst, group_dst)
    found = begin(
        pg,
        f"reduce({op.name}) of {size_of(tensor)} to {root}",
        [array_of(tensor)],
        [like(tensor)],
        lambda turn, x: [_exchange.reduce(turn, x, root, op.name)],
        in_xla=partial(_in_xla.reduce, root=root, op=op.name),
    )

    def run() -> None:
        (array,) = found()
        if takes_result(pg, True, root):
            fill(tensor, array)
        if pg.rank() == root:
            _averaged(op, tensor, pg.size())

    return perform(async_op, [tensor], run)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the sum of the tensors that all processes have for this one into the output.

    Args:
        output: where it is written to.
        input_list: a tensor for each process; they may differ in size.
        op: how values become one.
        group: which processes; all of them if it is None.
        async_op: whether to return something to wait for.
    """
    tensor_of(output, "output"), tensors_of(input_list, "input_list")
    alike(*input_list, output)
    op = reduction(op, output, "reduce_scatter")
    pg = group_for("reduce_scatter", group)
    if pg is None:
        return None
    if len(input_list) != pg.size() or input_list[pg.rank()].shape != output.shape:
        fitting("reduce_scatter", input_list, output, pg.size())
    return _reduce_scattered(pg, output, [array_of(x) for x in input_list], op, async_op)


def _reduce_scattered(
    pg: ProcessGroup, output: Tensor, xs: Sequence[Any], op: Any, async_op: bool, name: str = "reduce_scatter"
) -> Work | None:
    found = begin(
        pg,
        f"{name}({op.name}) of {[x.size for x in xs]} elements of {output.dtype}",
        xs,
        [like(output)],
        lambda turn, *xs: [_exchange.reduce_scatter(turn, xs, op.name)],
        in_xla=_in_xla.if_equal(partial(_in_xla.reduce_scatter, op=op.name), xs),
    )

    def run() -> None:
        assign(output, found()[0])
        _averaged(op, output, pg.size())

    return perform(async_op, [output], run)


def reduce_scatter_single(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`reduce_scatter` of the equal parts of one tensor."""
    tensor_of(output, "output"), tensor_of(input, "input")
    alike(output, input)
    op = reduction(op, output, "reduce_scatter")
    pg = group_for("reduce_scatter_single", group)
    if pg is None:
        return None
    _sizes("reduce_scatter_single", output, input, pg.size())
    parts = array_of(input).reshape(pg.size(), -1)
    return _reduce_scattered(pg, output, [parts[r] for r in range(pg.size())], op, async_op, "reduce_scatter_tensor")


def _sizes(name: str, small: Tensor, large: Tensor, size: int) -> None:
    if small.numel() * size != large.numel():
        raise RuntimeError(
            f"{name}: {size} processes have parts of {small.numel()} elements, which are not the {large.numel()} of "
            "the whole"
        )


def spread(pg: ProcessGroup, tensors: Sequence[Tensor], root: int, what: str) -> None:
    """Give all processes the values that one has of some tensors, with one message for each dtype."""
    for dtype in dict.fromkeys(t.dtype for t in tensors):
        same = [t for t in tensors if t.dtype == dtype]
        whole = joined([array_of(t) for t in same])
        found = begin(
            pg,
            f"{what} of {whole.size} elements of {dtype}",
            [whole],
            [like(same[0], whole.shape)],
            lambda turn, x: [_exchange.broadcast(turn, x, root)],
            in_xla=partial(_in_xla.broadcast, root=root),
        )()
        if takes_result(pg, False, root):
            at = 0
            for t in same:
                fill(t, found[0][at : at + t.numel()])
                at += t.numel()


# --- from one to all, from all to all -------------------------------------------------------------


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Write the tensor of one process into those of all."""
    tensor_of(tensor, "tensor")
    pg = group_for("broadcast", group)
    if pg is None:
        return None
    root = root_of("broadcast", pg, src, group_src)
    found = begin(
        pg,
        f"broadcast of {size_of(tensor)} from {root}",
        [array_of(tensor)],
        [like(tensor)],
        lambda turn, x: [_exchange.broadcast(turn, x, root)],
        in_xla=partial(_in_xla.broadcast, root=root),
    )

    def run() -> None:
        (array,) = found()
        if takes_result(pg, False, root):
            fill(tensor, array)

    return perform(async_op, [tensor], run)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Write the tensors of all processes into a list.

    Raises:
        RuntimeError: the list has another length, or a tensor in it another shape.
    """
    tensors_of(tensor_list, "tensor_list"), tensor_of(tensor, "tensor")
    alike(*tensor_list, tensor)
    pg = group_for("all_gather", group)
    if pg is None:
        return None
    fitting("allgather", tensor_list, tensor, pg.size())
    what = f"all_gather of {size_of(tensor)}"
    found = begin(
        pg, what, [array_of(tensor)], [like(tensor)] * pg.size(), _exchange.all_gather, in_xla=_in_xla.all_gather
    )

    def run() -> None:
        for out, array in zip(tensor_list, found()):
            assign(out, array)

    return perform(async_op, tensor_list, run)


def all_gather_single(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensors of all processes into one, one after another."""
    tensor_of(output_tensor, "output"), tensor_of(input_tensor, "input")
    alike(output_tensor, input_tensor)
    pg = group_for("all_gather_single", group)
    if pg is None:
        return None
    _sizes("all_gather_single", input_tensor, output_tensor, pg.size())
    found = begin(
        pg,
        f"all_gather_single of {size_of(input_tensor)}",
        [array_of(input_tensor)],
        [like(output_tensor)],
        lambda turn, x: [np.concatenate(_exchange.all_gather(turn, x.reshape(-1)))],
        in_xla=lambda x: [lax.all_gather(x, _in_xla.AXIS)],
    )

    def run() -> None:
        assign(output_tensor, found()[0])

    return perform(async_op, [output_tensor], run)


def _older(name: str, newer: Any) -> Any:
    @functools.wraps(newer)
    def older(*args: Any, **kwargs: Any) -> Any:
        warn.to_user(
            f"`torch.distributed.{name}` is deprecated. Please use `torch.distributed.{newer.__name__}` instead.",
            FutureWarning,
        )
        return newer(*args, **kwargs)

    older.__name__ = older.__qualname__ = name
    return older


all_gather_into_tensor = _older("all_gather_into_tensor", all_gather_single)
reduce_scatter_tensor = _older("reduce_scatter_tensor", reduce_scatter_single)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send a part of a tensor to each process, and put the parts from all into one.

    Args:
        output: where the parts from all processes go.
        input: what is split.
        output_split_sizes: how many rows come from each process; equally many if it is None.
        input_split_sizes: how many rows go to each.
        group: which processes.
        async_op: whether to return something to wait for.

    Raises:
        RuntimeError: the sizes do not add up.
    """
    tensor_of(output, "output"), tensor_of(input, "input")
    alike(output, input)
    pg = group_for("all_to_all_single", group)
    if pg is None:
        return None
    parts = _parts(input, input_split_sizes, pg.size())
    incoming = _rows(output, output_split_sizes, pg.size())

    def step(turn: Turn, *parts: Any) -> list[np.ndarray]:
        found = _exchange.all_to_all(turn, parts)
        for r, (got, rows) in enumerate(zip(found, incoming)):
            if (len(got) if got.ndim else 0) != rows:
                raise RuntimeError(
                    f"all_to_all_single: rank {r} sent {len(got)} rows, and output_split_sizes says {rows}"
                )
        return [np.concatenate(found)]

    found = begin(
        pg, f"all_to_all_single of {input.dtype}", parts, [like(output)], step, in_xla=_if_equal_rows(parts, incoming)
    )
    return perform(async_op, [output], lambda: fill(output, found()[0]))


def _if_equal_rows(parts: Sequence[Any], incoming: Sequence[int]) -> Any:
    def joined_parts(*xs: Any) -> list[Any]:
        return [jnp.concatenate(_in_xla.all_to_all(*xs))]

    return joined_parts if len({len(x) for x in parts} | set(incoming)) == 1 else None


def _rows(x: Tensor, sizes: Any, n: int) -> list[int]:
    rows = len(x) if x.dim() else 1
    if not sizes:
        if rows % n:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        return [rows // n] * n
    if len(sizes) != n:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [int(s) for s in sizes]


def _parts(x: Tensor, sizes: Any, n: int) -> list[Any]:
    rows, whole = _rows(x, sizes, n), array_of(x)
    ends = np.cumsum(rows).tolist()
    whole = whole if whole.ndim else whole[None]
    return [whole[end - size : end] for end, size in zip(ends, rows)]


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Send a tensor to each process, and get one from each."""
    outputs = tensors_of(output_tensor_list, "output_tensor_list")
    inputs = tensors_of(input_tensor_list, "input_tensor_list")
    alike(*outputs, *inputs)
    pg = group_for("all_to_all", group)
    if pg is None:
        return None
    for name, found in (("input", inputs), ("output", outputs)):
        if len(found) != pg.size():
            raise RuntimeError(f"all_to_all: the {name} list has {len(found)} tensors for {pg.size()} processes")
    sizes = [out.numel() for out in outputs]

    def step(turn: Turn, *xs: Any) -> list[np.ndarray]:
        found = _exchange.all_to_all(turn, xs)
        for r, (size, array) in enumerate(zip(sizes, found)):
            if size != array.size:
                raise RuntimeError(f"all_to_all: rank {r} sent {array.size} elements, and the output has {size}")
        return found

    arrays = [array_of(x) for x in inputs]
    found = begin(
        pg,
        "all_to_all",
        arrays,
        list(map(like, outputs)),
        step,
        in_xla=_in_xla.if_equal(_in_xla.all_to_all, [*arrays, *outputs]),
    )

    def run() -> None:
        for out, array in zip(outputs, found()):
            assign(out, array)

    return perform(async_op, outputs, run)


def gather(
    tensor: Tensor,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Write the tensors of all processes into a list of one of them."""
    tensor_of(tensor, "tensor")
    pg = group_for("gather", group)
    if pg is None:
        return None
    root = root_of("gather", pg, dst, group_dst, 0)
    _only_at_root("gather_list", "destination", gather_list, pg.rank() == root)
    outputs = tensors_of(gather_list or [], "gather_list")
    alike(*outputs, tensor)
    if outputs:
        fitting("gather", outputs, tensor, pg.size())
    what = f"gather of {size_of(tensor)} to {root}"
    found = begin(
        pg, what, [array_of(tensor)], list(map(like, outputs)), lambda turn, x: _exchange.gather(turn, x, root)
    )

    def run() -> None:
        for out, array in zip(outputs, found()):
            assign(out, array)

    return perform(async_op, outputs, run)


def _only_at_root(argument: str, side: str, given: Any, here: bool) -> None:
    if here and not given:
        raise ValueError(f"Argument ``{argument}`` must be specified on {side} rank.")
    if given and not here:
        raise ValueError(f"Argument ``{argument}`` must NOT be specified on non-{side} ranks.")


def scatter(
    tensor: Tensor,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write the tensor that one process has for this one."""
    tensor_of(tensor, "tensor")
    pg = group_for("scatter", group)
    if pg is None:
        return None
    root = root_of("scatter", pg, src, group_src, 0)
    _only_at_root("scatter_list", "source", scatter_list, pg.rank() == root)
    inputs = tensors_of(scatter_list or [], "scatter_list")
    alike(*inputs, tensor)
    if inputs:
        fitting("scatter", inputs, tensor, pg.size())
    found = begin(
        pg,
        f"scatter of {size_of(tensor)} from {root}",
        [array_of(x) for x in inputs],
        [like(tensor)],
        lambda turn, *xs: [_exchange.scatter(turn, xs, root)],
    )
    return perform(async_op, [tensor], lambda: fill(tensor, found()[0]))
