"""torch.func: transforms of functions over tensors."""

from __future__ import annotations

from .._bridge.vmap import vmap as vmap
from ._jacobians import hessian as hessian, jacfwd as jacfwd, jacrev as jacrev
from ._linearize import linearize as linearize
from ._modules import (
    functional_call as functional_call,
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
    stack_module_state as stack_module_state,
)
from ._programs import debug_unwrap as debug_unwrap, functionalize as functionalize, rearrange as rearrange
from ._transforms import grad as grad, grad_and_value as grad_and_value, jvp as jvp, vjp as vjp

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
