"""Invertible functions with the logarithms of their slopes, and distributions that went through them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import Size, Tensor, finfo, nn, no_grad, zeros_like
from . import constraints
from .continuous import Normal
from .distribution import Distribution
from .multivariate import Independent, sum_rightmost

_F = nn.functional


class Transform:
    """An invertible function; calling it goes forward, `inv` backward.

    Args:
        cache_size: 1 keeps the last pair of argument and result, so that the inverse gives the argument itself.
    """

    bijective = False
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """Dimensions of an event, which are the same before and after."""
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse as a transform."""
        return _Inverse(self)

    @property
    def sign(self) -> Any:
        """1 if it grows, -1 if it falls."""
        raise NotImplementedError

    def __call__(self, x: Any) -> Any:
        if self._cache_size and x is self._cached[0]:
            return self._cached[1]
        y = self._call(x)
        self._cached = (x, y) if self._cache_size else (None, None)
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size and y is self._cached[1]:
            return self._cached[0]
        x = self._inverse(y)
        self._cached = (x, y) if self._cache_size else (None, None)
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the slope at x, where y is the result."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.__class__.__name__ + "()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the argument."""
        return shape


class _Inverse(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform
        self.bijective = transform.bijective
        self.domain, self.codomain = transform.codomain, transform.domain

    @property
    def inv(self) -> Transform:
        return self._inv

    @property
    def sign(self) -> Any:
        return self._inv.sign

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """Several transforms, one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.bijective = all(p.bijective for p in self.parts)
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain

    @property
    def sign(self) -> Any:
        out: Any = 1
        for p in self.parts:
            out = out * p.sign
        return out

    @property
    def inv(self) -> Transform:
        return ComposeTransform([p.inv for p in reversed(self.parts)])

    def __call__(self, x: Any) -> Any:
        for p in self.parts:
            x = p(x)
        return x

    def _inv_call(self, y: Any) -> Any:
        for p in reversed(self.parts):
            y = p._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return zeros_like(x)
        total: Any = 0
        widest = max(p.event_dim for p in self.parts)
        for p in self.parts:
            nxt = p(x)
            total = total + sum_rightmost(p.log_abs_det_jacobian(x, nxt), widest - p.event_dim)
            x = nxt
        return total

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(p) for p in self.parts)
        return f"ComposeTransform(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class ExpTransform(Transform):
    """The exponential."""

    codomain = constraints.positive
    bijective = True
    sign: Any = +1

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """A power of positive numbers."""

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        from .. import as_tensor

        self.exponent: Any = as_tensor(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(Transform):
    """The logistic function."""

    codomain = constraints.unit_interval
    bijective = True
    sign: Any = +1

    def _call(self, x: Any) -> Any:
        info = finfo(x.dtype)
        return x.sigmoid().clamp(min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y: Any) -> Any:
        info = finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -_F.softplus(-x) - _F.softplus(x)


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    codomain = constraints.positive
    bijective = True
    sign: Any = +1

    def _call(self, x: Any) -> Any:
        return _F.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -_F.softplus(-x)


class TanhTransform(Transform):
    """The hyperbolic tangent."""

    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign: Any = +1

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - _F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """The absolute value, whose inverse is the positive one."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """`loc + scale * x`."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        if event_dim:
            self.domain = self.codomain = constraints.independent(constraints.real, event_dim)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()  # type: ignore[attr-defined]
        return int(self.scale > 0) - int(self.scale < 0)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if isinstance(self.scale, Tensor):
            one: Any = self.scale.abs().log()  # type: ignore[attr-defined]
        else:
            one = zeros_like(x) + math.log(abs(self.scale))
        one = one.expand(x.shape)
        return sum_rightmost(one, self._event_dim)


class TransformedDistribution(Distribution):
    """What a transform makes of samples of another distribution."""

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        wanted = max([len(base_distribution.event_shape), *[t.event_dim for t in self.transforms]])
        more = wanted - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution
        cut = len(shape) - wanted
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(batch_shape, _instance, ())
        new.base_dist = self.base_dist.expand(Size(batch_shape))
        new.transforms = self.transforms
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:  # type: ignore[override]
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape: Any = ()) -> Any:
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        n = len(self.event_shape)
        total: Any = 0.0
        y = value
        for t in reversed(self.transforms):
            x = t._inv_call(y)
            total = total - sum_rightmost(t.log_abs_det_jacobian(x, y), n - t.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + sum_rightmost(base, n - len(self.base_dist.event_shape))

    def _along(self, value: Any) -> Any:
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for t in reversed(self.transforms):
            value = t._inv_call(value)
        return self._along(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        value = self.base_dist.icdf(self._along(value))
        for t in self.transforms:
            value = t(value)
        return value


class LogNormal(TransformedDistribution):
    """The exponential of a normal number."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc
