"""Raises wherever JAX narrows a type of 64 bits for this package, in tests: their JAX has 32 bits, as a user's has.

In such a process a call of JAX that the package forgot to make with 64-bit types computes in float32, and nobody
notices. JAX asks its setting wherever it may narrow a type. So the setting is watched: if it is off, and the code that
called JAX is the package's and not the user's, then that call was forgotten.
"""

import sys
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import config, dtypes

import torchgrad_jax as tg
from torchgrad_jax._core.jax import x64

OURS = str(Path(tg.__file__).parent)
_NARROW = ("int64", "uint64", "float64", "complex128")
_OF_LIBRARIES = (
    "/tests/narrowing.py",
    "/jax/",
    "/jaxlib/",
    "/contextlib.py",
    "/functools.py",
    "/numpy/",
    "<frozen",
    "<__array_function__",
)
_CROSSING = (
    "/_core/jax/x64.py",
    "/_core/arrays/transfer.py",
    "/_engine/tensor/values.py",
    "/jax_side/modules.py",
    "/jax_side/trees.py",
    "/torchgrad_jax/interop/__init__.py",
    "/torchgrad_jax/__init__.py",
)
"""Files whose functions give the user's JAX code what a tensor holds."""
_AS_A_PROGRAM = "/testing/_jax_side.py"
"""The module that runs JAX code of the user's as the user's program does, with the types that JAX has there."""
_PASSES_ON = {
    ("own_kernels.py", "lower_jit"), ("own_kernels.py", "apply_rule"), ("interop.py", "pure"),
    ("x64.py", "run_as_host"), ("x64.py", "call_for_host"), ("x64.py", "narrowed_tree"),
    ("x64.py", "narrowed_for_host"),
}  # fmt: skip
"""Functions that call JAX for the program around: its own kernels are lowered through `lower_jit`."""
_MAY_ASK = (
    "promote_types", "lattice_result_type", "_int_aval", "<lambda>", "scalar_type_to_dtype", "lower_jaxpr_to_fun",
    "_emit_lowering_rule_as_fun",
)  # fmt: skip
"""Functions of JAX's that narrow no array: of Python's numbers, of promoted types, which are asked for again, and of
symbols for sizes."""


class NarrowedTypes(BaseException):
    """JAX would narrow a type of 64 bits in code of the package. No `except Exception` may hide that."""


class _Watched:
    """The setting `jax_enable_x64`, which looks at who asks."""

    def __init__(self, state: Any) -> None:
        self._state = state

    @property
    def value(self) -> Any:
        """Whether 64-bit types are on."""
        found = self._state.value
        if not found:
            _look(sys._getframe(1))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def __call__(self, *args: Any) -> Any:
        return self._state(*args)


def _look(asking: types.FrameType) -> None:
    name, at = asking.f_code.co_name, asking.f_locals
    around = asking.f_back
    by = "" if around is None else around.f_code.co_name
    if around is not None and by == "dtype" and type(around.f_locals["x"]) in (bool, int, float, complex):
        return
    if (
        name in _MAY_ASK
        or by in _MAY_ASK
        or not _is_wide(at.get("dtype", at.get("array", at.get("aval", np.dtype("float64")))))
    ):
        return
    caller = _caller(asking)
    if caller is None:
        return
    where = f"{caller.f_code.co_filename.removeprefix(OURS)}:{caller.f_lineno} in {caller.f_code.co_name}"
    raise NarrowedTypes(f"{name} narrows a type of 64 bits for {where}")


def _canonical(canonicalize: Any) -> Any:
    """JAX's function that makes an array of a value, which looks at who asks; newer versions have it in C++."""

    def canonicalize_value(value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            dtype = value.dtype  # noqa: F841 - what `_look` asks for
            assert config.enable_x64.value in (True, False)
        return canonicalize(value)

    return canonicalize_value


def _is_wide(x: Any) -> bool:
    try:
        return str(np.dtype(x if isinstance(x, type) else getattr(x, "dtype", x))) in _NARROW
    except TypeError:
        return False


def _caller(frame: types.FrameType | None) -> types.FrameType | None:
    """Return the frame of the package that called JAX; None if JAX was called by other code."""
    crossing = frame is not None and frame.f_code.co_filename.endswith(_CROSSING)
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if (file.rpartition("/")[2], name) in _PASSES_ON:
            return None
        if crossing and file.endswith(_CROSSING):
            frame = frame.f_back
        elif file.endswith((_CROSSING[0], _AS_A_PROGRAM)):
            return None
        elif file.startswith((OURS, "<torchgrad")):
            return frame
        elif any(part in file for part in _OF_LIBRARIES):
            frame = frame.f_back
        else:
            return None
    return None


def watch() -> None:
    """Begin to watch."""
    assert x64.IS_GUEST
    config.enable_x64 = _Watched(config.enable_x64)
    x64.X64 = _Watched(x64.X64)
    dtypes.canonicalize_value = _canonical(dtypes.canonicalize_value)
    assert not jax.config.jax_enable_x64
