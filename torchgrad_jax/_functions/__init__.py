"""Layer 2b: functions that torch composes of other functions. Importing this registers them all."""

import importlib
import importlib.util

FAMILIES = (
    "shape", "create", "exchange", "sequences", "windows", "random", "fills", "sampling", "convert", "constructors",
    "storage", "misc", "indexing", "pointwise", "activation", "loss", "reduce", "sort", "index", "copies",
    "selection", "matmul", "linalg", "fft", "special", "conv", "pool", "norm", "attention", "vision", "layers",
    "recurrent", "aten", "histograms", "linear_loss", "lowrank", "masked", "signal_windows", "spectral", "legacy",
    "unsupported",
)  # fmt: skip

for _family in FAMILIES:
    if importlib.util.find_spec(f"{__name__}.{_family}"):  # type: ignore[attr-defined]
        importlib.import_module(f"{__name__}.{_family}")
