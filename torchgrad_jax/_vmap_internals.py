"""torch._vmap_internals: `torch.vmap` under the name that packages import from before torch.func (pytorch-minimize)."""

from typing import Any

from ._core.errors.messages import no_such_name as _no_such_name
from .func import vmap as _vmap

__all__ = ["_vmap"]


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch._vmap_internals.{name}"))
