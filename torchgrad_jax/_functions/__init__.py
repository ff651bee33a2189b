"""Layer 2b: functions that torch composes of other functions. Importing this registers them all."""

import importlib

from .._engine.entry.published import publish

FAMILIES = (
    "complex_views", "clones", "shape", "splitting", "joining", "strides", "create", "exchange", "sequences",
    "windows", "random", "fills", "sampling", "gamma", "convert", "constructors", "storage", "typed_storage",
    "symbolic", "misc", "indexing", "pointwise", "activation", "loss", "reduce", "sort", "index", "copies", "selection",
    "matmul", "einsum", "linalg", "fft", "special", "conv", "pool", "norm", "attention", "vision", "layers",
    "recurrent", "aten", "histograms", "linear_loss", "lowrank", "masked", "signal_windows", "spectral",
    "legacy", "unsupported", "replay", "grouped",
)  # fmt: skip

for _family in FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")
publish()
