"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from .. import as_tensor, full
from .cauchy import Cauchy
from .half_normal import Folded

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """The absolute value of a Cauchy number around 0."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> Any:
        like = {"dtype": self.scale.dtype, "device": self.scale.device}
        return full(self._extended_shape(), math.inf, **like)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return super().log_prob(as_tensor(value, dtype=self.scale.dtype, device=self.scale.device))
