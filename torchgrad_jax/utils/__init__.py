"""torch.utils: helpers around tensors and autograd."""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
from . import checkpoint as checkpoint, hooks as hooks
from ._swap import swap_tensors as swap_tensors

__getattr__ = _missing(__name__)
