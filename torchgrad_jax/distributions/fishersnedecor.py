"""The F distribution."""

from __future__ import annotations

from typing import Any

from .. import Size, finfo, nan
from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import SCALAR, broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The quotient of two chi-squared numbers, each per degree of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        gammas = {n: getattr(self, n).expand(Size(batch_shape)) for n in ("_gamma1", "_gamma2")}
        return self._expanded(FisherSnedecor, batch_shape, _instance, ("df1", "df2"), **gammas)

    @property
    def mean(self) -> Any:
        df2 = self.df2.clone()
        df2[df2 <= 2] = nan
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        mode[self.df1 <= 2] = nan
        return mode

    @property
    def variance(self) -> Any:
        df1, df2 = self.df1, self.df2.clone()
        df2[df2 <= 4] = nan
        spread = df1 * (df2 - 2).pow(2) * (df2 - 4)
        return 2 * df2.pow(2) * (df1 + df2 - 2) / spread

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        shape = self._extended_shape(sample_shape)
        above = self._gamma1.rsample(sample_shape).view(shape)
        below = self._gamma2.rsample(sample_shape).view(shape)
        tiny = finfo(below.dtype).tiny
        below.clamp_(min=tiny)
        out = above / below
        out.clamp_(min=tiny)
        return out

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        constant = (a + b).lgamma() - a.lgamma() - b.lgamma()
        rising = a * ratio.log() + (a - 1) * value.log()
        return constant + rising - (a + b) * (ratio * value).log1p()
