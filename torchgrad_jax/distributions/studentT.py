"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from .. import Size, digamma, inf, lgamma, nan
from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import SCALAR, _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """The mean of a few normal numbers, measured by their own spread."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names, chi2 = ("df", "loc", "scale"), self._chi2.expand(Size(batch_shape))
        return self._expanded(StudentT, batch_shape, _instance, names, _chi2=chi2)

    @property
    def mean(self) -> Any:
        m = self.loc.clone()
        m[self.df <= 1] = nan
        return m

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        m, wide = self.df.clone(), self.df > 2
        m[wide] = self.scale[wide].pow(2) * self.df[wide] / (self.df[wide] - 2)
        m[(self.df <= 2) & (self.df > 1)] = inf
        m[self.df <= 1] = nan
        return m

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        shape = self._extended_shape(sample_shape)
        x = _standard_normal(shape, self.df.dtype, self.df.device)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * (z / self.df).rsqrt())

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        df, y = self.df, (value - self.loc) / self.scale
        z = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi)
        z = z + lgamma(0.5 * df) - lgamma(0.5 * (df + 1.0))
        return -0.5 * (df + 1.0) * (y**2.0 / df).log1p() - z

    def entropy(self) -> Any:
        df = self.df
        lbeta = lgamma(0.5 * df) + math.lgamma(0.5) - lgamma(0.5 * (df + 1))
        slope = digamma(0.5 * (df + 1)) - digamma(0.5 * df)
        return self.scale.log() + 0.5 * (df + 1) * slope + 0.5 * df.log() + lbeta
