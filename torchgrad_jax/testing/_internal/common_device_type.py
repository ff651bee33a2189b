"""Tests written once and run for each kind of device and each dtype."""

from __future__ import annotations

import functools
import inspect
import os
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ... import cuda
from ..._core.arrays.dtypes import dtype, float8_e4m3fn, float8_e5m2
from . import _flags
from ._marks import (
    _never,
    skipCUDANonDefaultStreamIf as skipCUDANonDefaultStreamIf,
    skipIfTorchDynamo as skipIfTorchDynamo,
)
from ._missing import missing_in
from ._op_tests import (
    ANY_DTYPE_ORDER as ANY_DTYPE_ORDER,
    OpDTypes as OpDTypes,
    SkipSpec as SkipSpec,
    ops as ops,
    skip as skip,
    skipOps as skipOps,
    xfail as xfail,
)
from ._parametrize import Variant, _no_decorators, add_test, compose_parametrize_fns, dtype_name
from ._test_case import TestCase

ONLY_FOR = PYTORCH_TESTING_DEVICE_ONLY_FOR_KEY = "PYTORCH_TESTING_DEVICE_ONLY_FOR"
EXCEPT_FOR = PYTORCH_TESTING_DEVICE_EXCEPT_FOR_KEY = "PYTORCH_TESTING_DEVICE_EXCEPT_FOR"
NATIVE_DEVICES = _flags.NATIVE_DEVICES


class DeviceTypeTestBase(TestCase):
    """What the classes made for one kind of device have in common."""

    device_type = "generic_device_type"

    @classmethod
    def get_primary_device(cls) -> str:
        """The device that tests get."""
        return cls.device_type

    @classmethod
    def get_all_devices(cls) -> list[str]:
        """All devices of the kind, the primary one first."""
        return [cls.get_primary_device()]

    @classmethod
    def _add_variants(cls, name: str, test: Any, generic_cls: type) -> None:
        variants = _dtype_variants
        if hasattr(test, "parametrize_fn"):
            variants = compose_parametrize_fns(_dtype_variants, test.parametrize_fn)
        for fn, suffix, arguments, of in variants(test, generic_cls, cls):
            kinds = arguments.pop("__dtypes__", None)
            parts = [name, _without_dtypes(suffix, kinds), cls.device_type, *map(dtype_name, kinds or ())]
            full = "_".join(p for p in parts if p)
            add_test(cls, full, _on_device(fn, test, kinds), arguments, of)


class CPUTestBase(DeviceTypeTestBase):
    """Tests on the CPU."""

    device_type = "cpu"


class CUDATestBase(DeviceTypeTestBase):
    """Tests on GPUs."""

    device_type = "cuda"

    @classmethod
    def get_primary_device(cls) -> str:
        return "cuda:0"

    @classmethod
    def get_all_devices(cls) -> list[str]:
        return [f"cuda:{i}" for i in range(cuda.device_count())]


def _without_dtypes(suffix: str, kinds: Sequence[dtype] | None) -> str:
    return suffix.replace(_DTYPES, "").strip("_").replace("__", "_") if kinds else suffix


_DTYPES = "<dtypes>"
"""Holds the place of the dtypes in a suffix: they come last, after the device."""


def _dtype_variants(test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
    """One variant for each dtype, or set of dtypes, that a test asks for on the device."""
    asked = getattr(test, "dtypes", None)
    if asked is None:
        yield test, "", {}, _no_decorators
        return
    groups = asked.get(device_cls.device_type, asked.get("all"))
    if groups is None:
        raise RuntimeError(
            f"{test.__name__}: no dtypes are given for {device_cls.device_type}, and none for all devices"
        )
    for group in groups:
        several = isinstance(group, list | tuple)
        kinds = tuple(group) if several else (group,)
        arguments = {"dtypes": kinds} if several else {"dtype": group}
        yield test, _DTYPES, {**arguments, "__dtypes__": kinds}, _no_decorators


def _on_device(fn: Any, test: Any, kinds: Sequence[dtype] | None) -> Any:
    """A test that gets its device, and runs with the precision asked for its dtypes."""
    fewest = getattr(test, "num_required_devices", None)
    takes_device = _takes_device(test, fewest)

    @functools.wraps(fn)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.precision, self.rel_tol
        # Rows of tables mark single variants, hence the method and not the test that it was made from.
        method = getattr(self, self._testMethodName, test)
        precisions = getattr(method, "precision_overrides", {})
        tolerances = getattr(method, "tolerance_overrides", {})
        for kind in kinds or ():
            self.precision = precisions.get(kind, self.precision)
            if kind in tolerances:
                self.precision, self.rel_tol = tolerances[kind]
        try:
            if fewest is not None:
                devices = self.get_all_devices()
                if len(devices) < fewest:
                    raise unittest.SkipTest(f"fewer than {fewest} devices detected")
                return fn(self, devices, *args, **kwargs)
            where = (self.get_primary_device(),) if takes_device else ()
            return fn(self, *where, *args, **kwargs)
        finally:
            self.precision, self.rel_tol = before

    return run


def _takes_device(test: Any, fewest: int | None) -> bool:
    names = list(inspect.signature(test).parameters)
    if fewest is None and "device" not in names and len(names) < 2:
        raise RuntimeError(f"{test.__name__}: a test for devices takes an argument `device`")
    return True


def get_device_type_test_bases() -> list[type[DeviceTypeTestBase]]:
    """The classes for the kinds of devices that this machine has."""
    return [CPUTestBase, CUDATestBase] if cuda.is_available() else [CPUTestBase]


def _listed(variable: str) -> list[str]:
    return [d.strip() for d in os.environ.get(variable, "").split(",") if d.strip()]


def get_desired_device_type_test_bases(
    except_for: Any = None,
    only_for: Any = None,
    include_lazy: bool = False,
    allow_mps: bool = False,
    allow_xpu: bool = False,
) -> list[type[DeviceTypeTestBase]]:
    """Those of the classes that are asked for, by the arguments and by the environment."""
    only = _as_list(only_for) or None
    excepted = _as_list(except_for)
    from_outside = _listed(ONLY_FOR)
    return [
        base
        for base in get_device_type_test_bases()
        if base.device_type not in excepted
        and (only is None or base.device_type in only)
        and (not from_outside or base.device_type in from_outside)
        and base.device_type not in _listed(EXCEPT_FOR)
    ]


def _as_list(given: Any) -> list[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


def instantiate_device_type_tests(
    generic_test_class: type,
    scope: dict[str, Any],
    except_for: Any = None,
    only_for: Any = None,
    include_lazy: bool = False,
    allow_mps: bool = False,
    allow_xpu: bool = False,
) -> None:
    """Make a class of tests for each kind of device, out of one whose tests take a `device`.

    Args:
        generic_test_class: the class; it is taken out of the scope, so that it does not run itself.
        scope: where the classes go, mostly `globals()`.
        except_for: kinds of devices to leave out.
        only_for: the only kinds of devices to make classes for.
        include_lazy: accepted; there are no lazy tensors.
        allow_mps: accepted; there is no MPS.
        allow_xpu: accepted; there is no XPU.
    """
    scope.pop(generic_test_class.__name__, None)
    # Methods of the base classes stay where they are; tests of parents are instantiated too.
    tests = {
        name: getattr(generic_test_class, name)
        for name in dir(generic_test_class)
        if name.startswith("test") and callable(getattr(generic_test_class, name))
    }
    members = {k: v for k, v in vars(generic_test_class).items() if not _is_machinery(k)}
    plain = {k: v for k, v in members.items() if k not in tests}
    helpers = type(generic_test_class.__name__, generic_test_class.__bases__, plain)
    _move_super(generic_test_class, helpers)
    for base in get_desired_device_type_test_bases(except_for, only_for, include_lazy, allow_mps, allow_xpu):
        name = generic_test_class.__name__ + base.device_type.upper()
        made: Any = type(name, (base, helpers), {"__module__": generic_test_class.__module__})
        made.__qualname__ = name
        for key, value in vars(made).items():
            assert not key.startswith("test"), value
        for inherited in tests:
            if inherited not in members:
                setattr(made, inherited, None)  # a parent's own copy would run without a device
        for test_name, test in tests.items():
            made._add_variants(test_name, test, generic_test_class)
        scope[name] = made


def _is_machinery(name: str) -> bool:
    return name in ("__dict__", "__weakref__", "__module__", "__qualname__")


def _move_super(old: type, new: type) -> None:
    """`super()` inside of the methods looks for its class in a cell: it has to find the new one."""
    for value in vars(new).values():
        fn = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        for cell in getattr(fn, "__closure__", None) or ():
            if cell.cell_contents is old:
                cell.cell_contents = new


# --- marks on tests -------------------------------------------------------------------------------


class dtypes:
    """The dtypes that a test runs with, on all devices or those of one kind.

    Args:
        *args: dtypes, for an argument `dtype`, or tuples of them, for an argument `dtypes`.
        device_type: the kind of devices that this is about.
    """

    def __init__(self, *args: Any, device_type: str = "all") -> None:
        if args and isinstance(args[0], list | tuple):
            wrong = [g for g in args if not isinstance(g, list | tuple)]
        else:
            wrong = [d for d in args if not isinstance(d, dtype)]
        if wrong:
            raise AssertionError(f"@dtypes takes dtypes, or else tuples of dtypes, but got {wrong[0]!r}")
        self.args, self.device_type = args, device_type

    def __call__(self, fn: Any) -> Any:
        known = dict(getattr(fn, "dtypes", {}))
        if self.device_type in known:
            raise AssertionError(f"dtypes are given twice for {self.device_type}")
        fn.dtypes = {**known, self.device_type: self.args}
        return fn


class dtypesIfCPU(dtypes):
    """The dtypes that a test runs with on the CPU."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="cpu")


class dtypesIfCUDA(dtypes):
    """The dtypes that a test runs with on GPUs."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="cuda")


class dtypesIfMPS(dtypes):
    """The dtypes that a test runs with on MPS, which there is none of here."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="mps")


class dtypesIfXPU(dtypes):
    """The dtypes that a test runs with on XPUs, which there are none of here."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="xpu")


class dtypesIfHPU(dtypes):
    """The dtypes that a test runs with on HPUs."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="hpu")


class dtypesIfPRIVATEUSE1(dtypes):
    """The dtypes that a test runs with on devices of others."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="privateuse1")


class tol(NamedTuple):
    """An absolute and a relative tolerance."""

    atol: float
    rtol: float


class precisionOverride:
    """Least absolute tolerances of a test, by dtype."""

    def __init__(self, d: dict[dtype, float]) -> None:
        self.d = d

    def __call__(self, fn: Any) -> Any:
        fn.precision_overrides = self.d
        return fn


class toleranceOverride:
    """Least tolerances of a test, by dtype."""

    def __init__(self, d: dict[dtype, tol]) -> None:
        self.d = d

    def __call__(self, fn: Any) -> Any:
        fn.tolerance_overrides = self.d
        return fn


class deviceCountAtLeast:
    """A test that gets all devices as `devices` and is skipped if there are fewer."""

    def __init__(self, num_required_devices: int) -> None:
        self.num_required_devices = num_required_devices

    def __call__(self, fn: Any) -> Any:
        fn.num_required_devices = self.num_required_devices
        return fn


def _checked(fn: Any, why_not: Callable[[Any], str | None]) -> Any:
    """The test, skipped on devices that there is a reason against."""

    @functools.wraps(fn)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        reason = why_not(self)
        if reason:
            raise unittest.SkipTest(reason)
        return fn(self, *args, **kwargs)

    return checked


class skipIf:
    """Skip on one kind of device, or all, if a condition holds.

    Args:
        dep: the condition, or the name of an attribute of the test case that holds it.
        reason: what is shown.
        device_type: the kind of device, or None for all.
    """

    def __init__(self, dep: Any, reason: str, device_type: str | None = None) -> None:
        self.dep, self.reason, self.device_type = dep, reason, device_type

    def __call__(self, fn: Any) -> Any:
        return _checked(fn, self._why_not)

    def _why_not(self, test: Any) -> str | None:
        if self.device_type is not None and self.device_type != test.device_type:
            return None
        holds = getattr(test, self.dep, True) if isinstance(self.dep, str) else self.dep
        return self.reason if holds else None


def _skip_on(kind: str) -> Callable[[Any, str], skipIf]:
    def mark(dep: Any, reason: str) -> skipIf:
        return skipIf(dep, reason, device_type=kind)

    mark.__doc__ = f"Skip on {kind} if the condition holds."
    return mark


skipCPUIf, skipCUDAIf, skipMPSIf = _skip_on("cpu"), _skip_on("cuda"), _skip_on("mps")
skipXPUIf, skipHPUIf, skipMetaIf = _skip_on("xpu"), _skip_on("hpu"), _skip_on("meta")
skipXLAIf, skipLazyIf, skipPRIVATEUSE1If = (_skip_on("xla"), _skip_on("lazy"), _skip_on("privateuse1"))
skipGPUIf = skipCUDAIf


def _nowhere(fn: Any) -> Any:
    """A mark about something that is never missing here, or about devices that there are none of."""
    return fn


skipMeta = skipXLA = skipLazy = skipMPS = skipXPU = skipHPU = skipPRIVATEUSE1 = _nowhere
skipCPUIfNoLapack = skipCPUIfNoFFT = skipCUDAIfMiopen = _nowhere
skipCUDAIfRocm = _never
skipCUDAIfNoMagma = skipCUDAIfNoCusolver = skipCUDAIfNoMagmaAndNoCusolver = _nowhere
skipCUDAIfNoMagmaAndNoLinalgsolver = skipCUDAIfNoCusolverROCMIfNoMagma = _nowhere
disablecuDNN = disableMkldnn = _nowhere
skipCPUIfNoMkl = skipCPUIf(not _flags.TEST_MKL, "PyTorch is built without MKL support")
skipCPUIfNoMkldnn = skipCPUIf(True, "there is no mkldnn")
skipCUDAIfNoCudnn = skipCUDAIf(not _flags.TEST_CUDNN, "cuDNN not available")
skipCUDAVersionIn = skipCUDAIfVersionLessThan = skipCUDAIfRocmVersionLessThan = _never
skipCUDAIfRocmHipBlasltVersionLessThan = skipCUDAIfCudnnVersionLessThan = _never
flex_attention_supported_platform = _nowhere
skipCPUIfNoMklSparse = skipCPUIf(True, "there are no sparse tensors")
skipCUDAIfNoSparseGeneric = skipCUDAIf(True, "there are no sparse tensors")
skipCUDAIfNoCusparseGeneric = skipCUDAIfNoHipsparseGeneric = skipCUDAIfNoSparseGeneric
skipCUDAIfNoMiopen = skipCUDAIfNotMiopenSuggestNHWC = skipCUDAIf(True, "MIOpen is not available")
skipCUDAIfNotRocm = skipCUDAIf(True, "not a ROCm build")


class expectedFailure:
    """A test that has to fail on one kind of device."""

    def __init__(self, device_type: str) -> None:
        self.device_type = device_type

    def __call__(self, fn: Any) -> Any:
        @functools.wraps(fn)
        def fails(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if self.device_type not in (None, self_.device_type):
                return fn(self_, *args, **kwargs)
            try:
                fn(self_, *args, **kwargs)
            except unittest.SkipTest:
                raise
            except Exception:  # any failure is the expected one
                return None
            raise AssertionError("expected test to fail, but it passed")

        return fails


expectedFailureCPU, expectedFailureCUDA = expectedFailure("cpu"), expectedFailure("cuda")
expectedFailureMPS, expectedFailureXPU = expectedFailure("mps"), expectedFailure("xpu")
expectedFailureHPU, expectedFailureMeta = expectedFailure("hpu"), expectedFailure("meta")
expectedFailureXLA = expectedFailure("xla")
expectedFailureMPSPre14 = expectedFailureMPSPre15 = expectedFailureMPSComplex = expectedFailureMPS


class onlyOn:
    """A test for some kinds of devices only."""

    def __init__(self, device_type: str | Iterable[str]) -> None:
        self.device_types = _as_list(device_type)

    def __call__(self, fn: Any) -> Any:
        return _checked(
            fn,
            lambda test: (
                None if test.device_type in self.device_types else f"Only runs on {', '.join(self.device_types)}"
            ),
        )


onlyCPU, onlyCUDA, onlyMPS = onlyOn("cpu"), onlyOn("cuda"), onlyOn("mps")
onlyXPU, onlyHPU, onlyPRIVATEUSE1 = onlyOn("xpu"), onlyOn("hpu"), onlyOn("privateuse1")
onlyCUDAAndPRIVATEUSE1 = onlyOn(("cuda", "privateuse1"))


def onlyNativeDeviceTypes(fn: Any) -> Any:
    """A test for the kinds of devices that torch itself knows."""
    return onlyNativeDeviceTypesAnd()(fn)


def onlyNativeDeviceTypesAnd(devices: Any = None) -> Callable[[Any], Any]:
    """A test for the kinds of devices that torch itself knows, and the given ones."""
    allowed = (*NATIVE_DEVICES, *_as_list(devices))
    return lambda fn: _checked(
        fn,
        lambda test: (
            None if test.device_type in allowed else f"onlyNativeDeviceTypes: doesn't run on {test.device_type}"
        ),
    )


def onlyAccelerator(fn: Any) -> Any:
    """A test that does not run on the CPU."""
    return _checked(
        fn,
        lambda test: (
            "onlyAccelerator: doesn't run on CPU or meta devices" if test.device_type in ("cpu", "meta") else None
        ),
    )


def largeTensorTest(size: int | str, device: Any = None, inductor: bool = True) -> Callable[[Any], Any]:
    """A test that needs this much memory, in bytes or as "12GB"; it is skipped where there is less."""
    if isinstance(size, str):
        if not size.upper().endswith("GB"):
            raise AssertionError(f"only bytes or GB supported, got {size!r}")
        size = int(float(size[:-2]) * 1024**3)
    return lambda fn: _checked(fn, lambda test: _too_little(int(size), device or test.device_type))


def _too_little(size: int, device: Any) -> str | None:
    if str(device).startswith("cuda"):
        free = cuda.mem_get_info()[0] if cuda.is_available() else 0
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"Insufficient {device} memory" if free < size else None


def get_all_device_types() -> list[str]:
    """The kinds of devices of this machine."""
    return [base.device_type for base in get_device_type_test_bases()]


def filter_desired_device_types(
    device_type_test_bases: Sequence[Any], except_for: Any = None, only_for: Any = None
) -> list[Any]:
    """Those of the classes whose kind of device is asked for."""
    only, excepted = _as_list(only_for) or None, _as_list(except_for)
    return [
        b for b in device_type_test_bases if b.device_type not in excepted and (only is None or b.device_type in only)
    ]


def has_cusolver() -> bool:
    """Whether cuSOLVER is there, which comes with XLA's GPU kernels."""
    return _flags.TEST_CUDA


def has_hipsolver() -> bool:
    """There is no ROCm."""
    return False


device_type_test_bases = get_device_type_test_bases()
GPU_TYPES = ["cuda", "mps", "xpu", "mtia"]
PYTORCH_CUDA_MEMCHECK = lazy_ts_backend_init = False
e4m3_type, e5m2_type = float8_e4m3fn, float8_e5m2
E4M3_MAX_POS, E5M2_MAX_POS = 448.0, 57344.0

__getattr__ = missing_in("common_device_type")
