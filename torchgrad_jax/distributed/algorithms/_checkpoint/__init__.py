"""Modules that compute their activations again in backward."""

from ...._core.errors.messages import missing as _missing

__getattr__ = _missing(__name__)
