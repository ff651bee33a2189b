"""Process-wide settings of torch that scripts touch at their start, and what they mean on XLA."""

from __future__ import annotations

import os
from typing import Any

import jax

from ._bridge.compile.watch.guards import AMBIENT
from ._core.builtin_functions import builtin
from ._core.errors import warn
from ._core.jax import products
from ._core.state import SETTINGS

_PRECISIONS = {"highest": "highest", "high": "high", "medium": "default"}
_kept: dict[str, Any] = {"precision": SETTINGS.float32_products, "threads": None, "interop": None}
AMBIENT.append(_kept)


def _count(n: Any, name: str) -> int:
    if isinstance(n, bool) or not isinstance(n, int):
        raise RuntimeError(f"{name} expects an int, but got {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"{name} expects a positive integer")
    return n


@builtin
def get_num_threads() -> int:
    """The number last set, or the cores of the machine."""
    return _kept["threads"] or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@builtin
def set_num_threads(int: int) -> None:
    """Remember a number for `get_num_threads`.

    Differs from torch: XLA sizes its pool of threads when it starts, so that only the environment (CPU
    affinity) decides how many threads work. Results do not depend on it.
    """
    _kept["threads"] = _count(int, "set_num_threads")


@builtin
def get_num_interop_threads() -> int:
    """The number last set, or the cores of the machine."""
    return _kept["interop"] or get_num_threads()


@builtin
def set_num_interop_threads(int: int) -> None:
    """Remember a number for `get_num_interop_threads`; see `set_num_threads`."""
    _kept["interop"] = _count(int, "set_num_interop_threads")


def get_float32_matmul_precision() -> str:
    """How exact products of float32 matrices are: "highest", "high" or "medium"."""
    return _kept["precision"]


def set_float32_matmul_precision(precision: str) -> None:
    """Choose how exact products of float32 matrices are.

    "highest" is float32 all the way; "high" and "medium" let accelerators use faster, coarser formats, for
    convolutions and attention too. It also sets JAX's default precision, which functions given to `from_jax` follow.
    On CPU all are the same.
    """
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in _PRECISIONS:
        warn.to_user(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect."
        )
        return
    _kept["precision"] = precision
    products.set_float32(precision)
    jax.config.update("jax_default_matmul_precision", _PRECISIONS[precision])


@builtin
def set_flush_denormal(mode: bool) -> bool:
    """False, as torch says where there is no such switch: XLA decides which kernels flush subnormal numbers."""
    return False


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: nothing, a warning or an error for operations that are not deterministic."""
    if not SETTINGS.deterministic:
        return 0
    return 1 if SETTINGS.deterministic_warn_only else 2


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Choose between nothing, a warning and an error for operations that are not deterministic."""
    names = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = names[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    SETTINGS.deterministic, SETTINGS.deterministic_warn_only = debug_mode > 0, debug_mode == 1


def set_vital(*args: Any) -> None:
    """Nothing, as in torch, which says so, too."""
    warn.to_user("'set_vital' is deprecated, please do not call")


def compiled_with_cxx11_abi() -> bool:
    """True: what C++ extensions would have to match; there are none here."""
    return True


@builtin
def is_vulkan_available() -> bool:
    """False: there is no Vulkan backend."""
    return False
