"""A choice among categories."""

from __future__ import annotations

from typing import Any

from .. import Size, arange, broadcast_tensors, finfo, multinomial, nan
from . import constraints
from .distribution import Distribution
from .utils import SCALAR, lazy_property, logits_to_probs, one_of, probs_to_logits

__all__ = ["Categorical"]


class Categorical(Distribution):
    """An index, with probabilities proportional to `probs`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, given = one_of(probs, logits)
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self._param = self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self._param = self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.size()[-1]
        batch = given.size()[:-1] if given.dim() > 1 else Size()
        super().__init__(batch, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(Categorical, batch_shape, _instance, (), ("probs", "logits"))
        new._param = new.__dict__["probs" if "probs" in new.__dict__ else "logits"]
        new._num_events = self._num_events
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """The shape of what was given."""
        return self._param.size()

    def _undefined_moment(self) -> Any:
        return self.probs.new_full(self._extended_shape(), nan)

    @property
    def mean(self) -> Any:
        return self._undefined_moment()

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        return self._undefined_moment()

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn: Any = multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        index, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values: Any = arange(self._num_events, dtype=_long(), device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


def _long() -> Any:
    from .. import long

    return long
