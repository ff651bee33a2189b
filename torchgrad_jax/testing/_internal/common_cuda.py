"""What tests ask about GPUs."""

from __future__ import annotations

import contextlib
import functools
import unittest
from collections.abc import Callable, Generator
from typing import Any

from ... import cuda
from ..._engine.entry.bind import NAMESPACES
from ..._settings import get_float32_matmul_precision, set_float32_matmul_precision
from ._flags import (
    TEST_CUDA as TEST_CUDA,
    TEST_CUDNN as TEST_CUDNN,
    TEST_MAGMA as TEST_MAGMA,
    TEST_MULTIGPU as TEST_MULTIGPU,
)
from ._missing import missing_in

TEST_CUDNN_VERSION = 0
CUDA_DEVICE = "cuda:0" if TEST_CUDA else None


def _capability() -> tuple[int, int]:
    return tuple(cuda.get_device_capability()) if TEST_CUDA else (0, 0)  # type: ignore[return-value]


SM53OrLater = _capability() >= (5, 3)
SM60OrLater = _capability() >= (6, 0)
SM70OrLater = _capability() >= (7, 0)
SM75OrLater = _capability() >= (7, 5)
SM80OrLater = _capability() >= (8, 0)
SM89OrLater = _capability() >= (8, 9)
SM90OrLater = _capability() >= (9, 0)
SM100OrLater = _capability() >= (10, 0)
SM120OrLater = _capability() >= (12, 0)
IS_SM89, IS_SM90 = _capability() == (8, 9), _capability() == (9, 0)
IS_SM100, IS_SM10X, IS_SM12X = (_capability() == (10, 0), _capability()[0] == 10, _capability()[0] == 12)
IS_JETSON = IS_THOR = TEST_CUSPARSE_GENERIC = TEST_HIPSPARSE_GENERIC = TEST_NUMBA_CUDA = False
CUDA_ALREADY_INITIALIZED_ON_IMPORT = False
# XLA compiles attention and products itself: no library of kernels is there to be chosen.
PLATFORM_SUPPORTS_FLASH_ATTENTION = PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = False
PLATFORM_SUPPORTS_FUSED_ATTENTION = PLATFORM_SUPPORTS_FUSED_SDPA = PLATFORM_SUPPORTS_CK_SDPA = False
PLATFORM_SUPPORTS_CUDNN_ATTENTION = PLATFORM_SUPPORTS_GREEN_CONTEXT = PLATFORM_SUPPORTS_FP8 = False
PLATFORM_SUPPORTS_FP8_GROUPED_GEMM = PLATFORM_SUPPORTS_FP8_SPARSE = PLATFORM_SUPPORTS_MX_GEMM = False
PLATFORM_SUPPORTS_MXFP8_GROUPED_GEMM = PLATFORM_SUPPORTS_WORKQUEUE_CONFIG = False
PLATFORM_SUPPORTS_HALF_ATOMICS = PLATFORM_SUPPORTS_BF16_ATOMICS = SM80OrLater
TEST_BF16 = SM80OrLater
PLATFORM_SUPPORTS_BF16 = SM80OrLater


def tf32_is_not_fp32() -> bool:
    """Whether the GPU would round products of float32 to fewer bits."""
    return SM80OrLater


@contextlib.contextmanager
def tf32_off() -> Generator[None, None, None]:
    """Compute products of float32 in float32 inside of the block."""
    before = get_float32_matmul_precision()
    set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        set_float32_matmul_precision(before)


def with_tf32_off(fn: Any) -> Any:
    """A test whose products of float32 are computed in float32."""

    @functools.wraps(fn)
    def exact(*args: Any, **kwargs: Any) -> Any:
        with tf32_off():
            return fn(*args, **kwargs)

    return exact


def tf32_on_and_off(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """A test that torch runs with and without tf32, with wider tolerances; it runs once, without."""
    del args, kwargs
    return with_tf32_off


@contextlib.contextmanager
def tf32_on(self: Any, tf32_precision: float = 1e-5) -> Generator[None, None, None]:
    """Let products of float32 be rounded to fewer bits inside of the block, for a test that allows for it."""
    before, precision = get_float32_matmul_precision(), self.precision
    set_float32_matmul_precision("high")
    self.precision = tf32_precision
    try:
        yield
    finally:
        set_float32_matmul_precision(before)
        self.precision = precision


@contextlib.contextmanager
def tf32_enabled() -> Generator[None, None, None]:
    """Let products of float32 be rounded to fewer bits inside of the block."""
    before = get_float32_matmul_precision()
    set_float32_matmul_precision("high")
    try:
        yield
    finally:
        set_float32_matmul_precision(before)


@contextlib.contextmanager
def blas_library_context(backend: Any) -> Generator[None, None, None]:
    """Refused: XLA alone computes products.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"blas_library_context({backend!r}): XLA alone computes products")
    yield


def initialize_cuda_context_rng() -> None:
    """Nothing to initialize: JAX starts its devices itself."""
    if not TEST_CUDA:
        raise AssertionError("CUDA must be available when calling initialize_cuda_context_rng")


def _get_torch_cuda_version() -> tuple[int, int]:
    """No version of CUDA's toolkit is compiled in."""
    return (0, 0)


_get_torch_rocm_version = _get_magma_version = _get_torch_cuda_version


def CDNA2OrLater() -> bool:
    """There is no ROCm."""
    return False


CDNA3OrLater = CDNA2OrLater


def _fails_on(condition: bool) -> Callable[[Any], Any]:
    return lambda fn: unittest.expectedFailure(fn) if condition else fn


xfailIfSM89, xfailIfSM90 = _fails_on(IS_SM89), _fails_on(IS_SM90)
xfailIfSM89PreCUDA13 = xfailIfSM89
xfailIfSM100OrLater, xfailIfSM120OrLater = _fails_on(SM100OrLater), _fails_on(SM120OrLater)
xfailIfSM12X = _fails_on(IS_SM12X)


def _create_scaling_models_optimizers(
    device: Any = "cuda", optimizer_ctor: Any = None, optimizer_kwargs: Any = None
) -> tuple[Any, ...]:
    """Two equal models, each with an optimizer, for tests of scaled losses."""
    from ... import nn, optim

    def model() -> Any:
        return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to(device=device)

    control, scaled = model(), model()
    scaled.load_state_dict(control.state_dict())
    made = optimizer_ctor or optim.SGD
    options = {"lr": 1.0, **(optimizer_kwargs or {})}
    return (control, scaled, made(control.parameters(), **options), made(scaled.parameters(), **options))


def _create_scaling_case(
    device: Any = "cuda", dtype: Any = None, optimizer_ctor: Any = None, optimizer_kwargs: Any = None
) -> tuple[Any, ...]:
    """The models and optimizers, with data, a loss, and the step that finds an infinity."""
    from ... import nn
    from ..._core.arrays.dtypes import float32

    randn = NAMESPACES[""]["randn"]

    def batch() -> Any:
        return randn((8, 8), dtype=dtype or float32, device=device)

    data = [(batch(), batch()) for _ in range(4)]
    made = _create_scaling_models_optimizers(device, optimizer_ctor, optimizer_kwargs)
    return (*made, data, nn.MSELoss().to(device=device), 2)


__getattr__ = missing_in("common_cuda")
