"""torch.distributed.algorithms: what processes agree on besides single collectives."""

from ..._core.errors.messages import missing as _missing
from .join import Join as Join, Joinable as Joinable, JoinHook as JoinHook

__getattr__ = _missing(__name__)
