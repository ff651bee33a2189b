"""torch.distributed.elastic: what scripts of launched processes name; `torch.distributed.run` launches them."""

from ..._core.errors.messages import missing as _missing

__getattr__ = _missing(__name__)
