"""torch.storage: what lies behind tensors, with and without a dtype."""

from ._engine.tensor.storages import UntypedStorage as UntypedStorage
from ._functions.typed_storage import TypedStorage as TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
