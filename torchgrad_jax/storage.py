"""torch.storage: what lies behind tensors, with and without a dtype."""

from __future__ import annotations

from typing import Any

from ._core.errors.messages import no_such_name as _no_such_name
from ._engine.tensor.storages import UntypedStorage as UntypedStorage
from ._functions.typed_storage import (
    CPU_TYPES as _CPU_TYPES,
    TypedStorage as TypedStorage,
    _get_always_warn_typed_storage_removal as _get_always_warn_typed_storage_removal,
    _reset_warn_typed_storage_removal as _reset_warn_typed_storage_removal,
    _set_always_warn_typed_storage_removal as _set_always_warn_typed_storage_removal,
    _warn_typed_storage_removal as _warn_typed_storage_removal,
)

__all__ = ["TypedStorage", "UntypedStorage"]


def __getattr__(name: str) -> Any:
    if name in _CPU_TYPES:
        return _CPU_TYPES[name]
    raise AttributeError(_no_such_name(f"torch.storage.{name}"))
