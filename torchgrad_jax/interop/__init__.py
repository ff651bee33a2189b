"""To and from JAX: its functions as operators, tensor code as functions and files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._bridge.jax_side.control import (
    associative_scan as associative_scan,
    checkpoint as checkpoint,
    cond as cond,
    fori_loop as fori_loop,
    map_ as map,
    scan as scan,
    switch as switch,
    while_loop as while_loop,
)
from .._bridge.jax_side.export import Exported as Exported, export as export, load_exported as load_exported
from .._bridge.jax_side.interop import as_jax, from_jax as from_jax
from .._bridge.jax_side.modules import combine as combine, partition as partition
from .._core.arrays.transfer import for_jax
from .._core.jax.target import Target as target
from .._core.random.keys import drawing_from as rngs
from .._engine.memory.strided import read
from . import weights as weights
from ._eager import eager as eager, windows as windows
from ._layers import Comparison as Comparison, compare as compare
from ._modules import JaxModule as JaxModule, module as module
from ._optimizers import Optax as Optax, as_optax as as_optax
from ._version import torch_version as torch_version


def to_jax(f: Callable[..., Any], *, buffers: bool = False) -> Callable[..., Any]:
    """Make tensor code a pure JAX function, for jax.jit, jax.grad, jax.vmap, optax and the like.

    Args:
        f: a function over tensors, or a module.
        buffers: of a module, return its buffers as they are after the call as well.

    Returns:
        A function of arrays, in any pytrees, and of `rngs=`, a key of `jax.random` that random operations take their
        numbers from, each the next part of it. Of a module, a function of a dict of parameters and buffers by
        name and of what its `forward` takes; those it has now are the function's `params` and `buffers`. What
        the dict leaves out is a constant, and the module itself is never written to. Tensors from outside are
        constants. Gradients stop at `detach()` and under `no_grad`, and are those of hooks and custom
        Functions where there are such.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import torchgrad_jax as torch
        >>> f = torch.to_jax(lambda x: (x * x.detach()).sum())
        >>> jax.grad(f)(jnp.float32(3.0)).item()
        3.0
    """
    if not hasattr(f, "named_parameters"):
        return as_jax(f)
    from ..func import functional_call

    module: Any = f

    def held() -> dict[str, Any]:
        return {name: for_jax(read(t)) for name, t in module.named_buffers()}

    def forward(tensors: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        names = [name for name, _ in module.named_buffers()]
        given = {**tensors, **{k: tensors[k].detach() for k in names}}
        out = functional_call(module, given, args, kwargs)
        return (out, {k: given[k] for k in names}) if buffers else out

    pure = as_jax(forward)

    @functools.wraps(type(module).forward)
    def call(params: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if not hasattr(params, "keys"):
            raise TypeError(
                "the function that to_jax makes of a module takes a dict of parameters first, such as its `params`, "
                f"not {type(params).__name__}: f(f.params, x)"
            )
        return pure({**held(), **params}, *args, **kwargs)

    call.params = {name: for_jax(read(t)) for name, t in module.named_parameters()}  # type: ignore[attr-defined]
    call.buffers = held()  # type: ignore[attr-defined]
    return call


__all__ = [
    "Comparison",
    "Exported",
    "JaxModule",
    "Optax",
    "as_optax",
    "associative_scan",
    "checkpoint",
    "combine",
    "compare",
    "cond",
    "eager",
    "export",
    "fori_loop",
    "from_jax",
    "load_exported",
    "map",
    "module",
    "partition",
    "rngs",
    "scan",
    "switch",
    "target",
    "to_jax",
    "torch_version",
    "weights",
    "while_loop",
    "windows",
]
