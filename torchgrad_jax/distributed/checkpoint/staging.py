"""Copies of what `async_save` writes, made before it returns, so that training may go on."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..._engine.memory.tensor import Tensor
from . import _chunks

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """Makes the copies."""

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `synchronize_staging` is called before `async_save` returns."""
        ...

    def stage(self, state_dict: dict[str, Any]) -> Any:
        """The copy of a dictionary, or a future of it."""
        ...

    def synchronize_staging(self) -> None:
        """Wait until the copies are made."""
        ...

    def close(self) -> None:
        """The end."""
        ...


def staged(value: Any) -> Any:
    """A copy in this process's memory: of tensors in dictionaries and lists, and of all other values."""
    if isinstance(value, Tensor):
        plain = value.detach()
        if _chunks.is_split(plain):
            return plain.clone()  # each part stays on its device
        return plain.clone() if plain.device.type == "cpu" else plain.cpu()
    if isinstance(value, dict):
        return {k: staged(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(staged, value))
    return copy.deepcopy(value)


class BlockingAsyncStager:
    """Copies at once.

    Args:
        cache_staged_state_dict: accepted; copies are made again each time.
        type_check: as in torch.
    """

    should_synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """The copy."""
        return staged(state_dict)

    def synchronize_staging(self) -> None:
        """Nothing: the copies are made."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class StagingOptions:
    """How copies are made in torch; here they are always made at once."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(BlockingAsyncStager):
    """Copies at once.

    Args:
        config: accepted.
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        super().__init__()
        self.config = config or StagingOptions()
