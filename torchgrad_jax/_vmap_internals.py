"""torch._vmap_internals: `torch.vmap` under the name that packages import from before torch.func (pytorch-minimize)."""

from ._core.errors.messages import missing as _missing
from .func import vmap as _vmap

__all__ = ["_vmap"]

__getattr__ = _missing(__name__)
