"""Continuous distributions of single numbers."""

from __future__ import annotations

import math
from typing import Any

from .. import (
    erf,
    erfinv,
    finfo,
    full_like,
    nan,
    no_grad,
    normal,
    ones_like,
    rand,
    where,
    zeros,
)
from . import constraints
from .distribution import Distribution, broadcast_all

EULER = 0.57721566490153286060


class LocationScale(Distribution):
    """Has a location and a scale."""

    loc: Any
    scale: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, ("loc", "scale"))


class Normal(LocationScale):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        apart = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -apart - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 0.5 * (1 + erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


def standard_normal(shape: Any, like: Any) -> Any:
    """Draws from the standard normal distribution."""
    zero = zeros(shape, dtype=like.dtype, device=like.device)
    return normal(zero, ones_like(zero))


class Laplace(LocationScale):
    """The Laplace distribution around `loc`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Any:
        return (2**0.5) * self.scale

    @property
    def variance(self) -> Any:
        return 2 * self.scale.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        u = self.loc.new(shape).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        d = value - self.loc
        return 0.5 - 0.5 * d.sign() * (-d.abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(LocationScale):
    """The Cauchy distribution around `loc`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    @property
    def mean(self) -> Any:
        return full_like(self.loc, nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + self.loc.new(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return (
            -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).pow(2).log1p()
        )

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(LocationScale):
    """The Gumbel distribution, of the largest of many."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        info = finfo(self.loc.dtype)
        u = rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u = info.tiny + u * (1 - info.eps - info.tiny)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + EULER)


class Uniform(Distribution):
    """All values from `low` up to `high`, which is left out, alike."""

    has_rsample = True
    low: Any
    high: Any

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, ("low", "high"))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return nan * self.high

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(Distribution):
    """Waiting times, `rate` per unit of time."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    rate: Any

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, ("rate",))

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    stddev = mean

    @property
    def mode(self) -> Any:
        return 0 * self.rate

    @property
    def variance(self) -> Any:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.rate.new(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1.0 - self.rate.log()


class HalfNormal(Distribution):
    """The absolute value of a normal number around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _scale: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self._scale,) = broadcast_all(scale)
        super().__init__(self._scale.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, ("_scale",))

    @property
    def scale(self) -> Any:
        """How wide it is."""
        return self._scale

    @property
    def _base(self) -> Normal:
        return Normal(0 * self.scale, self.scale, validate_args=False)

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Any:
        return 0 * self.scale

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._base.rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return where(value >= 0, self._base.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 2 * self._base.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:  # type: ignore[override]
        return self._base.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self._base.entropy() - math.log(2)


class HalfCauchy(Distribution):
    """The absolute value of a Cauchy number around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _scale: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self._scale,) = broadcast_all(scale)
        super().__init__(self._scale.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, ("_scale",))

    @property
    def scale(self) -> Any:
        """How wide it is."""
        return self._scale

    @property
    def _base(self) -> Cauchy:
        return Cauchy(0 * self.scale, self.scale, validate_args=False)

    @property
    def mean(self) -> Any:
        return full_like(self.scale, math.inf)

    @property
    def mode(self) -> Any:
        return 0 * self.scale

    @property
    def variance(self) -> Any:
        return self._base.variance

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._base.rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return where(value >= 0, self._base.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        self._checked(value)
        return 2 * self._base.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:  # type: ignore[override]
        return self._base.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self._base.entropy() - math.log(2)
