"""To which run a tensor belongs: this one, one of those around it, or none, as an array of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from ..._core.arrays import dtypes, shapes
from ..._core.arrays.meta import meta
from ..._core.errors import messages as errors
from ..._core.state import DUAL, MODES, Modes
from ..graph.history import requires_grad_of
from ..memory.tensor import Tensor, extras, make, wrap_array, wrap_beside
from .runs import TracedRun


def running_vmap() -> TracedRun | None:
    """The innermost run, if it is one of `vmap`."""
    return None if MODES.run.batch is None else MODES.run


def is_batched(t: Tensor) -> bool:
    """Return whether a tensor stands for one example of the batch of a running `vmap`."""
    return any(run.batch is not None and run.inside(t) for run in MODES.runs)


def as_batch(t: Tensor, like: Sequence[Any]) -> Tensor:
    """`t` as one example of a batch, all of them the same, if any of the tensors `like` is an example.

    So are gradients in torch, whose seeds are made like what is differentiated: not one memory for all examples.
    """
    run = MODES.run
    if run.batch is None or run.inside(t) or not any(run.inside(v) for v in like):
        return t
    if requires_grad_of(t) or (MODES.bits & DUAL and MODES.tangents.tangent_of(t) is not None):
        return t
    m = t._m
    if not shapes.is_dense(m.shape, m.strides):
        m = meta(m.shape, m.dtype, m.device)
    return make(run.capture(t, t._m), m)


def beside(t: Tensor, others: Sequence[Any]) -> Tensor:
    """`t` as a value of the run that a call on it and on `others` belongs to, so that it may get a place in its graph.

    A tensor from outside with a place in the graph of a run would carry the nodes of that run out of it.
    """
    for run in reversed(MODES.runs):
        if run.inside(t):
            return t
        if any(isinstance(v, Tensor) and run.inside(v) for v in others):
            return run.made_inside(t)
    return t


def is_hidden(t: Tensor) -> bool:
    """Return whether a gradient is wanted of `t` outside of the running `vmap` alone."""
    run, batch = MODES.run, MODES.run.batch
    return batch is not None and not batch.own_leaves and run.is_innermost() and run.inside(t)


def tensor_of_jax(array: Any, beside: Tensor | None = None) -> Tensor:
    """A tensor around an array of the user's, or around what JAX has in its place while it traces the user's code.

    An array that nobody bound to a device goes where `beside` is, the tensor that it meets.
    """
    t = wrap_array(array) if beside is None else wrap_beside(array, beside._m.device)
    if isinstance(array, jax.core.Tracer):
        if MODES.sealed and not MODES.run.jax_derives:
            raise RuntimeError(errors.FROZEN_IN_RULE)
        Modes.traced = True
        follow_jax(t)
    return t


def follow_jax(t: Tensor) -> None:
    """Let the derivative that JAX takes of a traced run go on through a tensor around a tracer of JAX's."""
    array = t._st.array
    if t._m.dtype.category >= dtypes.FLOATING and any(_is_followed(array, run) for run in MODES.runs):
        t._rg = extras(t).followed = True


def _is_followed(array: Any, run: TracedRun) -> bool:
    """Return whether the derivative goes on through what a transform of JAX's returned to a run."""
    if not run.owns(array):
        return False
    batch = run.batch
    wanted = batch is not None and any(requires_grad_of(t) for t in (*batch.inputs, *run.captured))
    return run.started_by_jax or wanted
