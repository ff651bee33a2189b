"""How the modules here answer for a name that they do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core.errors.messages import no_such_name


def missing_in(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module: AttributeError with the name that torch has it under."""

    def __getattr__(name: str) -> Any:
        raise AttributeError(no_such_name(f"torch.testing._internal.{module}.{name}"))

    return __getattr__
