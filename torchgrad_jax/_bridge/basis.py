"""Unit vectors, which a Jacobian's rows and columns are products with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core.arrays.meta import Meta, meta
from .._core.arrays.transfer import SMALL, put
from .._core.jax.caches import remember
from .._engine.memory.tensor import Tensor, make


def basis(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Unit vectors of the space of all these tensors together: a batch of them for each tensor."""
    return _basis(tuple([t._m for t in tensors]))


def _basis(metas: tuple[Meta, ...]) -> tuple[Tensor, ...]:
    total = sum(m.numel for m in metas)
    out, at = [], 0
    for m in metas:
        want = meta((total, *m.shape), m.dtype, m.device)
        out.append(make(_eye(want, m.numel, at), want))
        at += m.numel
    return tuple(out)


def _eye(m: Meta, n: int, at: int) -> Any:
    cached = _small if m.numel <= 1 << 16 else _small.__wrapped__
    return cached(m, n, at)


@remember(256)
def _small(m: Meta, n: int, at: int) -> Any:
    # The arrays are values even while something is being traced.
    with jax.ensure_compile_time_eval():
        if m.numel <= SMALL:
            return put(np.eye(m.shape[0], n, -at, dtype=m.dtype.np).reshape(m.shape), m.device)
        return jnp.eye(m.shape[0], n, -at, dtype=m.dtype.np).reshape(m.shape)
