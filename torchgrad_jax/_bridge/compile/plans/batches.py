"""The largest batch with which a step fits into the memory of its target.

    with interop.target("v5e:2x2"):
        step.largest_batch(torch.randn(64, 256, device="tpu"))  # 8192, say

Memory grows by the same for each further sample, but for what the compiler rounds. So the step is compiled with the
batch that is there and with twice as many samples, and a line through both says where the memory is full. The step
with that batch is compiled, too; a line through it is better, and fewer samples are taken where it doesn't fit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax

from ...._core.arrays import tree
from ...._core.errors.messages import Unsupported
from ...._core.jax.target import Target
from ...._core.state import MODES
from ...._engine.memory.tensor import Tensor
from ...._functions.create import empty
from ..inspection import Lowered
from .plan import Plan, plan_of

_TRIES = 6
_LESS = 0.97
"""Where a batch doesn't fit after all, this part of it is tried; of a batch that fits so much is near enough."""


def batch_of(args: Any) -> int:
    """Return how many samples there are: the first size that most of the tensors have in common."""
    sizes = Counter(len(x) for x in tree.flatten(args)[0] if isinstance(x, Tensor) and x.ndim)
    if not sizes:
        raise Unsupported("no argument of the step is a tensor with a batch, so there is no larger batch to plan for")
    return sizes.most_common(1)[0][0]


def with_batch(args: Any, now: int, samples: int) -> Any:
    """Return the arguments with so many samples in the place of those that are there."""

    def changed(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.ndim or x.shape[0] != now:
            return x
        shape: tuple[int, ...] = tuple(x.shape)
        made = empty((samples, *shape[1:]), dtype=x.dtype, device=x.device)
        return made.requires_grad_(x.requires_grad)

    return tree.map_leaves(changed, args)


def plans_of(target: Target, lower: Callable[..., Lowered]) -> Callable[[Any], Plan]:
    """Return what plans a step on a target for arguments, `(args, kwargs)`; `lower` is the step's."""
    return lambda given: plan_of(target, lower(*given[0], **given[1]))


def largest_batch(plan_with: Callable[[Any], Plan], args: Any, plan: Plan | None = None) -> int:
    """Return with how many samples a step fits; 0 if with none.

    Args:
        plan_with: plans the step for arguments.
        args: arguments with the batch that is there.
        plan: the plan for these, if it is known.
    """
    now = batch_of(args)
    plan = plan_with(args) if plan is None else plan
    each = (plan_with(with_batch(args, now, 2 * now)).total - plan.total) / now
    if each <= 0:
        raise Unsupported(
            f"the step needs no more memory for {2 * now} samples than for {now}, so no batch is the largest"
        )
    step = plan.devices if now % plan.devices == 0 else 1
    best = now if plan.fits else 0
    samples = now + int((plan.memory_of_chip - plan.total) / each)
    for _ in range(_TRIES):
        samples = samples // step * step
        if samples <= best:
            break
        total = _total(plan_with, with_batch(args, now, samples))
        if total > plan.memory_of_chip:
            samples = int(samples * _LESS)
            continue
        best = samples
        each = (total - plan.total) / (samples - now)  # over more samples the compiler's rounding counts less
        samples = now + int((plan.memory_of_chip - plan.total) / each)
        if samples * _LESS <= best:
            break
    return best


def _total(plan_with: Callable[[Any], Plan], args: Any) -> float:
    """Return all bytes of a plan: infinitely many where the compiler gives up, because they do not fit."""
    try:
        return plan_with(args).total
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return math.inf


def largest_batch_of(step: Any, args: Any, kwargs: Any) -> int:
    """Return with how many samples a compiled function fits into the memory of the target in use; see `Compiled`."""
    first = step.plan(*args, **kwargs)
    return largest_batch(plans_of(MODES.target, step.lower), (args, kwargs), first)


__all__ = ["batch_of", "largest_batch", "largest_batch_of", "plans_of", "with_batch"]
