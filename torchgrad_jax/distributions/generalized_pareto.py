"""The generalized Pareto distribution."""

from __future__ import annotations

from typing import Any

from .. import inf, isclose, nan, ones_like, rand, tensor, where
from . import constraints
from .distribution import Distribution
from .utils import SCALAR, broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """The tail of other distributions, beyond `loc`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("loc", "scale", "concentration")
        return self._expanded(GeneralizedPareto, batch_shape, _instance, names)

    def _safe(self) -> tuple[Any, Any]:
        """Where the concentration is 0, and the concentration with ones there."""
        zero = isclose(self.concentration, tensor(0.0, dtype=self.concentration.dtype))
        return zero, where(zero, ones_like(self.concentration), self.concentration)

    def _z(self, x: Any) -> Any:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        z, (zero, c) = self._z(value), self._safe()
        y = 1 / c + ones_like(z)
        curved = where(y == 0, y, y * (c * z).log1p())
        return -self.scale.log() - where(zero, z, curved)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of something larger."""
        self._checked(value)
        z, (zero, c) = self._z(value), self._safe()
        return where(zero, -z, -(c * z).log1p() / c)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        zero, c = self._safe()
        log_left = (-value).log1p()
        curved = self.loc + self.scale / c * (-c * log_left).expm1()
        return where(zero, self.loc - self.scale * log_left, curved)

    @property
    def mean(self) -> Any:
        there = self.concentration < 1
        c = where(there, self.concentration, 0.5)
        return where(there, self.loc + self.scale / (1 - c), nan)

    @property
    def variance(self) -> Any:
        there = self.concentration < 0.5
        c = where(there, self.concentration, 0.25)
        return where(there, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), nan)

    def entropy(self) -> Any:
        return (self.scale.log() + self.concentration + 1).broadcast_to(self._batch_shape)

    @property
    def mode(self) -> Any:
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        bounded = self.concentration < 0
        upper = where(bounded, self.loc - self.scale / self.concentration, inf)
        return constraints.interval(self.loc, upper)
