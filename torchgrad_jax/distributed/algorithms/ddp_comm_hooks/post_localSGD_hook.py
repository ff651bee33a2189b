"""A hook that averages gradients over all processes at first, and over a few of them later.

`model_averaging` then brings the parameters of all processes together from time to time.
"""

from __future__ import annotations

from typing import Any

from ...._engine.memory.tensor import Tensor
from ....compiler import is_compiling
from ....futures import Future
from ..._beginning import new_subgroups
from ..._bucket_hooks import averaged
from ..._buckets import GradBucket
from .debugging_hooks import noop_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """What the hook knows.

    Args:
        process_group: the processes at first; all if it is None.
        subgroup: the processes later; those of `new_subgroups()` if it is None.
        start_localSGD_iter: how many steps are averaged over all of them.
        post_local_gradient_allreduce: whether gradients are averaged later at all.
    """

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int, post_local_gradient_allreduce: bool = True
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step after its last bucket."""
        self.iter += bucket.is_last()


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average over all processes, and after some steps over a subgroup.

    Raises:
        NotImplementedError: in a compiled function, which could not count the steps.
    """
    if is_compiling():
        raise NotImplementedError("post_localSGD_hook inside of a compiled function")
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return averaged(state.process_group, bucket.buffer())
    if not state.post_local_gradient_allreduce:
        return noop_hook(state, bucket)
    if state.subgroup is None:
        state.subgroup = new_subgroups()[0]
    return averaged(state.subgroup, bucket.buffer())
