"""Distributions of vectors, and those made of other distributions."""

from __future__ import annotations

import math
from typing import Any

from .. import Size, broadcast_shapes, cholesky_inverse, gather, linalg, logsumexp, no_grad
from . import constraints
from .continuous import standard_normal
from .discrete import Categorical
from .distribution import Distribution


class MultivariateNormal(Distribution):
    """Normal vectors with mean `loc` and a covariance, given by itself, its inverse or its Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True
    loc: Any

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril
        }  # fmt: skip
        found = {k: v for k, v in given.items() if v is not None}
        if len(found) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((self._given, matrix),) = found.items()
        if matrix.dim() < 2:
            raise ValueError(
                f"{self._given} matrix must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[self._given] = matrix.expand((*batch, -1, -1))
        self.loc = loc.expand((*batch, -1))
        self._unbroadcasted_scale_tril: Any = None
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if self._given == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif self._given == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _tril_of_inverse(matrix)

    def __getattr__(self, name: str) -> Any:
        factor = self.__dict__.get("_unbroadcasted_scale_tril")
        if factor is None or name not in ("scale_tril", "covariance_matrix", "precision_matrix"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        n = self._event_shape[0]
        value = {
            "scale_tril": lambda: factor,
            "covariance_matrix": lambda: factor @ factor.mT,
            "precision_matrix": lambda: cholesky_inverse(factor),
        }[name]()
        return value.expand((*self._batch_shape, n, n))

    def _check_parameters(self) -> None:
        for name in ("loc", self._given):
            value, constraint = getattr(self, name), self.arg_constraints[name]
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("loc", self._given)
        new = self._expanded(batch_shape, _instance, (), names)
        new._given = self._given
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        factor = self._unbroadcasted_scale_tril
        return factor.pow(2).sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        eps = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        factor = self._unbroadcasted_scale_tril
        half_log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        distance = mahalanobis(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - half_log_det

    def entropy(self) -> Any:
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        h = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half_log_det
        return h if len(self._batch_shape) == 0 else h.expand(self._batch_shape)


def mahalanobis(factor: Any, x: Any) -> Any:
    """The squared length of a vector after the inverse of a Cholesky factor."""
    return linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))


def _tril_of_inverse(precision: Any) -> Any:
    """The Cholesky factor of the inverse, from that of the matrix with its ends swapped."""
    from .. import eye, flip

    factor = linalg.cholesky(flip(precision, (-2, -1)))
    inverse = flip(factor, (-2, -1)).mT
    n = precision.shape[-1]
    return linalg.solve_triangular(
        inverse, eye(n, dtype=precision.dtype, device=precision.device), upper=False
    )


class Independent(Distribution):
    """Takes dimensions of the batch for dimensions of the event."""

    arg_constraints: Any = {}

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        n = reinterpreted_batch_ndims
        if n > len(base_distribution.batch_shape):
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual {n} vs "
                f"{len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = len(base_distribution.batch_shape) - n
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, n
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch = Size(batch_shape)
        inner = batch + self.event_shape[: self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand(inner), self.reinterpreted_batch_ndims)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def support(self) -> Any:  # type: ignore[override]
        result, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(result, n) if n else result

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last dimensions."""
    if dim == 0:
        return value
    return value.reshape((*value.shape[: value.dim() - dim], -1)).sum(-1)


class MixtureSameFamily(Distribution):
    """One of several components, chosen by a `Categorical`."""

    arg_constraints: Any = {}

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of torch.distributions.Distribution"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        km, kc = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueError(
                f"`mixture_distribution component` ({km}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({kc})"
            )
        self._num_component = km
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(
            component_distribution.batch_shape[:-1], event, validate_args=validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        components = self._component_distribution.expand((*batch_shape, self._num_component))
        return MixtureSameFamily(
            self._mixture_distribution.expand(batch_shape), components, self._validate_args
        )

    @property
    def mixture_distribution(self) -> Any:
        """Which component is chosen."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components, in the last dimension of the batch."""
        return self._component_distribution

    @property
    def support(self) -> Any:  # type: ignore[override]
        return self._component_distribution.support

    def _weights(self) -> Any:
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    @property
    def mean(self) -> Any:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        at = -1 - self._event_ndims
        inside = (self._weights() * self._component_distribution.variance).sum(at)
        apart = self._component_distribution.mean - self.mean.unsqueeze(at)
        return inside + (self._weights() * apart.pow(2)).sum(at)

    def cdf(self, x: Any) -> Any:  # type: ignore[override]
        cdf = self._component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims))
        return (cdf * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:  # type: ignore[override]
        self._checked(x)
        inside = self._component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))
        return logsumexp(inside + self._mixture_distribution.logits.log_softmax(-1), dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            n = len(sample_shape) + len(self.batch_shape)
            index = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            index = index.reshape(index.shape + (1,) * (self._event_ndims + 1))
            index = index.expand((*drawn.shape[:n], 1, *tuple(self.event_shape)))
            return gather(drawn, n, index).squeeze(n)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution!r},\n  {self.component_distribution!r})"
