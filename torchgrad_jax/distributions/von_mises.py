"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

from .. import Size, no_grad, rand, where
from .._functions import batched_sampling
from .._functions.random import chosen, inside_trace
from . import constraints
from .distribution import Distribution
from .utils import SCALAR, broadcast_all, lazy_property

__all__ = ["VonMises"]

# Abramowitz and Stegun 9.8.1 to 9.8.4: I0 and I1 below 3.75, and above, where x**-0.5 * exp(x) is apart.
_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
_LARGE = (
    (0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1, 0.2635537e-1,
     -0.1647633e-1, 0.392377e-2),
    (0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1, -0.2895312e-1,
     0.1787654e-1, -0.420059e-2),
)  # fmt: skip


def _polynomial(y: Any, coefficients: tuple[float, ...]) -> Any:
    out: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        out = c + y * out
    return out


def _log_modified_bessel_fn(x: Any, order: int = 0) -> Any:
    """The logarithm of the modified Bessel function of order 0 or 1, for positive numbers."""
    small = _polynomial((x / 3.75).pow(2), _SMALL[order])
    small = x.abs() * small if order == 1 else small
    large = x - 0.5 * x.log() + _polynomial(3.75 / x, _LARGE[order]).log()
    return where(x < 3.75, small.log(), large)


def _accepted(r: Any, k: Any) -> Any:
    """Angles around 0; proposals are drawn again for all of them until every one is accepted."""
    x = r.new_empty(r.shape)
    done = x.new_zeros(r.shape, dtype=_bool())
    while not done.all():
        u: Any = rand((3, *r.shape), dtype=x.dtype, device=x.device)
        z = (math.pi * u[0]).cos()
        f = (1 + r * z) / (r + z)
        c = k * (r - f)
        accept = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
        if accept.any():
            x = where(accept, (u[2] - 0.5).sign() * f.acos(), x)
            done = done | accept
    return x


class VonMises(Distribution):
    """Angles around `loc`, in [-pi, pi)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        try:
            return super().expand(batch_shape)
        except NotImplementedError:
            validate = self.__dict__.get("_validate_args")
            loc, concentration = (v.expand(batch_shape) for v in (self.loc, self.concentration))
            return type(self)(loc, concentration, validate_args=validate)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        k = self.concentration
        plain = k * (value - self.loc).cos() - math.log(2 * math.pi)
        return plain - _log_modified_bessel_fn(k, order=0)

    @lazy_property
    def _loc(self) -> Any:
        return self.loc.double()

    @lazy_property
    def _concentration(self) -> Any:
        return self.concentration.double()

    @lazy_property
    def _proposal_r(self) -> Any:
        """The shape of the wrapped Cauchy distribution that is proposed from (Best and Fisher 1979)."""
        k = self._concentration
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        """Samples; inside of a program or with a key of JAX's, they are not torch's numbers."""
        with no_grad():
            shape = self._extended_shape(sample_shape)
            r, k = (v.expand(shape) for v in (self._proposal_r, self._concentration))
            if inside_trace():
                x = batched_sampling.von_mises(r, k, chosen("von_mises", None, r.device))
            else:
                x = _accepted(r, k)
            return ((x + math.pi + self._loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Any:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """The circular variance."""
        ratio = [_log_modified_bessel_fn(self.concentration, order=n) for n in (1, 0)]
        return 1 - (ratio[0] - ratio[1]).exp()


def _bool() -> Any:
    from .. import bool as dtype

    return dtype
