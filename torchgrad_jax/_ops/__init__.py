"""Layer 1: the op table. Importing this module declares every family and seals the table."""

import importlib
import importlib.util

from .registry import TABLE as TABLE

FAMILIES = (
    "shape", "pointwise", "arith", "compare", "activation", "loss", "reduce", "extrema", "scan", "sort",
    "index", "scatter", "embedding", "matmul", "linalg", "decomp", "fft", "conv", "pool", "norm",
    "attention", "vision", "pad", "resize", "grid", "layers", "special",
    "copies", "recurrent", "norms",
)  # fmt: skip

for _family in FAMILIES:
    if importlib.util.find_spec(f"{__name__}.{_family}"):  # type: ignore[attr-defined]
        importlib.import_module(f"{__name__}.{_family}")
TABLE.sealed = True
