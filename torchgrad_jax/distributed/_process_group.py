"""A process group with the methods of torch's: the collectives of the module under other names.

Ranks that they take are ranks in the group. All of them return something to wait for.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from .._engine.memory.tensor import Tensor
from . import _collectives, _groups, _messages
from ._arguments import ReduceOp
from ._options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    Options,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from ._stores import Store, seconds
from ._work import Work


def _only(tensors: Any, what: str) -> Any:
    """The only entry of a list, as these methods take one tensor, or one list of tensors, of each process."""
    if not isinstance(tensors, list | tuple):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"ProcessGroup.{what} takes a list of one entry, not of {len(tensors)}")
    return tensors[0]


def _options(kind: type[Any], opts: Any, timeout: Any = None, given: Any = None, **fields: Any) -> Any:
    """The options of a call: `opts`, or what was `given` first if that is options, or those that `fields` make."""
    given = given if opts is None else opts
    if isinstance(given, Options):
        if not isinstance(given, kind):
            raise TypeError(f"{kind.__name__} are needed, not {type(given).__name__}")
        return given
    timeout = given if isinstance(given, datetime.timedelta) else timeout
    return kind(**fields) if timeout is None else kind(timeout, **fields)


class ProcessGroup(_groups.ProcessGroup):
    """Processes that work together; `init_process_group` and `new_group` make them."""

    bound_device_id = None

    def _get_backend_name(self) -> str:
        """The name of its backend."""
        return self._backend

    def get_group_store(self) -> Store:
        """The store of the group."""
        return self.store

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Change how long its processes wait for each other."""
        self._timeout = seconds(timeout)

    @contextlib.contextmanager
    def _limit(self, options: Options) -> Iterator[None]:
        """A block whose collectives have the timeout of some options."""
        before = self._timeout
        if options.timeout > datetime.timedelta(0):
            self._timeout = seconds(options.timeout)
        try:
            yield
        finally:
            self._timeout = before

    def allreduce(self, tensors: Any, op: Any = ReduceOp.SUM, timeout: Any = None, *, opts: Any = None) -> Any:
        """`all_reduce` of a tensor, or of the tensor in a list."""
        options = _options(AllreduceOptions, opts, timeout, op, reduceOp=op)
        with self._limit(options):
            return _collectives.all_reduce(_only(tensors, "allreduce"), options.reduceOp, self, True)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        """`all_reduce` of each tensor of a list."""
        options = _options(AllreduceCoalescedOptions, opts)
        with self._limit(options):
            return _collectives.all_reduce_coalesced(list(tensors), options.reduceOp, self, True)

    def broadcast(self, tensors: Any, root: Any = 0, timeout: Any = None, *, opts: Any = None) -> Any:
        """`broadcast` of a tensor, or of the tensor in a list."""
        options = _options(BroadcastOptions, opts, timeout, root, rootRank=root)
        with self._limit(options):
            return _collectives.broadcast(_only(tensors, "broadcast"), None, self, True, options.rootRank)

    def reduce(
        self, tensors: Any, root: Any = 0, op: Any = ReduceOp.SUM, timeout: Any = None, *, opts: Any = None
    ) -> Any:
        """`reduce` of a tensor, or of the tensor in a list."""
        options = _options(ReduceOptions, opts, timeout, root, reduceOp=op, rootRank=root)
        with self._limit(options):
            return _collectives.reduce(_only(tensors, "reduce"), None, options.reduceOp, self, True, options.rootRank)

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None, *, timeout: Any = None) -> Any:
        """`all_gather` into a list of tensors, or into the only one of a list of lists."""
        outputs, one = _list_of(output_tensors, "allgather"), _only(input_tensors, "allgather")
        with self._limit(_options(AllgatherOptions, opts, timeout)):
            return _collectives.all_gather(outputs, one, self, True)

    def gather(
        self, output_tensors: Any, input_tensors: Any, root: Any = 0, timeout: Any = None, *, opts: Any = None
    ) -> Any:
        """`gather` into a list of tensors, or into the only one of a list of lists; others than the root give none."""
        options = _options(GatherOptions, opts, timeout, root, rootRank=root)
        outputs = _list_of(output_tensors, "gather") if output_tensors else None
        with self._limit(options):
            return _collectives.gather(_only(input_tensors, "gather"), outputs, None, self, True, options.rootRank)

    def scatter(
        self, output_tensors: Any, input_tensors: Any, root: Any = 0, timeout: Any = None, *, opts: Any = None
    ) -> Any:
        """`scatter` of a list of tensors, or of the only one of a list of lists; others than the root give none."""
        options = _options(ScatterOptions, opts, timeout, root, rootRank=root)
        inputs = _list_of(input_tensors, "scatter") if input_tensors else None
        with self._limit(options):
            return _collectives.scatter(_only(output_tensors, "scatter"), inputs, None, self, True, options.rootRank)

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Any, op: Any = ReduceOp.SUM, timeout: Any = None, *, opts: Any = None
    ) -> Any:
        """`reduce_scatter` of a list of tensors, or of the only one of a list of lists."""
        options = _options(ReduceScatterOptions, opts, timeout, op, reduceOp=op)
        inputs, out = _list_of(input_tensors, "reduce_scatter"), _only(output_tensors, "reduce_scatter")
        with self._limit(options):
            return _collectives.reduce_scatter(out, inputs, options.reduceOp, self, True)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """`all_gather_into_tensor`."""
        with self._limit(_options(AllgatherOptions, opts)):
            return _collectives.all_gather_single(output, input, self, True)

    def _reduce_scatter_base(self, outputTensor: Tensor, inputTensor: Tensor, opts: Any = None) -> Any:
        """`reduce_scatter_tensor`."""
        options = _options(ReduceScatterOptions, opts)
        with self._limit(options):
            return _collectives.reduce_scatter_single(outputTensor, inputTensor, options.reduceOp, self, True)

    def allgather_into_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Any:
        """`all_gather_into_tensor` of several tensors."""
        for out, x in zip(outputs, inputs, strict=True):
            self._allgather_base(out, x, opts).wait()
        return Work(outputs)

    def reduce_scatter_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Any:
        """`reduce_scatter_tensor` of several tensors."""
        for out, x in zip(outputs, inputs, strict=True):
            self._reduce_scatter_base(out, x, opts).wait()
        return Work(outputs)

    def alltoall(self, output_tensors: list[Tensor], input_tensors: list[Tensor], opts: Any = None) -> Any:
        """`all_to_all`."""
        with self._limit(_options(AllToAllOptions, opts)):
            return _collectives.all_to_all(list(output_tensors), list(input_tensors), self, True)

    def alltoall_base(
        self, output: Tensor, input: Tensor, output_split_sizes: Any, input_split_sizes: Any, opts: Any = None
    ) -> Any:
        """`all_to_all_single`."""
        with self._limit(_options(AllToAllOptions, opts)):
            return _collectives.all_to_all_single(output, input, output_split_sizes, input_split_sizes, self, True)

    def send(self, tensors: Any, dstRank: int, tag: int = 0) -> Any:
        """`isend` of the tensor in a list."""
        return _messages.isend(_only(tensors, "send"), group=self, tag=tag, group_dst=dstRank)

    def recv(self, tensors: Any, srcRank: int, tag: int = 0) -> Any:
        """`irecv` into the tensor in a list."""
        return _messages.irecv(_only(tensors, "recv"), group=self, tag=tag, group_src=srcRank)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """`irecv` into the tensor in a list, from any process."""
        return _messages.irecv(_only(tensors, "recv_anysource"), group=self, tag=tag)

    def barrier(self, opts: Any = None, *, timeout: Any = None) -> Any:
        """`barrier`."""
        with self._limit(_options(BarrierOptions, opts, timeout)):
            return _collectives.barrier(self, True)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """`monitored_barrier`."""
        _collectives.monitored_barrier(self, timeout, wait_all_ranks)


def _list_of(tensors: Any, what: str) -> list[Tensor]:
    """A list of tensors, or the only one in a list of lists."""
    found = tensors if tensors and isinstance(tensors[0], Tensor) else _only(tensors, what)
    return list(found)
