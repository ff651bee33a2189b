"""The precision of products of matrices and of convolutions.

CPUs multiply float32 as it is. GPUs and TPUs have units for coarser formats (TF32, bfloat16), and XLA uses them for
float32 unless it is told otherwise. PyTorch multiplies in full precision unless a program says that less will do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from ..state import SETTINGS
from . import caches

_OF_FLOAT32 = {"highest": lax.Precision.HIGHEST, "high": lax.Precision.HIGH, "medium": lax.Precision.DEFAULT}
_OF_HALVES = {"bfloat16": lax.Precision.DEFAULT, "float16": lax.Precision.HIGH}
"""Which formats hold them without loss: bfloat16 all, float16 TF32 and three times bfloat16."""


def precision(dtype: Any) -> lax.Precision:
    """The precision for a product of numbers of this dtype, also if it is computed in float32."""
    of_halves = _OF_HALVES.get(np.dtype(dtype).name)
    return _OF_FLOAT32[SETTINGS.float32_products] if of_halves is None else of_halves


def set_float32(name: str) -> None:
    """Set the precision of float32 products: "highest", "high" or "medium". Kernels are made again."""
    if name != SETTINGS.float32_products:
        SETTINGS.float32_products = name
        caches.clear_caches()
