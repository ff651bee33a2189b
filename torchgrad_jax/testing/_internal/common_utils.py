"""The names of torch.testing._internal.common_utils that suites of others import."""

# ruff: noqa: F403, F401 - a façade, as in torch: flags, marks, the TestCase and helpers from one place
from __future__ import annotations

import unittest
import warnings

import numpy as np

import torchgrad_jax as torch

from .._making import make_tensor
from ._drawn import *
from ._flags import *
from ._gradients import TestGradients
from ._helpers import *
from ._helpers import _assertGradAndGradgradChecks
from ._marks import *
from ._missing import missing_in
from ._parametrize import *
from ._parametrize import _TestParametrizer
from ._running import *
from ._swap import swap, wrapSwapTensorsTest
from ._test_case import TestCase, run_tests, set_rng_seed
from .common_cuda import TEST_CUDNN
from .common_dtype import get_all_dtypes

TestCaseBase = TestCase


def getRocmVersion() -> tuple[int, int]:
    """There is no ROCm."""
    return (0, 0)


def isRocmArchAnyOf(arch: tuple[str, ...]) -> bool:
    """There is no ROCm."""
    return False


def load_tests(loader: unittest.TestLoader, tests: object, pattern: object) -> unittest.TestSuite:
    """For `from common_utils import load_tests`: the tests of a module, as they are."""
    suite = unittest.TestSuite()
    for group in tests:  # type: ignore[attr-defined]
        suite.addTests(group)
    return suite


def raise_on_run_directly(file_to_call: str) -> None:
    """Say that a file of tests is not to be run by itself."""
    raise RuntimeError(
        f"This test file is not meant to be run directly, use:\n\n\tpython {file_to_call} TESTNAME\n\ninstead."
    )


__getattr__ = missing_in("common_utils")
