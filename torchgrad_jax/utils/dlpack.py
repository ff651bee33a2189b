"""torch.utils.dlpack: tensors to and from other libraries."""

from .._engine.entry.bind import NAMESPACES as _NAMESPACES

from_dlpack = _NAMESPACES[""]["from_dlpack"]
to_dlpack = _NAMESPACES[""].get("to_dlpack", None) or (lambda tensor: tensor.__dlpack__())
