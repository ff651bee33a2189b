"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

from .. import Size, inf, tensor
from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import SCALAR, broadcast_all

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """How often each index is drawn in `total_count` draws."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shapes = (self._categorical.batch_shape, self._categorical.param_shape[-1:])
        super().__init__(*shapes, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        others = {
            "total_count": self.total_count,
            "_categorical": self._categorical.expand(Size(batch_shape)),
            "_binomial": self._binomial,
        }
        return self._expanded(Multinomial, batch_shape, _instance, (), **others)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Size:
        """The shape of what was given."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        sample_shape = Size(sample_shape)
        drawn = self._categorical.sample(Size((self.total_count,)) + sample_shape)
        drawn = drawn.permute(*range(1, drawn.dim()), 0)
        counts = drawn.new(self._extended_shape(sample_shape)).zero_()
        counts.scatter_add_(-1, drawn, drawn.new_ones(drawn.shape))
        return counts.type_as(self.probs)

    def entropy(self) -> Any:
        """That of single draws, less what is not known of their order."""
        n = tensor(self.total_count)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(counts).exp()
        orders = (weights * (counts + 1).lgamma()).sum([0, -1])
        return n * self._categorical.entropy() - (n + 1).lgamma() + orders

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone()
        logits[(value == 0) & (logits == -inf)] = 0
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)
