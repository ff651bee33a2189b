"""Draws from the gamma and Dirichlet distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.meta import meta
from .._core.arrays.transfer import put
from .._core.jax.custom_jvp import custom_jvp
from .._core.random import rng
from .._engine.entry.bind import composite
from .._engine.graph.record import apply
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor, make
from .._engine.run.trace import Call
from .._ops.gamma_grads import moved
from .._ops.registry import Grad
from . import batched_sampling as batched
from .arguments import wrong
from .random import chosen, draw_inside, inside_trace, refuse


@custom_jvp
def _gamma(a: Any, drawn: Any) -> Any:
    return drawn


@_gamma.defjvp
def _gamma_tangent(primals: Any, tangents: Any) -> Any:
    out = _gamma(*primals)
    return out, tangents[0] * moved(primals[0], out)


def _standard(leaves: Sequence[Any]) -> Any:
    return _gamma(*leaves)


_GAMMA = Call(
    "_standard_gamma", _standard, node_name="StandardGammaBackward0", argnames=("self",), edges=lambda keys: (0,)
)
_DIRICHLET = Call(
    "_sample_dirichlet",
    lambda leaves: leaves[-1],
    node_name="NotImplemented",
    argnames=("self",),
    edges=lambda keys: (0,),
    grad=Grad.MISSING,
)


def _checked(fn: str, kernel: str, input: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise wrong(fn, "input", "Tensor", input, 1)
    refuse(kernel, input._m.dtype, (dtypes.float32, dtypes.float64))
    return input


def _drawn(call: Call, t: Tensor, numbers: np.ndarray) -> Tensor:
    m = t._m
    return apply(call, (t, make(put(numbers, m.device), meta(m.shape, m.dtype, m.device))))


@composite(method=False)
def _standard_gamma(input: Any, generator: Any = None) -> Tensor:
    """Gamma numbers of these concentrations, whose gradients follow the draws."""
    t = _checked("_standard_gamma", "gamma_cpu", input)
    gen = chosen("_standard_gamma", generator, t._m.device)
    if inside_trace():
        return draw_inside(
            (t,),
            lambda t: _standard_gamma(t, gen),
            lambda: batched.standard_gamma(t, gen),
            lambda numbers: apply(_GAMMA, (t, numbers)),
        )
    return _drawn(_GAMMA, t, rng.standard_gamma(concrete(t), generator=gen))


@composite(method=False)
def _sample_dirichlet(input: Any, generator: Any = None) -> Tensor:
    """Dirichlet numbers of these concentrations along the last dimension; without gradients."""
    t = _checked("_sample_dirichlet", "dirichlet", input)
    gen = chosen("_sample_dirichlet", generator, t._m.device)
    if inside_trace():
        return draw_inside(
            (t,),
            lambda t: _sample_dirichlet(t, gen),
            lambda: batched.dirichlet(t, gen),
            lambda numbers: apply(_DIRICHLET, (t, numbers)),
        )
    return _drawn(_DIRICHLET, t, rng.dirichlet(concrete(t), generator=gen))
