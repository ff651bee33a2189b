"""`vmap` and `grad` under an older name."""

from ..func import grad as grad, grad_and_value as grad_and_value, vmap as vmap

__all__ = ["grad", "grad_and_value", "vmap"]
