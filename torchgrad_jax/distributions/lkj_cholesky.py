"""Cholesky factors of random correlation matrices."""

from __future__ import annotations

import math
from typing import Any

from .. import Size, arange, cat, finfo, mvlgamma, randn
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import SCALAR, broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Factors of correlation matrices, with densities proportional to ``det**(concentration - 1)``."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The rows grow one by one ("onion method"); a beta number says how long the new part is.
        marginal = self.concentration + 0.5 * (dim - 2)
        like = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        steps: Any = arange(dim - 1, **like)
        steps = cat([steps.new_zeros((1,)), steps])
        self._beta = Beta(steps + 0.5, marginal.unsqueeze(-1) - 0.5 * steps)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        others: Any = {"dim": self.dim, "_beta": self._beta.expand((*batch_shape, self.dim))}
        return self._expanded(LKJCholesky, batch_shape, _instance, ("concentration",), **others)

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        normals: Any = randn(shape, dtype=y.dtype, device=y.device)
        normals = normals.tril(-1)
        directions = normals / normals.norm(dim=-1, keepdim=True)
        directions[..., 0, :].fill_(0.0)  # there is none: 0 / 0
        w = y.sqrt() * directions
        left = (1 - (w**2).sum(dim=-1)).clamp(min=finfo(w.dtype).tiny).sqrt()
        return w + left.diag_embed()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        a, n = self.concentration, self.dim - 1
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order: Any = arange(2, self.dim + 1, device=a.device)
        powers = 2 * (a - 1).unsqueeze(-1) + self.dim - order
        plain = (powers * diagonal.log()).sum(dim=-1)
        half = a + 0.5 * n
        norm = 0.5 * n * math.log(math.pi) + mvlgamma(half - 0.5, n) - half.lgamma() * n
        return plain - norm
