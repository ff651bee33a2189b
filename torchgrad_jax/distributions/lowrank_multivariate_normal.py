"""The normal distribution of vectors whose covariance is a diagonal and a matrix of low rank."""

from __future__ import annotations

import math
from typing import Any

from .. import broadcast_tensors, eye, linalg
from . import constraints
from .distribution import Distribution
from .multivariate_normal import _batch_mahalanobis, _batch_mv, _half_log_det
from .utils import SCALAR, _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(w: Any, d: Any) -> Any:
    """The Cholesky factor of ``I + W.T @ inv(D) @ W``."""
    n = w.size(-1)
    return linalg.cholesky((w.mT / d.unsqueeze(-2)) @ w + eye(n, dtype=w.dtype, device=w.device))


def _batch_lowrank_logdet(w: Any, d: Any, capacitance: Any) -> Any:
    """The logarithm of the determinant of ``W @ W.T + D``, by the matrix determinant lemma."""
    return 2 * _half_log_det(capacitance) + d.log().sum(-1)


def _batch_lowrank_mahalanobis(w: Any, d: Any, x: Any, capacitance: Any) -> Any:
    """The squared length of vectors as ``inv(W @ W.T + D)`` measures it, by the Woodbury identity."""
    scaled = _batch_mv(w.mT / d.unsqueeze(-2), x)
    return (x.pow(2) / d).sum(-1) - _batch_mahalanobis(capacitance, scaled)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with covariance ``cov_factor @ cov_factor.T + diag(cov_diag)``."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            columns: Any = broadcast_tensors(loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1))
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_factor, self.cov_diag = (columns[0][..., 0], columns[1], columns[2][..., 0])
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("loc", "cov_diag", "cov_factor")
        kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")
        others = {name: getattr(self, name) for name in kept}
        return self._expanded(LowRankMultivariateNormal, batch_shape, _instance, (), names, **others)

    def _square(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def _parts(self) -> tuple[Any, Any]:
        return self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        w, d = self._parts
        return (w.pow(2).sum(-1) + d).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance, by way of a matrix without small eigenvalues."""
        w, d = self._parts
        root = d.sqrt().unsqueeze(-1)
        scaled = w / root
        n = self._event_shape[0]
        inner = scaled @ scaled.mT + eye(n, dtype=w.dtype, device=w.device)
        return self._square(root * linalg.cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        w, d = self._parts
        return self._square(w @ w.mT + d.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance, by the Woodbury identity."""
        w, d = self._parts
        a = linalg.solve_triangular(self._capacitance_tril, w.mT / d.unsqueeze(-2), upper=False)
        return self._square(d.reciprocal().diag_embed() - a.mT @ a)

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        shape: Any = self._extended_shape(sample_shape)
        w, d = self._parts
        like = (self.loc.dtype, self.loc.device)
        along = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], *like)
        each = _standard_normal(shape, *like)
        return self.loc + _batch_mv(w, along) + d.sqrt() * each

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        rest = (*self._parts, value - self.loc, self._capacitance_tril)
        distance = _batch_lowrank_mahalanobis(*rest)
        log_det = _batch_lowrank_logdet(*self._parts, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + distance)

    def entropy(self) -> Any:
        log_det = _batch_lowrank_logdet(*self._parts, self._capacitance_tril)
        h = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det)
        return h if len(self._batch_shape) == 0 else h.expand(self._batch_shape)
