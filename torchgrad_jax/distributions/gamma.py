"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from .. import _standard_gamma as _draw, as_tensor, digamma, finfo, lgamma, special, xlogy
from . import constraints
from .exp_family import ExponentialFamily
from .utils import SCALAR, broadcast_all

__all__ = ["Gamma"]


def _standard_gamma(concentration: Any) -> Any:
    """Draws of rate 1, with gradients."""
    return _draw(concentration)


class Gamma(ExponentialFamily):
    """Waiting times for `concentration` events, `rate` of them per unit of time."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Gamma, batch_shape, _instance, ("concentration", "rate"))

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        shape = self._extended_shape(sample_shape)
        out = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        out.detach().clamp_(min=finfo(out.dtype).tiny)  # gradients do not see it
        return out

    def log_prob(self, value: Any) -> Any:
        a, rate = self.concentration, self.rate
        value = as_tensor(value, dtype=rate.dtype, device=rate.device)
        self._checked(value)
        return xlogy(a, rate) + xlogy(a - 1, value) - rate * value - lgamma(a)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1.0 - a) * digamma(a)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return lgamma(x + 1) + (x + 1) * (-y.reciprocal()).log()

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return special.gammainc(self.concentration, self.rate * value)
