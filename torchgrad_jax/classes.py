"""torch.classes: classes that libraries in C++ register, of which there are none.

torch.classes.pyg.CPUHashMap  # raises, as in torch without the library of PyG
"""

from __future__ import annotations

import os
from typing import NoReturn

from .ops import load_library as _load_library


class _Namespace:
    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(
            f"Tried to instantiate class '{self.name}.{name}', but it does not exist! Ensure that it is registered via "
            "torch::class_ (torchgrad_jax runs nothing that is written for torch in C++)"
        )


def load_library(path: str | os.PathLike[str]) -> None:
    """Refused, as `torch.ops.load_library` is.

    Raises:
        OSError: always.
    """
    _load_library(path)


loaded_libraries: set[str] = set()
"""Libraries that are loaded: none."""


def __getattr__(name: str) -> _Namespace:
    if name.startswith("__"):  # what tools ask of every module
        raise AttributeError(name)
    return _Namespace(name)
