"""An order of places made by exchanges, one after the other, as `randperm` makes it.

No operation of NumPy's does that, but LAPACK's `laswp`, which exchanges rows of a matrix; here each row is one number.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..host.one_thread import library, of_numpy

_FEW = 500
"""Exchanges that Python makes sooner."""


def exchanged(partners: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... after exchanging places 0 and partners[0], then 1 and partners[1], and so on."""
    found = None if len(partners) < _FEW else _of_numpy()
    if found is None:
        order = list(range(len(partners) + 1))
        for place, partner in enumerate(partners.tolist()):
            order[place], order[partner] = order[partner], order[place]
        return np.array(order)
    laswp, whole = found
    rows = np.arange(len(partners) + 1, dtype=np.float64)  # which holds each place exactly
    pivots = (partners + 1).astype(whole)
    one, n, last = (np.array(k, whole) for k in (1, len(rows), len(partners)))
    laswp(*[ctypes.c_void_p(a.ctypes.data) for a in (one, rows, n, one, last, pivots, one)])
    return rows.astype(np.int64)


@functools.cache
def _of_numpy() -> tuple[Any, Any] | None:
    """The function of NumPy's LAPACK, and the type of its integers; None where it has another name."""
    for name, whole in (("scipy_dlaswp_64_", np.int64), ("dlaswp_64_", np.int64), ("dlaswp_", np.int32)):
        try:
            found = getattr(library(of_numpy()), name)
        except (AttributeError, OSError):
            continue
        found.restype = None
        return found, whole
    return None
