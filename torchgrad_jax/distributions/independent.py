"""Takes dimensions of a batch for dimensions of an event."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from .. import Size
from . import constraints
from .distribution import Distribution
from .utils import SCALAR, _sum_rightmost

__all__ = ["Independent"]

D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """A distribution some of whose batch's dimensions are dimensions of the event."""

    arg_constraints: Any = {}
    base_dist: Any

    def __init__(self, base_distribution: D, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        n, batch = reinterpreted_batch_ndims, base_distribution.batch_shape
        if n > len(batch):
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual {n} vs {len(batch)}"
            )
        shape: Any = batch + base_distribution.event_shape
        cut = len(batch) - n
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, n
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        n = self.reinterpreted_batch_ndims
        inner: Any = self.event_shape[:n]
        base = self.base_dist.expand(Size(batch_shape) + inner)
        others: Any = {"base_dist": base, "reinterpreted_batch_ndims": n}
        return self._expanded(Independent, batch_shape, _instance, (), **others)

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> Any:
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        inner, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(inner, n) if n else inner

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
