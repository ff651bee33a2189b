"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

from .. import Size, gather, log_softmax, logsumexp, no_grad
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .utils import SCALAR

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of several components, chosen by a `Categorical`."""

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        chosen: Any = mixture_distribution.batch_shape
        every: Any = component_distribution.batch_shape
        batch = every[:-1]
        for n, m in zip(reversed(chosen), reversed(batch)):
            if n != 1 and m != 1 and n != m:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({chosen}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        km = mixture_distribution.logits.shape[-1]
        kc = every[-1]
        if km is not None and kc is not None and km != kc:
            raise ValueError(
                f"`mixture_distribution component` ({km}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({kc})"
            )
        self._num_component = km
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch, event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch = Size(batch_shape)
        components = Size((*batch, self._num_component))
        others = {
            "_component_distribution": self._component_distribution.expand(components),
            "_mixture_distribution": self._mixture_distribution.expand(batch),
            "_num_component": self._num_component,
            "_event_ndims": self._event_ndims,
        }
        return self._expanded(MixtureSameFamily, batch, _instance, (), **others)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """Which component is chosen."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components, in the last dimension of the batch."""
        return self._component_distribution

    def _pad(self, x: Any) -> Any:
        """A value with a dimension for the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Any) -> Any:
        """Weights with the dimensions of the batch, and of the event."""
        own = len(self._mixture_distribution.batch_shape)
        more = 0 if own == 1 else len(self.batch_shape) - own
        return x.reshape((*x.shape[:-1], *([1] * more), x.shape[-1], *([1] * self._event_ndims)))

    def _averaged(self, values: Any) -> Any:
        weights = self._pad_mixture_dimensions(self._mixture_distribution.probs)
        return (weights * values).sum(dim=-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        return self._averaged(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        apart = (self._component_distribution.mean - self._pad(self.mean)).pow(2.0)
        return self._averaged(self._component_distribution.variance) + self._averaged(apart)

    def cdf(self, x: Any) -> Any:
        each = self._component_distribution.cdf(self._pad(x))
        return (each * self._mixture_distribution.probs).sum(dim=-1)

    def log_prob(self, x: Any) -> Any:
        self._checked(x)
        each = self._component_distribution.log_prob(self._pad(x))
        weights: Any = log_softmax(self._mixture_distribution.logits, dim=-1)
        return logsumexp(each + weights, dim=-1)

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        with no_grad():
            n = len(sample_shape) + len(self.batch_shape)
            index = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            index = index.reshape(tuple(index.shape) + (1,) * (self._event_ndims + 1))
            index = index.expand((*index.shape[: n + 1], *self.event_shape))
            return gather(drawn, n, index).squeeze(n)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
