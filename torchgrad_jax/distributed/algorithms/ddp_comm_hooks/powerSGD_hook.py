"""PowerSGD (Vogels and others, 2019): processes send two thin matrices instead of a gradient.

A gradient M of 512 x 512 becomes P = M Q and Q = M' P, with P and Q of 512 x 1, which the processes average; the
gradient is then P Q'. What that loses is added to the gradient of the next step.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import cat, linalg, manual_seed, randn, stack as pile
from ...._core.arrays.dtypes import bfloat16, dtype as DType, float16
from ...._engine.memory.tensor import Tensor
from ....autograd.grad_mode import no_grad
from ....compiler import is_compiling
from ....futures import Future
from ....random import fork_rng
from ..._bucket_hooks import averaged
from ..._buckets import GradBucket
from ..._collectives import all_reduce
from ..._groups import ProcessGroup, member_of

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]
_log = logging.getLogger(__name__)


class PowerSGDState:
    """What the hook knows and keeps between steps.

    Args:
        process_group: which processes; all if it is None.
        matrix_approximation_rank: the number of columns of P and Q.
        start_powerSGD_iter: how many steps are averaged as they are before.
        min_compression_rate: a gradient that shrinks less than this is averaged as it is.
        use_error_feedback: whether what was lost is added in the next step.
        warm_start: whether a step begins with the Q of the one before.
        orthogonalization_epsilon: added to lengths, against division by zero.
        random_seed: of the first Q.
        compression_stats_logging_frequency: after how many steps the rate is logged.
        batch_tensors_with_same_shape: whether gradients of one shape are multiplied together.

    Raises:
        ValueError: `start_powerSGD_iter` is 0 or 1, and something is kept between steps.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = (start_powerSGD_iter, min_compression_rate)
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, Tensor] = {}
        self.p_memory_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, Tensor] = {}
        self.iter = self.next_stats_report = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def __getstate__(self) -> dict[str, Any]:
        """All but the group, which is the default one when the state is read again."""
        return {k: v for k, v in self.__dict__.items() if k != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, process_group=member_of(None))

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step after its last bucket."""
        self.iter += bucket.is_last()

    def compression_stats(self) -> tuple[float, int, int]:
        """How much smaller gradients became, the number of elements before, and after."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after > 0 else 0), before, after


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients of each parameter by two thin matrices.

    Args:
        state: what is kept between steps.
        bucket: the gradients.

    Raises:
        NotImplementedError: in a compiled function, which could not keep the state.
    """
    if is_compiling():
        raise NotImplementedError("powerSGD_hook inside of a compiled function")
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return averaged(state.process_group, bucket.buffer())
    done: Future[Tensor] = Future()
    with no_grad():
        done.set_result(_step(state, bucket))
    return done


def _step(state: PowerSGDState, bucket: GradBucket) -> Tensor:
    """One bucket of one step; the processes do it together, bucket after bucket."""
    buffer, index = bucket.buffer(), bucket.index()
    if index in state.error_dict:
        buffer.add_(state.error_dict[index])
    given = buffer.clone()
    _reduce(state, bucket, member_of(state.process_group))
    if state.use_error_feedback:
        state.error_dict[index] = given - buffer
    if not state.warm_start:
        state.p_memory_dict.clear()
        state.q_memory_dict.clear()
    _report(state, bucket)
    state.maybe_increase_iter(bucket)
    return buffer


def _report(state: PowerSGDState, bucket: GradBucket) -> None:
    if bucket.is_last() and state.iter >= state.next_stats_report:
        state.next_stats_report = state.iter + state.compression_stats_logging_frequency
        _log.info("Compression stats: iter %s, rate %s, %s elements became %s", state.iter, *state.compression_stats())


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Not supported: one matrix of all gradients of a bucket. Accelerate names it beside the hook that it registers.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("batched_powerSGD_hook; use powerSGD_hook")


# --- what is sent ---------------------------------------------------------------------------------


def _reduce(state: PowerSGDState, bucket: GradBucket, pg: ProcessGroup) -> None:
    thin, whole = _sorted_by_worth(state, bucket.gradients())
    _average_whole(whole, pg)
    stacks = _stacks(thin, state.batch_tensors_with_same_shape)
    joined = [pile(same) for same in stacks]
    for same, result in zip(stacks, _approximated(state, bucket.index(), joined, pg)):
        for matrix, values in zip(same, result):
            matrix.copy_(values)


def _sorted_by_worth(state: PowerSGDState, gradients: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients as matrices that become small enough, and those that are sent as they are."""
    thin, whole = [], []
    for g in gradients:
        n = g.size(0) if g.dim() else 1
        m = g.numel() // n
        matrix = g.view(n, m)
        small = (n + m) * min(n, m, state.matrix_approximation_rank)
        worth = small * state.min_compression_rate < n * m
        (thin if worth else whole).append(matrix)
        state.total_numel_before_compression += n * m
        state.total_numel_after_compression += small if worth else n * m
    return thin, whole


def _average_whole(whole: Sequence[Tensor], pg: ProcessGroup) -> None:
    if not whole:
        return
    flat = cat([x.reshape(-1) for x in whole])
    all_reduce(flat, group=pg)
    for x, mean in zip(whole, flat.div_(pg.size()).split([x.numel() for x in whole])):
        x.copy_(mean.view(x.shape))


def _stacks(matrices: Sequence[Tensor], together: bool) -> list[list[Tensor]]:
    """Matrices of one shape after those of another, together or one by one."""
    by_shape: dict[Any, list[Tensor]] = {}
    for x in matrices:
        by_shape.setdefault(x.shape, []).append(x)
    return [s for same in by_shape.values() for s in ([same] if together else [[x] for x in same])]


# --- low ranks ------------------------------------------------------------------------------------


def _approximated(state: PowerSGDState, index: int, stacks: Sequence[Tensor], pg: ProcessGroup) -> list[Tensor]:
    """The averages of stacks of matrices, as products of two thin ones."""
    if not stacks:
        return []
    epsilon = state.orthogonalization_epsilon
    shapes = [(b, m, min(n, m, state.matrix_approximation_rank)) for b, n, m in (x.shape for x in stacks)]
    qs = [_orthogonal(q, epsilon) for q in _first_factors(state, index, shapes, stacks[0].dtype)]
    ps, state.p_memory_dict[index] = _summed([x @ q for x, q in zip(stacks, qs)], pg, 1)
    ps = [_orthogonal(p, epsilon) for p in ps]
    products = [x.transpose(1, 2) @ p for x, p in zip(stacks, ps)]
    qs, state.q_memory_dict[index] = _summed(products, pg, pg.size())
    return [p @ q.transpose(1, 2) for p, q in zip(ps, qs)]


def _first_factors(
    state: PowerSGDState, index: int, shapes: Sequence[tuple[int, int, int]], dtype: DType
) -> list[Tensor]:
    """The Q of the step before, or at first random ones, the same in all processes."""
    if state.warm_start and index in state.q_memory_dict:
        return _parts(state.q_memory_dict[index], shapes)
    with fork_rng(devices=[]):
        manual_seed(int(state.rng.randint(1_000_000_000)))
        return [randn(*shape, dtype=dtype) for shape in shapes]


def _parts(flat: Tensor, shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    parts = flat.split([math.prod(s) for s in shapes])
    return [x.view(tuple(s)) for x, s in zip(parts, shapes)]


def _summed(factors: Sequence[Tensor], pg: ProcessGroup, divisor: int) -> tuple[list[Tensor], Tensor]:
    """The sums over the processes, divided, in their shapes and one after another."""
    flat = cat([x.reshape(-1) for x in factors])
    all_reduce(flat, group=pg)
    flat = flat.div_(divisor)
    return _parts(flat, [x.shape for x in factors]), flat


def _orthogonal(matrices: Tensor, epsilon: float) -> Tensor:
    """Matrices whose columns span the same, have length 1, and stand at right angles to each other."""
    rank = matrices.size(2)
    if rank > 2 and matrices.dtype not in (float16, bfloat16):
        return linalg.qr(matrices)[0]
    columns: list[Tensor] = []
    for i in range(rank):
        x = matrices[:, :, i : i + 1]
        for c in columns:
            x = x - (c * x).sum(1, keepdim=True) * c
        columns.append(x / (linalg.vector_norm(x, dim=1, keepdim=True) + epsilon))
    return cat(columns, 2)
