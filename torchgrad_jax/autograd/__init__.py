"""torch.autograd's functions: backward and grad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from .._core import errors
from .._core.meta import meta
from .._engine.backward import run
from .._engine.record import edge_of
from .._engine.tensor import Tensor, make
from .._engine.views import requires_grad_of


def _roots(outputs: Sequence[Tensor], given: Sequence[Any]) -> tuple[list[Any], list[Tensor]]:
    roots, grads = [], []
    for i, (t, g) in enumerate(zip(outputs, given)):
        if not requires_grad_of(t):
            raise RuntimeError(errors.NO_GRAPH.format(index=i))
        if g is None:
            if t._m.numel != 1:
                raise RuntimeError(errors.SCALAR_ONLY)
            g = _ones(t._m)
        elif g._m.shape != t._m.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {g._m.size} and output[{i}] has a shape of "
                f"{t._m.size}."
            )
        roots.append(edge_of(t))
        grads.append(g)
    return roots, grads


_ONES: dict[Any, Any] = {}


def _ones(m: Any) -> Tensor:
    array = _ONES.get(m)
    if array is None:
        array = _ONES[m] = jnp.ones(m.shape, m.dtype.np)
    return make(array, m if m.contiguous else meta(m.shape, m.dtype, m.device))


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             grad_variables: Any = None, inputs: Any = None) -> None:  # fmt: skip
    """Accumulate gradients of `tensors` in the leaves of the graph."""
    outputs = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    given = [grad_tensors] if isinstance(grad_tensors, Tensor) else list(grad_tensors or [None] * len(outputs))
    roots, grads = _roots(outputs, given)
    keep = create_graph if retain_graph is None else retain_graph
    targets = None
    if inputs is not None:
        chosen = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        targets = [edge_of(t) for t in chosen]
        for t in chosen:
            if t.grad_fn is not None:
                t.retain_grad()
    run(roots, grads, keep=keep, create=create_graph, targets=targets)


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
         only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False,
         materialize_grads: bool = False) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of `outputs` with respect to `inputs`."""
    outs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    ins = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or [None] * len(outs))
    roots, grads = _roots(outs, given)
    keep = create_graph if retain_graph is None else retain_graph
    for t in ins:
        if not requires_grad_of(t):
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    targets = [edge_of(t) for t in ins]
    found = run(roots, grads, keep=keep, create=create_graph, targets=targets, accumulate=False)
    if not allow_unused and not materialize_grads:
        for i, g in enumerate(found):
            if g is None:
                raise RuntimeError(errors.UNUSED.format(index=i))
    if materialize_grads:
        found = [make(jnp.zeros(t._m.shape, t._m.dtype.np), t._m) if g is None else g for g, t in zip(found, ins)]
    return tuple(found)
