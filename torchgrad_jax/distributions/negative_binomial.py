"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from .. import nn, no_grad, poisson
from . import constraints
from ._odds import ShapedOdds
from .distribution import Distribution
from .gamma import Gamma
from .utils import SCALAR, lazy_property

__all__ = ["NegativeBinomial"]

_logsigmoid = nn.functional.logsigmoid


class NegativeBinomial(ShapedOdds, Distribution):
    """Successes, each of probability `probs`, before failure number `total_count`."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (count,) = self._give(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded_odds(NegativeBinomial, batch_shape, _instance, "total_count")

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Any:
        """The rate of a Poisson distribution that mixes into this one."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        with no_grad():
            return poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        n = self.total_count
        plain = n * _logsigmoid(-self.logits) + value * _logsigmoid(self.logits)
        norm = -(n + value).lgamma() + (1.0 + value).lgamma() + n.lgamma()
        return plain - norm.masked_fill(n + value == 0.0, 0.0)
