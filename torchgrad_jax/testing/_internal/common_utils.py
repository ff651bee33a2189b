"""The names of torch.testing._internal.common_utils that suites of others import."""

# ruff: noqa: PT009, PT027, NPY002 - it is unittest's TestCase, and suites draw from numpy's old generator
from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import platform
import random
import sys
import tempfile
import unittest
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ... import autograd, cuda
from ..._core.arrays.dtypes import get_default_dtype
from ..._core.errors.messages import no_such_name
from ..._core.signals import contextmanager, restore
from ..._functions.misc import set_default_dtype as _set_default_dtype
from ...random import get_rng_state, manual_seed, set_rng_state
from .._making import make_tensor as make_tensor
from ._equality import check_equal
from ._parametrize import (
    instantiate_parametrized_tests as instantiate_parametrized_tests,
    parametrize as parametrize,
    subtest as subtest,
)

IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
IS_LINUX = sys.platform == "linux"
IS_X86 = platform.machine() in ("x86_64", "i386", "AMD64")
IS_ARM64 = platform.machine() in ("arm64", "aarch64")
IS_CI = bool(os.environ.get("CI"))
IS_SANDCASTLE = IS_FBCODE = False

TEST_CUDA = cuda.is_available()
TEST_MULTIGPU = TEST_CUDA and cuda.device_count() >= 2
TEST_MPS = TEST_XPU = TEST_MKL = False
TEST_NUMPY = True
TEST_SCIPY = importlib.util.find_spec("scipy") is not None
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_TORCHDYNAMO = False
TEST_WITH_SLOW = os.environ.get("PYTORCH_TEST_WITH_SLOW") == "1"
SEED = 1234


def set_rng_seed(seed: int | None = None) -> None:
    """Seed the generators of torch, of Python and of numpy, by default all with 1234."""
    seed = SEED if seed is None else seed
    manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def run_tests(argv: Sequence[str] | None = None) -> None:
    """Run the tests of the program that calls this, as `unittest.main()` does.

    Args:
        argv: the command line, with the program's name; by default that of the process. `--seed N` (or
            `--seed=N`) seeds the tests, everything else is unittest's.
    """
    global SEED
    args = list(sys.argv if argv is None else argv)
    for i, arg in enumerate(args):
        if arg == "--seed" or arg.startswith("--seed="):
            inline = "=" in arg
            SEED = int(arg.partition("=")[2] if inline else args[i + 1])
            del args[i : i + (1 if inline else 2)]
            break
    set_rng_seed()
    unittest.main(argv=args)


class TestCase(unittest.TestCase):
    """unittest's TestCase with comparisons of tensors, and the same random numbers for every test."""

    precision: float = 0
    """Least absolute tolerance of `assertEqual` where none is given."""
    rel_tol: float = 0
    """Least relative tolerance."""
    maxDiff = None

    def setUp(self) -> None:
        set_rng_seed()

    def assertEqual(
        self,
        x: Any,
        y: Any,
        msg: str | Callable[[str], str] | None = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:
        """Fail unless `x` and `y` are equal, tensors within what their dtypes can resolve.

        Args:
            x: anything.
            y: anything; tensors may be compared with arrays, numbers and nested lists.
            msg: added to the message, or a function of it.
            atol: absolute tolerance, only together with `rtol`.
            rtol: relative tolerance.
            equal_nan: whether NaNs agree.
            exact_dtype: whether dtypes of tensors must agree.
            exact_device: whether devices must agree.
            exact_layout: whether layouts must agree.
            exact_stride: whether strides must agree.
            exact_is_coalesced: accepted for sparse tensors, of which there are none.
        """
        __tracebackhide__ = True
        check_equal(
            x,
            y,
            atol=atol,
            rtol=rtol,
            at_least=(self.rel_tol, self.precision),
            msg=msg if msg is None or callable(msg) or self.longMessage else lambda _: str(msg),
            equal_nan=equal_nan,
            exact_dtype=exact_dtype,
            exact_device=exact_device,
            exact_layout=exact_layout,
            exact_stride=exact_stride,
        )

    def assertNotEqual(self, x: Any, y: Any, msg: str | None = None, **kwargs: Any) -> None:
        """Fail if `x` and `y` are equal for `assertEqual`, which gets the keyword arguments."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, None, **kwargs)

    def assertExpectedInline(self, actual: str, expect: str, skip: int = 0) -> None:
        """Fail unless a text is what stands in the test's source, which is not rewritten here."""
        self.assertMultiLineEqual(expect, actual)


# --- marks ----------------------------------------------------------------------------------------


def slowTest(fn: Any) -> Any:
    """A test that only runs with PYTORCH_TEST_WITH_SLOW=1."""
    return unittest.skipUnless(TEST_WITH_SLOW, "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")(fn)


def _never(*args: Any, **kwargs: Any) -> Any:
    """A mark for machines or compilers that tests never run on here: it leaves the test as it is."""
    given = args[0] if len(args) == 1 and not kwargs else None
    return given if inspect.isfunction(given) or inspect.isclass(given) else lambda fn: fn


skipIfRocm = skipIfXpu = skipIfMPS = skipIfTorchDynamo = skipIfTorchInductor = skipIfNoLapack = _never

# --- helpers --------------------------------------------------------------------------------------

_GRADCHECK = {"check_batched_grad": True, "fast_mode": True}


def gradcheck(fn: Any, inputs: Any, **kwargs: Any) -> bool:
    """`autograd.gradcheck`, fast and with batched gradients unless said otherwise."""
    return autograd.gradcheck(fn, inputs, **{**_GRADCHECK, **kwargs})


def gradgradcheck(fn: Any, inputs: Any, grad_outputs: Any = None, **kwargs: Any) -> bool:
    """`autograd.gradgradcheck`, fast and with batched gradients unless said otherwise."""
    return autograd.gradgradcheck(fn, inputs, grad_outputs, **{**_GRADCHECK, **kwargs})


@contextmanager
def set_default_dtype(dtype: Any) -> Generator[None, None, None]:
    """Make a dtype the default inside of the block."""
    before = get_default_dtype()
    try:
        _set_default_dtype(dtype)
        yield
    finally:
        restore(_set_default_dtype, before)


@contextmanager
def freeze_rng_state() -> Generator[None, None, None]:
    """Put the random numbers of torch, numpy and Python back where they were."""
    states = get_rng_state(), np.random.get_state(), random.getstate()

    def put_back() -> None:
        set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])

    try:
        yield
    finally:
        restore(put_back)


@contextmanager
def TemporaryFileName(*args: Any, **kwargs: Any) -> Generator[str, None, None]:
    """The name of a temporary file, which is closed and exists."""
    if kwargs.pop("delete", False):
        raise UserWarning("only TemporaryFileName with delete=False is supported")
    with tempfile.NamedTemporaryFile(*args, delete=False, **kwargs) as file:
        pass
    try:
        yield file.name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.name)


def __getattr__(name: str) -> Any:
    raise AttributeError(no_such_name(f"torch.testing._internal.common_utils.{name}"))
