"""Extensions in C++ and CUDA, which are compiled against torch: there is nothing to compile them against."""

from __future__ import annotations

from typing import Any, NoReturn

CUDA_HOME = ROCM_HOME = None
IS_HIP_EXTENSION = False


def _refused(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torch.utils.cpp_extension.{name}() is not supported: C++ extensions are compiled against torch itself "
            "(see docs/non_goals.md); torch.library registers operators written in Python, from_jax takes JAX functions"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused."
    return refuse


load, load_inline = _refused("load"), _refused("load_inline")
CppExtension, CUDAExtension = _refused("CppExtension"), _refused("CUDAExtension")
SyclExtension, include_paths = _refused("SyclExtension"), _refused("include_paths")
BuildExtension = _refused("BuildExtension")


def is_ninja_available() -> bool:
    """False: nothing is built."""
    return False
