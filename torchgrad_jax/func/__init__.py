"""torch.func: transforms of functions over tensors."""

from __future__ import annotations

from .._bridge.vmap import vmap as vmap
from ._jacobians import hessian as hessian, jacfwd as jacfwd, jacrev as jacrev
from ._transforms import (
    grad as grad,
    grad_and_value as grad_and_value,
    jvp as jvp,
    linearize as linearize,
    vjp as vjp,
)

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
    "vmap",
]
