"""Rows by op family. `CASES` is all of them."""

from __future__ import annotations

import importlib
from dataclasses import replace

from ..case import Case
from ..core_ops import CORE_OPS

FAMILIES = (
    "pointwise",
    "special",
    "compare",
    "reduce",
    "scan",
    "matmul",
    "shape",
    "index",
    "sort",
    "create",
    "random",
    "activation",
    "loss",
    "layers",
    "linalg",
    "fft",
    "rare",
    "points",
    "whole",
)


def _load() -> tuple[Case, ...]:
    out: list[Case] = []
    for family in FAMILIES:
        rows = importlib.import_module(f"{__name__}.{family}").CASES
        out += [replace(row, family=family) for row in rows]
    return tuple(out)


CASES = _load()
COVERED = tuple(dict.fromkeys([*CORE_OPS, *(case.core for case in CASES)]))
"""Every operator that a case stands for."""
