"""torch.distributed.algorithms.model_averaging: bring the parameters of all processes together from time to time."""

from ...._core.errors.messages import missing as _missing

__getattr__ = _missing(__name__)
