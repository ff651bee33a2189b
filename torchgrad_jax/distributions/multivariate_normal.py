"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

from .. import broadcast_shapes, cholesky_inverse, eye, flip, linalg
from . import constraints
from .distribution import Distribution
from .utils import SCALAR, _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


class CholeskyForms:
    """Forms of a matrix whose lower factor is `_unbroadcasted_scale_tril`, as large as the batch."""

    _batch_shape: Any
    _unbroadcasted_scale_tril: Any

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)


def _batch_mv(matrix: Any, vector: Any) -> Any:
    """Products of matrices and vectors."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor: Any, x: Any) -> Any:
    """The squared length of vectors after the inverse of a Cholesky factor."""
    return linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))


def _precision_to_scale_tril(precision: Any) -> Any:
    """The Cholesky factor of the inverse, from that of the matrix with its ends swapped."""
    factor = linalg.cholesky(flip(precision, (-2, -1)))
    inverse = flip(factor, (-2, -1)).mT
    unit = eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return linalg.solve_triangular(inverse, unit, upper=False)


def _half_log_det(factor: Any) -> Any:
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(CholeskyForms, Distribution):
    """Normal vectors with mean `loc` and a covariance, given by itself, its inverse or its Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril, "precision_matrix": precision_matrix}
        found = [(k, v) for k, v in given.items() if v is not None]
        if len(found) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = found
        if matrix.dim() < 2:
            tail = "must be at least two-dimensional, with optional leading batch dimensions"
            raise ValueError(f"{name}{' matrix' * (name == 'scale_tril')} {tail}")
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("loc", "covariance_matrix", "scale_tril", "precision_matrix")
        others = {"_unbroadcasted_scale_tril": self._unbroadcasted_scale_tril}
        return self._expanded(MultivariateNormal, batch_shape, _instance, (), names, **others)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._whole(cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        factor = self._unbroadcasted_scale_tril
        distance = _batch_mahalanobis(factor, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - _half_log_det(factor)

    def entropy(self) -> Any:
        each = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        h = each + _half_log_det(self._unbroadcasted_scale_tril)
        return h if len(self._batch_shape) == 0 else h.expand(self._batch_shape)
