"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from .. import arange, binomial, no_grad
from . import constraints
from ._odds import ShapedOdds
from .distribution import Distribution
from .utils import SCALAR

__all__ = ["Binomial"]


def _clamp_by_zero(x: Any) -> Any:
    """Positive values, with half a slope at 0."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(ShapedOdds, Distribution):
    """Successes among `total_count` trials."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (count,) = self._give(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded_odds(Binomial, batch_shape, _instance, "total_count")

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        n, logits = self.total_count, self.logits
        fixed = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        rest = n * _clamp_by_zero(logits) + n * (-logits.abs()).exp().log1p()
        return value * logits + fixed - rest

    def _one_count(self, what: str) -> int:
        n = int(self.total_count.max())
        if not self.total_count.min() == n:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return n

    def entropy(self) -> Any:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self._one_count("enumerate_support")
        values: Any = arange(1 + n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
