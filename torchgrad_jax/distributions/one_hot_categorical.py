"""A choice among categories, as a vector with a single 1."""

from __future__ import annotations

from typing import Any

from .. import Size, eye, nn
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .utils import SCALAR

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]

_one_hot = nn.functional.one_hot


class OneHotCategorical(Distribution):
    """A vector with a single 1, at an index drawn as by `Categorical`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shapes = (self._categorical.batch_shape, self._categorical.param_shape[-1:])
        super().__init__(*shapes, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        inner = self._categorical.expand(Size(batch_shape))
        return self._expanded(OneHotCategorical, batch_shape, _instance, (), _categorical=inner)

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def mean(self) -> Any:
        return self._categorical.probs

    @property
    def mode(self) -> Any:
        probs = self._categorical.probs
        return _one_hot(probs.argmax(dim=-1), num_classes=probs.shape[-1]).to(probs)

    @property
    def variance(self) -> Any:
        return self._categorical.probs * (1 - self._categorical.probs)

    @property
    def param_shape(self) -> Size:
        """The shape of what was given."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        index = self._categorical.sample(Size(sample_shape))
        return _one_hot(index, self._categorical._num_events).to(self._categorical.probs)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self.event_shape[0]
        values: Any = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient of the probabilities passed straight through the sample."""

    has_rsample = True

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())
