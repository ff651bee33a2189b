"""What distributions have in common that keep the Cholesky factor of a matrix."""

from __future__ import annotations

from typing import Any

from .utils import lazy_property


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
