"""How far apart two numbers may be: per dtype, in one place."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """Relative to the expected value, plus a share of the largest expected magnitude (1 if smaller)."""

    rtol: float
    atol: float

    def scaled(self, factor: float) -> Tolerance:
        """The same, wider; whoever calls this states why."""
        return Tolerance(self.rtol * factor, self.atol * factor)


EXACT = Tolerance(0.0, 0.0)
# A few dozen roundings of each type: kernels of XLA and of torch sum in different orders and use
# different polynomials for transcendental functions.
DEFAULT: dict[str, Tolerance] = {
    "float64": Tolerance(1e-10, 1e-12),
    "complex128": Tolerance(1e-10, 1e-12),
    "float32": Tolerance(2e-5, 2e-6),
    "complex64": Tolerance(2e-5, 2e-6),
    "float16": Tolerance(4e-3, 1e-3),
    "bfloat16": Tolerance(3e-2, 8e-3),
}


def default(dtype: str) -> Tolerance:
    """The tolerance of a dtype; integers and bool compare exactly."""
    return DEFAULT.get(dtype, EXACT)


def difference(got: np.ndarray, want: np.ndarray, tol: Tolerance) -> str | None:
    """Where two arrays of one shape disagree, or None. NaNs and infinities have to match."""
    if got.dtype == ml_dtypes.bfloat16:
        got, want = got.astype(np.float64), want.astype(np.float64)
    if got.size == 0:
        return None
    if got.dtype.kind in "biu":
        bad = got != want
    else:
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        got, want = got.astype(wide), want.astype(wide)
        bad = _far(got, want, tol)
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    at = f" at {where}" if got.ndim else ""
    return f"{int(bad.sum())} of {got.size} differ, first{at}: got {got[where]!r}, want {want[where]!r}"


def _far(got: np.ndarray, want: np.ndarray, tol: Tolerance) -> np.ndarray:
    finite = np.isfinite(want) & np.isfinite(got)
    scale = max(np.abs(want[finite]).max(initial=0.0), 1.0)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(got - want) <= tol.atol * scale + tol.rtol * np.abs(want)
    return ~np.where(finite, near, _same(got.real, want.real) & _same(got.imag, want.imag))


def _same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Equal, NaNs included; a finite part next to an infinite one is not looked at."""
    both = np.isfinite(got) & np.isfinite(want)
    return both | (got == want) | (np.isnan(got) & np.isnan(want))
