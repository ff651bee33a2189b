"""What tests ask about GPUs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from typing import Any

from ... import cuda
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


__getattr__ = missing_in("common_cuda")
