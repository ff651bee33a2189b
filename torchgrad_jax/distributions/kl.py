"""The Kullback-Leibler divergence of pairs of distributions."""

from __future__ import annotations

from . import _kl_rules as _kl_rules  # which registers its rules
from ._kl_registry import (
    _KL_MEMOIZE as _KL_MEMOIZE,
    _KL_REGISTRY as _KL_REGISTRY,
    kl_divergence as kl_divergence,
    register_kl as register_kl,
)

__all__ = ["kl_divergence", "register_kl"]

for _fn in (kl_divergence, register_kl):
    _fn.__module__ = __name__
