"""torch.testing, and comparisons of tensor code with JAX and with torch."""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
from ._comparison import assert_allclose as assert_allclose, assert_close as assert_close
from ._differential import Difference as Difference, Differs as Differs, Report as Report
from ._file_check import FileCheck as FileCheck
from ._making import make_tensor as make_tensor
from ._matches import assert_matches_jax as assert_matches_jax, assert_matches_torch as assert_matches_torch
from ._programs.compare import (
    ProgramReport as ProgramReport,
    compare_program as compare_program,
    record_program as record_program,
)

__all__ = [
    "Difference",
    "Differs",
    "FileCheck",
    "ProgramReport",
    "Report",
    "assert_allclose",
    "assert_close",
    "assert_matches_jax",
    "assert_matches_torch",
    "compare_program",
    "make_tensor",
    "record_program",
]

__getattr__ = _missing(__name__)
