"""How the gradients of several processes become their average, bucket by bucket, while backward still runs.

A linear layer's bias gets its gradient before its weight does. Both belong to one bucket: an array that holds the
gradients of some parameters one after another. When the last of them is there, the bucket is sent. Buckets are sent in
the same order by all processes, and at the end of backward their averages are written into the gradients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from ..._engine.memory.tensor import Tensor
from ...autograd import Variable
from ...autograd.grad_mode import no_grad
from ...compiler import is_compiling
from ...distributed import _exchange, _in_xla
from ...distributed._arguments import fill, tensor_from
from ...distributed._buckets import GradBucket
from ...distributed._call import array_of, begin, joined
from ...distributed._groups import ProcessGroup
from ...distributed._work import Work

_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that "
)
_UNUSED = (
    "your module has parameters that were not used in producing loss. You can enable unused parameter detection by "
    "passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and "
    "by \nmaking sure all `forward` function outputs participate in calculating loss. \nIf you already have done the "
    "above, then the distributed data parallel module wasn't able to locate the output tensors in the return value of "
    "your module's `forward` function. Please include the loss function and the structure of the return value of "
    "`forward` of your module when reporting this issue (e.g. list, dict, iterable)."
)
_NO_LONGER_USED = (
    "your training graph has changed in this iteration, e.g., one parameter is used in first iteration, but then got "
    "unused in the second iteration. this is not compatible with static_graph set to True."
)
_NEWLY_USED = (
    "Your training graph has changed in this iteration, e.g., one parameter is unused in first iteration, but then got "
    "used in the second iteration. this is not compatible with static_graph set to True."
)
_DEBUG = (
    "\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print "
    "out information about which particular parameters did not receive gradient on this rank as part of this error"
)
_TWICE = (
    "Expected to mark a variable ready only once. Parameter at index {} got a gradient twice in one backward: it is "
    "used outside of the `forward` of the wrapped module, or in several reentrant backward passes, such as those of "
    "checkpoints around the same part of a model. With static_graph=True that is allowed."
)


@dataclasses.dataclass
class Bucket:
    """Parameters whose gradients travel together.

    Args:
        members: their numbers.
        ends: where the gradient of each ends in the array.
        waiting: how many have no gradient yet in this backward.
        result: what gives the reduced array, once the bucket is on its way.
        shared: the tensor whose views the gradients are, with gradient_as_bucket_view.
    """

    members: list[int]
    ends: list[int]
    waiting: int = 0
    result: Callable[[], Any] | None = None
    shared: Tensor | None = None
    views: list[Tensor] = dataclasses.field(default_factory=list)


def buckets_of(parameters: Sequence[Tensor], first: float, rest: float) -> list[Bucket]:
    """Parameters in buckets of at most so many bytes, the last parameter first, and each of one dtype.

    Args:
        parameters: the parameters, in the order of the module.
        first: bytes of the first bucket, which is small so that it can be sent early.
        rest: bytes of the others.
    """
    found: list[Bucket] = []
    for i in reversed(range(len(parameters))):
        p, last = parameters[i], found[-1] if found else None
        same = last is not None and parameters[last.members[0]].dtype == p.dtype
        limit = first if len(found) < 2 else rest
        if last is None or not same or last.ends[-1] * p.element_size() >= limit:
            last = Bucket([], [])
            found.append(last)
        last.members.append(i)
        last.ends.append((last.ends[-1] if last.ends else 0) + p.numel())
    return found


class Reducer:
    """The hooks of a module's parameters, and what they have seen of the running backward.

    Args:
        parameters: those that require gradients.
        group: the processes.
        buckets: which gradients travel together.
        find_unused: whether parameters may get no gradient.
        static: whether every backward gives gradients to the same parameters as the first.
        views: whether gradients are views of their bucket.
    """

    def __init__(
        self,
        parameters: list[Tensor],
        group: ProcessGroup,
        buckets: list[Bucket],
        *,
        find_unused: bool,
        static: bool,
        views: bool,
    ) -> None:
        self.parameters, self.group, self.buckets = parameters, group, buckets
        self.find_unused, self.static, self.views = find_unused, static, views
        self.hook: tuple[Any, Any] | None = None
        self.divisor = group.size()
        """What sums are divided by: the number of processes, or of those that have a batch."""
        self.averages_after: Callable[[], bool] | None = None
        """After a compiled forward: whether a backward outside of its program averages."""
        self._of = {i: b for b in buckets for i in b.members}
        self._expecting = self._queued = False
        self._ready: set[int] = set()
        self._next = 0
        self._first_used: set[int] | None = None
        self._everywhere: set[int] | None = None
        for i, p in enumerate(parameters):
            p.register_post_accumulate_grad_hook(lambda _, i=i: self._arrived(i))

    @property
    def waits_for_end(self) -> bool:
        """Whether only the end of backward says which parameters have got no gradient."""
        return (self.find_unused or self.static) and not is_compiling()

    def check_finished(self) -> None:
        """Raise if the previous backward has left gradients that were not averaged."""
        if not self._ready:
            return
        expected = self._first_used or set(range(len(self.parameters)))
        missing = sorted(expected - self._ready)
        why = _NO_LONGER_USED if self.static else _UNUSED
        raise RuntimeError(
            f"{_UNFINISHED}{why}\nParameter indices which did not receive grad for rank {self.group.rank()}: "
            f"{' '.join(map(str, missing))}{_DEBUG}"
        )

    def prepare(self) -> None:
        """Expect a backward, after a forward."""
        self._expecting, self._queued, self._next = True, False, 0
        self._ready.clear()
        for b in self.buckets:
            b.waiting, b.result = len(b.members), None

    def begin(self) -> None:
        """Average at the end of the running backward, whichever parameters get gradients in it."""
        if self._expecting and not self._queued:
            self._queued = True
            Variable._execution_engine.queue_callback(self._finish)

    def _arrived(self, i: int) -> None:
        if not self._expecting and self._averages_now():
            self.prepare()
        if not self._expecting:
            return
        if i in self._ready:
            if self.static:
                return
            raise RuntimeError(_TWICE.format(i))
        if self._first_used is not None and i not in self._first_used:
            raise RuntimeError(_NEWLY_USED)
        self._ready.add(i)
        self._of[i].waiting -= 1
        if self.waits_for_end:
            self.begin()
            return
        while self._next < len(self.buckets) and not self.buckets[self._next].waiting:
            self._send(self.buckets[self._next])
            self._next += 1
        if self._next == len(self.buckets):
            self.begin()

    def _averages_now(self) -> bool:
        """Return whether a backward has begun that belongs to a forward in a compiled program."""
        return self.averages_after is not None and not is_compiling() and self.averages_after()

    # --- sending and receiving --------------------------------------------------------------------

    def shadow(self) -> None:
        """Take part in the exchanges of a backward of other processes, with zeros."""
        self._ready.clear()
        if self.waits_for_end and (self._everywhere is None or not self.static):
            self._everywhere = self._used_anywhere()
        for bucket in self.buckets:
            zero = np.zeros(bucket.ends[-1], self.parameters[bucket.members[0]]._m.dtype.np)
            self._send_arrays(bucket, [zero])
        for bucket in reversed(self.buckets):
            assert bucket.result is not None
            bucket.result()

    def _send(self, bucket: Bucket) -> None:
        self._send_arrays(bucket, [self._gradient(i) for i in bucket.members])

    def _send_arrays(self, bucket: Bucket, arrays: list[Any]) -> None:
        like = self.parameters[bucket.members[0]]
        if self.hook is None:
            in_thread = bucket is not self.buckets[-1]  # backward has hardly anything left to do
            bucket.result = self._summed(_shares(arrays, self.divisor), in_thread)
            return
        state, hook = self.hook
        given = GradBucket(
            self.buckets.index(bucket),
            len(self.buckets),
            tensor_from(joined(arrays), like),
            [self.parameters[i] for i in bucket.members],
        )
        future = hook(state, given)
        bucket.result = lambda: _array_of(future.wait())

    def _gradient(self, i: int) -> Any:
        p = self.parameters[i]
        if p.grad is not None:
            return array_of(p.grad)
        return np.zeros(p.numel(), p._m.dtype.np)

    def _summed(self, array: Any, in_thread: bool) -> Callable[[], Any]:
        run = begin(
            self.group,
            f"gradients of {array.size} elements of {array.dtype.name}",
            [array],
            [jax.ShapeDtypeStruct(array.shape, array.dtype)],
            lambda turn, x: [_exchange.all_reduce(turn, x, "SUM")],
            in_xla=partial(_in_xla.all_reduce, op="SUM"),
        )
        if is_compiling() or not in_thread:
            return lambda: run()[0]
        found: list[Any] = []
        work = Work(found, lambda: found.extend(run()))

        def result() -> Any:
            work.wait()
            return found[0]

        return result

    def _finish(self) -> None:
        """The end of backward: send what has not been sent, and write the averages into the gradients."""
        if self._first_used is not None and self._first_used - self._ready:
            return  # the next forward says which ones
        if self.waits_for_end and (self._everywhere is None or not self.static):
            self._everywhere = self._used_anywhere()
        if self.static:
            self._first_used = set(self._ready)
        for bucket in self.buckets[self._next :]:
            self._send(bucket)
        for bucket in reversed(self.buckets):  # what no thread does comes first
            self._write(bucket)
        self._expecting = False
        self._ready.clear()
        if is_compiling():
            self.averages_after = None

    def _used_anywhere(self) -> set[int]:
        used = np.zeros(len(self.parameters), np.uint8)
        used[list(self._ready)] = 1
        turn = self.group.turn("which parameters got gradients")
        return set(np.flatnonzero(_exchange.all_reduce(turn, used, "MAX")).tolist())

    def _write(self, bucket: Bucket) -> None:
        assert bucket.result is not None
        whole = bucket.result().reshape(-1)
        parts = [whole[a:b] for a, b in zip([0, *bucket.ends], bucket.ends)]
        kept = [self._everywhere is None or i in self._everywhere for i in bucket.members]
        if self.views and not is_compiling():  # a program gives gradients that share no memory
            self._write_views(bucket, parts, kept)
            return
        for i, part, used in zip(bucket.members, parts, kept):
            p = self.parameters[i]
            if used and p.grad is not None:
                fill(p.grad, part)
            elif used:
                p.grad = tensor_from(part.reshape(p.shape), p)

    def _write_views(self, bucket: Bucket, parts: list[Any], kept: list[bool]) -> None:
        ps = [self.parameters[i] for i in bucket.members]
        for k, (p, used) in enumerate(zip(ps, kept)):
            if not used and p.grad is not None:
                parts[k] = array_of(p.grad).reshape(-1)
        whole = joined(parts)
        if bucket.shared is None:
            bucket.shared = tensor_from(whole, ps[0])
            with no_grad():
                starts = [0, *bucket.ends[:-1]]
                bucket.views = [bucket.shared[a:b].view(p.shape) for p, a, b in zip(ps, starts, bucket.ends)]
        else:
            fill(bucket.shared, whole)
        for p, view, used in zip(ps, bucket.views, kept):
            if used and p.grad is not view:
                p.grad = view


def _shares(arrays: list[Any], size: int) -> Any:
    """Gradients one after another, divided: each process divides before the sum, as torch does."""
    dtype = arrays[0].dtype
    if dtype.itemsize == 2:  # numbers of 16 bits are multiplied as float32
        return (joined(arrays).astype(np.float32) * np.float32(1 / size)).astype(dtype)
    share = dtype.type(1 / size)
    if is_compiling():
        return joined(arrays) * share
    out, end = np.empty(sum(x.size for x in arrays), dtype), 0
    for x in arrays:
        start, end = end, end + x.size
        np.multiply(x.reshape(-1), share, out=out[start:end])
    return out


def _array_of(reduced: Any) -> Any:
    """Return what the future of a hook gave: a tensor, or a list of one."""
    return array_of(reduced[0] if isinstance(reduced, list | tuple) else reduced)
