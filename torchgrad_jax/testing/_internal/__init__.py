"""What test suites written for torch import from torch.testing._internal: the names most used, no more."""

from ..._core.errors.messages import missing as _missing

__getattr__ = _missing(__name__)
