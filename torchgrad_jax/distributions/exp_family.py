"""Exponential families: densities exp(<t(x), theta> - F(theta) + k(x))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import autograd
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Entropy and divergences follow from the logarithm of what normalises the density, F."""

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    if TYPE_CHECKING:
        _mean_carrier_measure: Any
    else:

        @property
        def _mean_carrier_measure(self) -> Any:
            raise NotImplementedError

    def entropy(self) -> Any:
        carrier = self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        log_normal = self._log_normalizer(*params)
        slopes = autograd.grad(log_normal.sum(), params, create_graph=True)
        out = log_normal - carrier
        for p, g in zip(params, slopes):
            out -= (p * g).reshape((*self._batch_shape, -1)).sum(-1)
        return out
