"""JAX's own function of the same meaning, where a case names one: judges values, in double precision.

Which dtype a result has, and how half precision rounds, is torch's affair and torch's to judge.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..case import BASE, D, T, dtype_of, numbers, seed_of
from ..execute import Result, Seen
from ..jobs import Job

RENAMED = {"dim": "axis", "keepdim": "keepdims"}


class JaxReference:
    """Calls the JAX function on the numbers of a call."""

    kind = "jax"
    attributes = False
    name = f"jax {jax.__version__}"

    def result(self, job: Job) -> Result | None:
        """What JAX computes; None where it has no such function or arguments."""
        with jax.enable_x64(True):
            return self._result(job)

    def _result(self, job: Job) -> Result | None:
        if job.check != "value" or job.case.jax is None or job.case.op.startswith("Tensor."):
            return None
        if job.dtype != BASE:
            return None
        if any(k not in RENAMED for k, _ in job.sample.kwargs):
            return None  # other options mean other things, or nothing
        count = 0

        def value(x: Any) -> Any:
            nonlocal count
            if isinstance(x, T):
                count += 1
                return _laid_out(x, numbers(x, job.dtype, seed_of(f"{job.call}#{count}")))
            if isinstance(x, D):
                return dtype_of(x.name)
            return type(x)(map(value, x)) if isinstance(x, list | tuple) else x

        args = [value(a) for a in job.sample.args]
        kwargs = {RENAMED[k]: value(v) for k, v in job.sample.kwargs}
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            try:
                out = resolve(job.case.jax)(*args, **kwargs)
            except (TypeError, ValueError):
                return None
        return Result("one", (Seen("", value=np.asarray(out)),))


def _laid_out(spec: T, array: np.ndarray) -> jax.Array:
    """The tensor that a spec's layout makes of the contiguous one."""
    match spec.layout:
        case "transposed":
            array = np.swapaxes(array, -1, -2)
        case "sliced":
            array = array[..., ::2]
        case "offset":
            array = array[1:]
        case "expanded":
            array = np.broadcast_to(array, spec.shape)
    return jnp.asarray(array)


@functools.cache
def resolve(path: str) -> Any:
    """A function of JAX by its path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
