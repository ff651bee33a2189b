"""Decorators that skip tests, expect them to fail, or put settings around them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import time
import types
import unittest
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ..._core.arrays.dtypes import get_default_dtype
from ..._functions.misc import (
    are_deterministic_algorithms_enabled,
    is_deterministic_algorithms_warn_only_enabled,
    set_default_dtype as _set_default_dtype,
    use_deterministic_algorithms,
)
from . import _flags

Decorator = Callable[[Any], Any]


def _skip_if(condition: Any, reason: str) -> Decorator:
    """As unittest.skipIf; the condition may be a function that is called when the test runs."""
    if not callable(condition):
        return unittest.skipIf(condition, reason)

    def decorate(fn: Any) -> Any:
        @functools.wraps(fn)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if condition():
                raise unittest.SkipTest(reason)
            return fn(*args, **kwargs)

        return checked

    return decorate


lazy_skip_if = _skip_if


def slowTest(fn: Any) -> Any:
    """A test that only runs with PYTORCH_TEST_WITH_SLOW=1."""
    fn.__dict__["slow_test"] = True
    return fn


def slowTestIf(condition: bool) -> Decorator:
    """`slowTest` where the condition holds."""
    return slowTest if condition else _as_it_is


def _as_it_is(fn: Any) -> Any:
    return fn


def _never(*args: Any, **kwargs: Any) -> Any:
    """A mark for machines or compilers that tests never run on here: it leaves the test as it is."""
    return args[0] if len(args) == 1 and not kwargs and _is_test(args[0]) else _as_it_is


def _is_test(thing: Any) -> bool:
    return inspect.isfunction(thing) or inspect.isclass(thing)


skipIfRocm = skipIfRocmArch = skipIfRocmVersionLessThan = skipIfMPS = skipIfXpu = skipIfHpu = _never
skipIfTorchDynamo = skipIfTorchInductor = skipIfCrossRef = skipIfLegacyJitExecutor = _never
skipRocmIfTorchInductor = runWithoutCompiledAutograd = markDynamoStrictTest = _never
unMarkDynamoStrictTest = xfailIfTorchDynamo = xfailIfROCm = xfailIfACL = xfailIfS390X = _never
skipIfNNModuleInlined = skipIfCachingAllocatorDisabled = skipCUDAMemoryLeakCheckIf = _never
skipCUDANonDefaultStreamIf = gcIfJetson = serialTest = _never
xpassIfTorchDynamo_np = make_dynamo_test = xfailIfNoAcceleratorTriton = skipIfWindowsXPU = _never
skipIfRocm_BUGGY = skipIfXpu_BUGGY = skipIfHpu_BUGGY = skip_if_pytest = _never
skipIfNoLapack = skipIfCompiledWithoutNumpy = _as_it_is


def _off(reason: str) -> Callable[..., Any]:
    """A mark of tests for something that does not exist here."""

    def mark(*args: Any, **kwargs: Any) -> Any:
        skip = unittest.skip(reason)
        return skip(args[0]) if len(args) == 1 and not kwargs and _is_test(args[0]) else skip

    return mark


runOnRocm = runOnRocmArch = skipIfNotMiopenSuggestNHWC = _off("test only runs on ROCm")
skipIfNoTritonDSL = skipIfNoCuteDSL = skipIfNoNvmath = _off("there are no kernels in other languages")
requires_mkl = _off("there is no MKL")
requires_onednn = _off("there is no oneDNN")
skipIfNoXPU = _off("test only runs on XPU")
skipIfNoXNNPACK = _off("there is no XNNPACK")


def skipIfNoSciPy(fn: Any) -> Any:
    """Skip without scipy."""
    return unittest.skipIf(not _flags.TEST_SCIPY, "test require SciPy, but SciPy not found")(fn)


def skipIfNoDill(fn: Any) -> Any:
    """Skip without dill."""
    return unittest.skipIf(not _flags.TEST_DILL, "no dill module")(fn)


def requires_cuda(fn: Any) -> Any:
    """Skip without a GPU."""
    return unittest.skipUnless(_flags.TEST_CUDA, "Requires CUDA")(fn)


def skipIfSlowGradcheckEnv(fn: Any) -> Any:
    """Skip when PYTORCH_TEST_WITH_SLOW_GRADCHECK=1 asks for gradients checked number by number."""
    return unittest.skipIf(
        _flags.TEST_WITH_SLOW_GRADCHECK, "Tests that don't use gradcheck don't need to run on slow_gradcheck CI"
    )(fn)


def skipIfNotRegistered(op_name: str, message: str) -> Decorator:
    """Skip: there are no operators of Caffe2."""
    del op_name
    return unittest.skip(message)


def with_ieee_matmul_precision(fn: Any) -> Any:
    """A test whose products of float32 are computed in float32."""
    from .common_cuda import with_tf32_off

    return with_tf32_off(fn)


recover_orig_fp32_precision = with_ieee_matmul_precision


def setBlasBackendsToDefaultFinally(fn: Any) -> Any:
    """A test that may choose libraries for products; XLA alone computes them here."""
    return fn


setLinalgBackendsToDefaultFinally = setSdpaBackendsToDefaultFinally = setBlasBackendsToDefaultFinally


class SwapTensorsGuard:
    """Decides whether conversions of modules swap tensors; False is the one way there is here."""

    def __init__(self, use_swap_tensors: bool | None) -> None:
        self.use_swap_tensors = use_swap_tensors

    def __enter__(self) -> None:
        if self.use_swap_tensors:
            from ... import __future__ as future

            future.set_swap_module_params_on_conversion(True)

    def __exit__(self, *exc: object) -> None:
        return None


def skipIfWindows(fn: Any = None, *, msg: str = "test doesn't currently work on the Windows stack") -> Any:
    """Skip on Windows."""
    mark = unittest.skipIf(_flags.IS_WINDOWS, msg)
    return mark if fn is None else mark(fn)


def skipIfFreeThreaded(msg: str = "test doesn't work with free-threaded Python") -> Decorator:
    """Skip where Python runs without its lock."""
    locked = getattr(sys, "_is_gil_enabled", lambda: True)
    return unittest.skipIf(not locked(), msg)


def skipIfPythonVersionMismatch(predicate: Callable[[int, int, int], bool]) -> Decorator:
    """Skip unless the version of Python satisfies a predicate."""
    v = sys.version_info
    fits = predicate(v.major, v.minor, v.micro)
    return unittest.skipIf(not fits, f"Python version mismatch {v.major}.{v.minor}.{v.micro}")


def xfailIf(condition: bool) -> Decorator:
    """Expect the test to fail where the condition holds."""
    return unittest.expectedFailure if condition else _as_it_is


xfailIfLinux = xfailIf(_flags.IS_LINUX)
xfailIfWindows = xfailIf(_flags.IS_WINDOWS)
xfailIfPy312Plus = xfailIf(sys.version_info >= (3, 12))


def skip_but_pass_in_sandcastle_if(condition: bool, reason: str) -> Decorator:
    """`unittest.skipIf`."""
    return unittest.skipIf(condition, reason)


def skip_but_pass_in_sandcastle(reason: str) -> Decorator:
    """`unittest.skip`."""
    return unittest.skip(reason)


def skip_exception_type(exc_type: type[BaseException]) -> Decorator:
    """Count a test that raises this as skipped."""

    def decorate(fn: Any) -> Any:
        @functools.wraps(fn)
        def tried(*args: Any, **kwargs: Any) -> Any:
            try:
                return fn(*args, **kwargs)
            except exc_type as e:
                raise unittest.SkipTest(f"not implemented: {e}") from e

        return tried

    return decorate


def xfail_inherited_tests(tests: Iterable[str]) -> Decorator:
    """Expect the named tests, which a class inherits, to fail."""

    def decorate(cls: Any) -> Any:
        for name in tests:
            fn = getattr(cls, name)
            own = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
            setattr(cls, name, unittest.expectedFailure(own))
        return cls

    return decorate


def suppress_warnings(fn: Any) -> Any:
    """Show no warnings of the function."""

    @functools.wraps(fn)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(*args, **kwargs)

    return quiet


def retry(
    exc_to_check: type[BaseException], tries: int = 3, delay: float = 3, skip_after_retries: bool = False
) -> Decorator:
    """Call a function up to `tries` times, as long as it raises this exception."""

    def decorate(fn: Any) -> Any:
        @functools.wraps(fn)
        def again(*args: Any, **kwargs: Any) -> Any:
            for _ in range(tries - 1):
                try:
                    return fn(*args, **kwargs)
                except exc_to_check:
                    time.sleep(delay)
            try:
                return fn(*args, **kwargs)
            except exc_to_check as e:
                if skip_after_retries:
                    raise unittest.SkipTest(f"failed {tries} times: {e}") from e
                raise

        return again

    return decorate


@contextlib.contextmanager
def set_default_dtype(dtype: Any) -> Any:
    """Make a dtype the default inside of the block."""
    before = get_default_dtype()
    _set_default_dtype(dtype)
    try:
        yield
    finally:
        _set_default_dtype(before)


class DeterministicGuard:
    """`use_deterministic_algorithms` inside of the block."""

    def __init__(self, deterministic: bool, *, warn_only: bool = False, fill_uninitialized_memory: bool = True) -> None:
        del fill_uninitialized_memory  # memory is never uninitialized here
        self.deterministic, self.warn_only = deterministic, warn_only

    def __enter__(self) -> None:
        self.before = (are_deterministic_algorithms_enabled(), is_deterministic_algorithms_warn_only_enabled())
        use_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)

    def __exit__(self, *exc: object) -> None:
        use_deterministic_algorithms(self.before[0], warn_only=self.before[1])


def wrapDeterministicFlagAPITest(fn: Any) -> Any:
    """Put the settings of deterministic algorithms back after the function."""

    @functools.wraps(fn)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        with DeterministicGuard(are_deterministic_algorithms_enabled()):
            return fn(*args, **kwargs)

    return guarded
