"""Layer 1: the op table. Importing this module declares every family and seals the table."""

import importlib

from .._core.errors.messages import missing
from .registry import TABLE as TABLE

FAMILIES = (
    "shape", "joining", "signs", "rounding", "powers", "trigonometry", "gamma", "xlogy", "arith", "compare",
    "activation", "loss", "reduce", "extrema", "scan", "sort", "index", "scatter", "embedding", "matmul", "linalg",
    "lstsq", "matrix_exp", "polar", "decomp", "ldl", "fft", "conv", "pool", "norm", "attention", "vision", "pad",
    "resize", "grid", "layers", "incomplete_gamma", "special", "copies", "recurrent", "norms", "gamma_grads",
)  # fmt: skip

for _family in FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")
TABLE.sealed = True

# Programs ask for classes of operators here, as in torch; a module further up has them.
__getattr__ = missing(__name__, OpOverload=".ops", OpOverloadPacket=".ops")
