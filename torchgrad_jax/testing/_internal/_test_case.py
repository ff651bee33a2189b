"""The TestCase that suites derive from, and `run_tests`."""

# ruff: noqa: PT009, PT027, NPY002 - it is unittest's TestCase, and suites draw from numpy's old generator

from __future__ import annotations

import contextlib
import random
import re
import subprocess
import sys
import textwrap
import unittest
import warnings
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ..._core.arrays.dtypes import dtype, get_default_dtype
from ..._engine.entry.bind import NAMESPACES
from ..._engine.memory.tensor import Tensor
from ...random import manual_seed
from . import _flags
from ._equality import check_equal
from ._marks import DeterministicGuard

_Message = str | Callable[[str], str] | None


def set_rng_seed(seed: int | None = None) -> None:
    """Seed the generators of torch, of Python and of numpy, by default all with 1234."""
    seed = _flags.SEED if seed is None else seed
    manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def run_tests(argv: Sequence[str] | None = None) -> None:
    """Run the tests of the program that calls this, as `unittest.main()` does.

    Args:
        argv: the command line, with the program's name; by default that of the process. `--seed N` (or
            `--seed=N`) seeds the tests, everything else is unittest's.
    """
    args = list(sys.argv if argv is None else argv)
    for i, arg in enumerate(args):
        if arg == "--seed" or arg.startswith("--seed="):
            inline = "=" in arg
            _flags.SEED = int(arg.partition("=")[2] if inline else args[i + 1])
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
    _default_dtype_check_enabled = False

    def setUp(self) -> None:
        reason = _why_not(getattr(self, self._testMethodName))
        if reason:
            raise unittest.SkipTest(reason)
        set_rng_seed()
        self._dtype_at_start = get_default_dtype()

    def tearDown(self) -> None:
        if self._default_dtype_check_enabled and get_default_dtype() is not self._dtype_at_start:
            raise AssertionError(
                f"the test left {get_default_dtype()} as the default dtype, and found {self._dtype_at_start}"
            )

    # --- tensors ----------------------------------------------------------------------------------

    def assertEqual(
        self,
        x: Any,
        y: Any,
        msg: _Message = None,
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
        own = msg if msg is None or callable(msg) or self.longMessage else lambda _: str(msg)
        check_equal(
            x,
            y,
            atol=atol,
            rtol=rtol,
            at_least=(self.rel_tol, self.precision),
            msg=own,
            equal_nan=equal_nan,
            exact_dtype=exact_dtype,
            exact_device=exact_device,
            exact_layout=exact_layout,
            exact_stride=exact_stride,
        )

    def assertNotEqual(self, x: Any, y: Any, msg: _Message = None, **kwargs: Any) -> None:
        """Fail if `x` and `y` are equal for `assertEqual`, which gets the keyword arguments."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, None, **kwargs)

    def assertEqualIgnoreType(self, *args: Any, **kwargs: Any) -> None:
        """`assertEqual` of tensors whose dtypes may differ."""
        self.assertEqual(*args, exact_dtype=False, **kwargs)

    def assertGreaterAlmostEqual(
        self, first: Any, second: Any, places: int | None = None, msg: str | None = None, delta: Any = None
    ) -> None:
        """Fail unless the first number is greater than the second, or nearly equal to it."""
        if not first > second:
            self.assertAlmostEqual(first, second, places, msg, delta)

    def assertEqualTypeString(self, x: Any, y: Any) -> None:
        """Fail unless two tensors have the same device, dtype and type string."""
        self.assertEqual(x.device, y.device)
        self.assertEqual(x.dtype, y.dtype)
        self.assertEqual(x.type(), y.type())

    def assertEqualBroadcasting(self, x: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        """`assertEqual` after making `y` a tensor of the shape of `x`."""
        if not isinstance(y, Tensor):
            y = NAMESPACES[""]["ones_like"](x) * y
        self.assertEqual(x, y, *args, **kwargs)

    def compare_with_numpy(
        self, torch_fn: Any, np_fn: Any, tensor_like: Any, device: Any = None, dtype: dtype | None = None, **kwargs: Any
    ) -> None:
        """Fail unless two functions, one of tensors and one of arrays, agree on the same numbers.

        Args:
            torch_fn: a function of a tensor.
            np_fn: a function of an array.
            tensor_like: a tensor, or what makes one together with `device` and `dtype`.
            device: where the tensor is made.
            dtype: what dtype it has.
            **kwargs: for `assertEqual`.
        """
        torch = NAMESPACES[""]
        if dtype is None:
            t = tensor_like.detach()
        else:
            t = torch["as_tensor"](tensor_like, dtype=dtype, device=device)
        a = t.float() if str(t.dtype).endswith("bfloat16") else t
        expected, got = np_fn(a.numpy()), torch_fn(t)
        if isinstance(expected, np.ndarray):
            expected = torch["as_tensor"](np.ascontiguousarray(expected)).reshape(expected.shape)
        self.assertEqual(expected, got, **{"exact_dtype": False, **kwargs})

    def compare_with_reference(self, torch_fn: Any, ref_fn: Any, sample_input: Any, **kwargs: Any) -> None:
        """Fail unless a function and its reference agree on a sample (`.input`, `.args`, `.kwargs`)."""
        expected = ref_fn(*_as_numpy((sample_input.input, *sample_input.args)))
        got = torch_fn(sample_input.input, *sample_input.args, **sample_input.kwargs)
        self.assertEqual(got, expected, **{"exact_device": False, **kwargs})

    # --- everything else --------------------------------------------------------------------------

    def assertObjectIn(self, obj: object, iterable: Any) -> None:
        """Fail unless this very object is among others."""
        if not any(o is obj for o in iterable):
            raise AssertionError("object not found in iterable")

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: Any, regex: str = "") -> Generator[None, None, None]:
        """Fail unless the block warns so that the text matches; what is said only once counts, too."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield
        if not seen:
            self.fail("no warning caught")
        if not any(issubclass(w.category, category) for w in seen):
            self.fail(f"{category} not triggered")
        if not any(re.match(regex, str(w.message)) for w in seen):
            self.fail(f"no warning matches {regex!r}: {[str(w.message) for w in seen]}")

    def assertNotWarn(self, callable: Any, msg: str = "", *args: Any, **kwargs: Any) -> None:
        """Fail if the call warns."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            callable(*args, **kwargs)
        if seen:
            raise AssertionError(f"{msg} warned: {[str(w.message) for w in seen]}")

    def check_nondeterministic_alert(self, fn: Callable[[], Any], caller_name: str, should_alert: bool = True) -> None:
        """Fail unless a call raises, or warns, of an operator without a deterministic implementation.

        Args:
            fn: the call.
            caller_name: what the message calls the operator.
            should_alert: whether the call has such an operator; if not, it must pass.
        """
        words = f"{caller_name} does not have a deterministic implementation, but you set"
        with DeterministicGuard(True, warn_only=False):
            if should_alert:
                with self.assertRaisesRegex(RuntimeError, "^" + re.escape(words)):
                    fn()
            else:
                fn()
        with DeterministicGuard(True, warn_only=True), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            fn()
        said = any(w.category is UserWarning and words in str(w.message) for w in seen)
        if said is not should_alert:
            self.fail(f"{caller_name} {'did not warn' if should_alert else 'warned'}")

    def assertExpectedInlineMunged(
        self,
        exc_type: Any,
        callable: Any,
        expect: str,
        *,
        skip: int = 0,
        post_munge: Callable[[str], str] | None = None,
    ) -> None:
        """Fail unless the call raises with this text, which a function may change before."""
        with self.assertRaises(exc_type) as raised:
            callable()
        text = str(raised.exception)
        self.assertExpectedInline(post_munge(text) if post_munge else text, expect, skip)

    def assertMultiLineEqualMaybeCppStack(self, expect: str, actual: str, *args: Any) -> None:
        """`assertMultiLineEqual`: no message has a stack of C++ here."""
        self.assertMultiLineEqual(expect, actual, *args)

    @staticmethod
    def remove_empty_lines(input_string: str) -> str:
        """A text without its blank lines."""
        return "\n".join(line for line in input_string.split("\n") if line.strip())

    @staticmethod
    def remove_comment_lines(input_string: str) -> str:
        """A text without the lines that start with #."""
        lines = input_string.split("\n")
        return "\n".join(line for line in lines if not line.strip().startswith("#"))

    @staticmethod
    def generate_simple_inputs(*args: Any, **kwargs: Any) -> Any:
        """Refused: it makes tensors of sparse layouts."""
        raise NotImplementedError("generate_simple_inputs(): sparse layouts are not supported")

    def assertExpectedInline(self, actual: str, expect: str, skip: int = 0) -> None:
        """Fail unless a text is what stands in the test's source."""
        del skip  # where the source would be rewritten; nothing is rewritten here
        self.assertMultiLineEqual(expect, actual)

    def assertExpectedRaisesInline(
        self, exc_type: Any, callable: Any, expect: str, *args: Any, skip: int = 0, **kwargs: Any
    ) -> None:
        """Fail unless the call raises, with exactly this text."""
        with self.assertRaises(exc_type) as raised:
            callable(*args, **kwargs)
        self.assertExpectedInline(str(raised.exception), expect, skip)

    @staticmethod
    def run_process_no_exception(code: str, env: dict[str, str] | None = None) -> tuple[bytes, bytes]:
        """What a program prints, on stdout and stderr; raises if it fails."""
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"the program failed:\n{done.stderr.decode()}")
        return done.stdout, done.stderr

    @staticmethod
    def runWithPytorchAPIUsageStderr(code: str) -> str:
        """What a program prints on stderr."""
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
        return done.stderr


def _why_not(test: Any) -> str | None:
    slow = getattr(test, "slow_test", False)
    if slow and not _flags.TEST_WITH_SLOW:
        return "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test"
    if _flags.TEST_SKIP_FAST and not slow:
        return "test is fast; we disabled it with PYTORCH_TEST_SKIP_FAST"
    return None


def _as_numpy(values: Any) -> Any:
    if isinstance(values, Tensor):
        return values.detach().numpy()
    if isinstance(values, list | tuple):
        return type(values)(_as_numpy(v) for v in values)
    return values
