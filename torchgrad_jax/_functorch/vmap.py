"""`vmap` under an older name."""

from ..func import vmap as vmap

__all__ = ["vmap"]
