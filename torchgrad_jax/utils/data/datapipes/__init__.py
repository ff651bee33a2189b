"""The base classes of data pipes, which loaders of other packages ask for. The pipes of torch are out of scope."""

from ...._core.errors.messages import missing as _missing
from . import datapipe as datapipe

__getattr__ = _missing(__name__)
