"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from .. import max, nn, no_grad, ones_like, rand, where, zeros_like
from . import constraints
from ._odds import ShapedOdds
from .distribution import validate
from .exp_family import ExponentialFamily
from .utils import SCALAR, broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ShapedOdds, ExponentialFamily):
    """Values in [0, 1] with densities proportional to ``probs**x * (1 - probs)**(1 - x)``.

    Between `lims`, where the closed forms divide 0 by 0, Taylor expansions around 1/2 stand in.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._give(probs, logits)
        if probs is not None:
            if validate_args:
                valid = self.arg_constraints["probs"].check(self.probs)
                validate(valid, [], lambda: ValueError("The parameter probs has invalid values"))
            self._param = self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        lims = self._lims
        return self._expanded_odds(ContinuousBernoulli, batch_shape, _instance, _lims=lims)

    @lazy_property
    def probs(self) -> Any:
        """The parameter as a probability."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Any:
        return max(self.probs.le(self._lims[0]), self.probs.gt(self._lims[1]))

    def _cut_probs(self) -> Any:
        outside = self._outside_unstable_region()
        return where(outside, self.probs, self._lims[0] * ones_like(self.probs))

    def _either(self, closed: Any, taylor: Any) -> Any:
        return where(self._outside_unstable_region(), closed, taylor)

    def _cont_bern_log_norm(self) -> Any:
        """The logarithm of what the density is divided by, negated."""
        cut = self._cut_probs()
        low = where(cut.le(0.5), cut, zeros_like(cut))
        high = where(cut.ge(0.5), cut, ones_like(cut))
        width = where(cut.le(0.5), (-2.0 * low).log1p(), (2.0 * high - 1.0).log())
        closed = ((-cut).log1p() - cut.log()).abs().log() - width
        x = (self.probs - 0.5).pow(2)
        return self._either(closed, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Any:
        cut = self._cut_probs()
        closed = cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log())
        x = self.probs - 0.5
        return self._either(closed, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    @property
    def variance(self) -> Any:
        cut = self._cut_probs()
        slope = 1.0 / ((-cut).log1p() - cut.log()).pow(2)
        closed = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + slope
        x = (self.probs - 0.5).pow(2)
        return self._either(closed, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def _uniform(self, sample_shape: Any) -> Any:
        shape = self._extended_shape(sample_shape)
        return rand(shape, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        u = self._uniform(sample_shape)
        with no_grad():
            return self.icdf(u)

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        return self.icdf(self._uniform(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        bce = nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -bce + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        cut = self._cut_probs()
        risen = cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0
        inside = self._either(risen / (2.0 * cut - 1.0), value)
        zero, one = zeros_like(value), ones_like(value)
        return where(value.le(0.0), zero, where(value.ge(1.0), one, inside))

    def icdf(self, value: Any) -> Any:
        cut = self._cut_probs()
        rest = (-cut).log1p()
        risen = (-cut + value * (2.0 * cut - 1.0)).log1p() - rest
        return self._either(risen / (cut.log() - rest), value)

    def entropy(self) -> Any:
        zero, one = (-self.probs).log1p(), self.probs.log()
        return self.mean * (zero - one) - self._cont_bern_log_norm() - zero

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        """Of the log odds."""
        outside = max(x.le(self._lims[0] - 0.5), x.gt(self._lims[1] - 0.5))
        cut = where(outside, x, (self._lims[0] - 0.5) * ones_like(x))
        closed = (cut.exp() - 1.0).abs().log() - cut.abs().log()
        return where(outside, closed, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
