"""The Wishart distribution."""

from __future__ import annotations

import math
from typing import Any

from .. import (
    Size,
    arange,
    broadcast_shapes,
    cholesky_solve,
    digamma,
    eye,
    finfo,
    linalg,
    mvlgamma,
    nan,
    randn,
    tensor,
    tril_indices,
    where,
)
from .._core.errors import warn
from .._functions.random import inside_trace
from . import constraints
from .chi2 import Chi2
from .distribution import validate
from .exp_family import ExponentialFamily
from .multivariate_normal import CholeskyForms, _half_log_det, _precision_to_scale_tril
from .utils import SCALAR, lazy_property

__all__ = ["Wishart"]

_LOG_2 = math.log(2)


def _mvdigamma(x: Any, p: int) -> Any:
    """The derivative of `mvlgamma`."""
    steps: Any = arange(p, dtype=x.dtype, device=x.device)
    return digamma(x.unsqueeze(-1) - steps.div(2).expand((*x.shape, -1))).sum(-1)


class Wishart(CholeskyForms, ExponentialFamily):
    """Sums of `df` outer squares of normal vectors, with a covariance as for `MultivariateNormal`."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> Any:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        found = [(k, v) for k, v in given.items() if v is not None]
        if len(found) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = found
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, int | float):
            batch: Any = Size(matrix.shape[:-2])
            self.df: Any = tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch = broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch)
        event = matrix.shape[-2:]
        least = event[-1] - 1
        validate(
            self.df > least,
            [self.df],
            lambda _: ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {least}."),
        )
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        if not inside_trace() and self.df.lt(event[-1]).any():
            warn.to_user(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim."
            )
        super().__init__(batch, event, validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)
        self._set_sampler()

    def _set_sampler(self) -> None:
        """What Bartlett's decomposition has on the diagonal."""
        factor = self._unbroadcasted_scale_tril
        self._batch_dims = [-(n + 1) for n in range(len(self._batch_shape))]
        steps: Any = arange(self._event_shape[-1], dtype=factor.dtype, device=factor.device)
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - steps.expand((*self._batch_shape, -1)))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("covariance_matrix", "scale_tril", "precision_matrix")
        full = Size(batch_shape) + self.event_shape
        others = {"_unbroadcasted_scale_tril": self._unbroadcasted_scale_tril.expand(full)}
        new = self._expanded(Wishart, batch_shape, _instance, ("df",), names, **others)
        new._set_sampler()
        return new

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        factor = self._unbroadcasted_scale_tril
        unit = eye(self._event_shape[-1], dtype=factor.dtype, device=factor.device)
        return self._whole(cholesky_solve(unit, factor))

    def _as_matrix(self, x: Any) -> Any:
        return x.view((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Any:
        return self._as_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor[factor <= 0] = nan
        return self._as_matrix(factor) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._as_matrix(self.df) * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Any = SCALAR) -> Any:
        p = self._event_shape[-1]
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = roots.clamp(min=finfo(roots.dtype).eps).diag_embed(dim1=-2, dim2=-1)
        i, j = tril_indices(p, p, offset=-1)
        shape = (*sample_shape, *self._batch_shape, int(p * (p - 1) / 2))
        noise[..., i, j] = randn(shape, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = SCALAR, max_try_correction: int | None = None) -> Any:
        """Samples that the parameters get gradients through; singular ones are drawn again.

        Args:
            sample_shape: how many.
            max_try_correction: how often singular ones are drawn again; ten times where None.
        """
        sample_shape = Size(sample_shape)
        out = self._bartlett_sampling(sample_shape)
        # As in torch, the first round takes for singular what is not: each good sample is drawn twice.
        singular = self.support.check(out)
        if self._batch_shape:
            singular = singular.amax(self._batch_dims)
        if inside_trace():  # how many are singular is not known there
            return self._redrawn_once(out, sample_shape)
        if singular.any():
            warn.to_user("Singular sample detected.")
            for _ in range(10 if max_try_correction is None else max_try_correction):
                again = self._bartlett_sampling(singular[singular].shape)
                out[singular] = again
                still = ~self.support.check(again)
                if self._batch_shape:
                    still = still.amax(self._batch_dims)
                singular[singular.clone()] = still
                if not singular.any():
                    break
        return out

    def _redrawn_once(self, out: Any, sample_shape: Any) -> Any:
        """The samples, each replaced by another one where it is singular."""
        good = self.support.check(out)[..., None, None]
        return where(good, out, self._bartlett_sampling(sample_shape))

    def _half_log_det_of_double(self) -> Any:
        """Half the logarithm of the determinant of twice the covariance."""
        return self._event_shape[-1] * _LOG_2 / 2 + _half_log_det(self._unbroadcasted_scale_tril)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        nu, p = self.df, self._event_shape[-1]
        solved: Any = cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        norm = -nu * self._half_log_det_of_double() - mvlgamma(nu / 2, p=p)
        return norm + (nu - p - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2

    def entropy(self) -> Any:
        nu, p = self.df, self._event_shape[-1]
        spread = (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p)
        constant = (p + 1) * self._half_log_det_of_double() + mvlgamma(nu / 2, p=p)
        return constant - spread + nu * p / 2

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        nu, p = self.df, self._event_shape[-1]
        return -self.precision_matrix / 2, (nu - p - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-linalg.slogdet(-2 * x).logabsdet + _LOG_2 * p) + mvlgamma(half, p=p)
