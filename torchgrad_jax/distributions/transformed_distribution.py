"""What transforms make of another distribution."""

from __future__ import annotations

from typing import Any

from .. import Size, no_grad
from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import SCALAR, _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """What transforms make of samples of another distribution."""

    arg_constraints: Any = {}
    transforms: Any
    base_dist: Any

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        else:
            self.transforms = transforms
        whole = ComposeTransform(self.transforms)
        before, after = whole.domain.event_dim, whole.codomain.event_dim
        shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dim = len(base_distribution.event_shape)
        if len(shape) < before:
            raise ValueError(f"base_distribution needs to have shape with size at least {before}, but got {shape}.")
        result = whole.forward_shape(shape)
        full = whole.inverse_shape(result)
        if shape != full:  # the parameters of a transform broadcast
            base_distribution = base_distribution.expand(full[: len(full) - base_dim])
        if before > base_dim:
            base_distribution = Independent(base_distribution, before - base_dim)
        self.base_dist = base_distribution
        cut = len(result) - max(after, base_dim + after - before)
        super().__init__(result[:cut], result[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape: Any = Size(batch_shape) + self.event_shape
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        inner = len(shape) - len(self.base_dist.event_shape)
        others = {"base_dist": self.base_dist.expand(shape[:inner]), "transforms": self.transforms}
        return self._expanded(TransformedDistribution, batch_shape, _instance, (), **others)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    def _forward(self, x: Any) -> Any:
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        n, total = len(self.event_shape), 0.0
        y = value
        for t in reversed(self.transforms):
            x = t.inv(y)
            n += t.domain.event_dim - t.codomain.event_dim
            slope = t.log_abs_det_jacobian(x, y)
            total = total - _sum_rightmost(slope, n - t.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + _sum_rightmost(base, n - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """Probabilities from the other end where the transforms fall."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
