"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from .. import finfo, nn, no_grad, zeros_like
from . import constraints
from ._odds import Odds
from .distribution import Distribution, validate
from .utils import SCALAR, broadcast_all

__all__ = ["Geometric"]


class Geometric(Odds, Distribution):
    """Failures before the first success."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._give(probs, logits)
        value: Any = self._param
        super().__init__(value.size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            kind, family = type(value).__name__, type(self)

            def error(probs: Any) -> Exception:
                shown = object.__new__(family)
                shown.probs = probs
                return ValueError(
                    f"Expected parameter probs ({kind} of shape {tuple(probs.shape)}) of distribution {shown!r} to be "
                    f"positive but found invalid values:\n{probs.data[~(probs > 0)]}"
                )

            validate(value > 0, [value], error)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Geometric, batch_shape, _instance, ("probs", "logits"))

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        p = self.probs
        with no_grad():
            u = p.new(self._extended_shape(sample_shape)).uniform_(finfo(p.dtype).tiny, 1)
            return (u.log() / (-p).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone()
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        bce = nn.functional.binary_cross_entropy_with_logits
        return bce(self.logits, self.probs, reduction="none") / self.probs
