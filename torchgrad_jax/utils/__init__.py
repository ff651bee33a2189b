"""torch.utils: helpers around tensors and autograd."""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from .._core.errors.messages import no_such_name as _no_such_name
from . import checkpoint as checkpoint, hooks as hooks
from ._swap import swap_tensors as swap_tensors

_LATER = (
    "_contextlib",
    "_python_dispatch",
    "weak",
    "_foreach_utils",
    "_pytree",
    "benchmark",
    "data",
    "deterministic",
    "dlpack",
    "module_tracker",
)


def __getattr__(name: str) -> _Any:
    if name in _LATER:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(_no_such_name(f"torch.utils.{name}"))
