"""What a recorded graph lowers to."""

from __future__ import annotations

from typing import Any

import jax

from .._engine.graph.history import grad_fn_of, requires_grad_of
from .._engine.memory.tensor import Tensor
from .._engine.passes.segments import Compiled, whole_graph
from ._passes import ones_like


def to_jaxpr(tensor: Tensor) -> Any:
    """What the backward pass from a tensor lowers to, as one jaxpr.

    Its inputs are the gradient of the tensor and what the graph saved; its outputs the gradients of the leaves.

    Raises:
        RuntimeError: where Python code takes part in the pass: hooks, custom Functions.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> print(torch.autograd.graph.to_jaxpr(x.sin()).jaxpr.eqns[0].primitive)
        jit
    """
    if not requires_grad_of(tensor) or grad_fn_of(tensor) is None:
        raise RuntimeError("to_jaxpr: the tensor has no graph")
    roots = [(grad_fn_of(tensor), tensor._onr)]
    grads = [ones_like(tensor._m)]
    found = whole_graph(roots, grads, None)
    if found is None:
        raise RuntimeError(
            "to_jaxpr: this graph is not one JAX function: it has hooks, custom Functions, packed or freed values, "
            "or more nodes than are compiled as one"
        )
    segment = found[1]
    compiled = Compiled(segment.key)
    return jax.make_jaxpr(compiled.fn)(segment.given, segment.args, [None] * len(segment.leaves))
