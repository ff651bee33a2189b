"""torch.utils.collect_env: what a report of a bug should say about the machine and its software.

Example:
    >>> from torchgrad_jax.utils import collect_env
    >>> collect_env.get_env_info().torch_version.startswith("2.")
    True
"""

from __future__ import annotations

import importlib.metadata
import locale
import os
import platform
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import jax

from .. import version

_FIELDS = {
    "torch_version": "PyTorch version", "is_debug_build": "Is debug build",
    "cuda_compiled_version": "CUDA used to build PyTorch", "hip_compiled_version": "ROCM used to build PyTorch",
    "os": "OS", "gcc_version": "GCC version", "clang_version": "Clang version", "cmake_version": "CMake version",
    "libc_version": "Libc version", "python_version": "Python version", "python_platform": "Python platform",
    "is_cuda_available": "Is CUDA available", "cuda_runtime_version": "CUDA runtime version",
    "cuda_module_loading": "CUDA_MODULE_LOADING set to", "nvidia_gpu_models": "GPU models and configuration",
    "nvidia_driver_version": "Nvidia driver version", "cudnn_version": "cuDNN version",
    "is_xpu_available": "Is XPU available", "hip_runtime_version": "HIP runtime version",
    "miopen_runtime_version": "MIOpen runtime version", "is_xnnpack_available": "Is XNNPACK available",
    "cpu_info": "CPU", "jax_version": "JAX version", "jax_devices": "JAX devices",
    "pip_packages": "Versions of relevant libraries",
}  # fmt: skip
"""What is told, in the order of the report."""
SystemEnv = namedtuple("SystemEnv", list(_FIELDS))
DEFAULT_PIP_PATTERNS = frozenset({"torch", "numpy", "jax", "jaxlib", "mypy", "triton", "optree", "onnx"})


def run(command: Any) -> tuple[int, str, str]:
    """The exit status, the output and the complaints of a command."""
    shell = isinstance(command, str)
    done = subprocess.run(command, shell=shell, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def run_and_read_all(run_lambda: Callable[[Any], Any], command: Any) -> str | None:
    """The output of a command; None if it fails."""
    status, out, _ = run_lambda(command)
    return None if status else out


def _first_line(command: str, *options: str) -> str | None:
    if shutil.which(command) is None:
        return None
    out = run_and_read_all(run, [command, *options])
    return out.splitlines()[0] if out else None


def get_pip_packages(run_lambda: Any = run, patterns: Any = None) -> tuple[str, str]:
    """The command that lists packages, and those of them that matter here."""
    wanted = DEFAULT_PIP_PATTERNS if patterns is None else patterns
    rows = {
        f"{d.name}=={d.version}"
        for d in importlib.metadata.distributions()
        if d.name and any(p in d.name.lower() for p in wanted)
    }
    return "pip3", "\n".join(sorted(rows, key=str.lower))


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"] + f" ({platform.machine()})"
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()} ({platform.machine()})"


def get_env_info() -> Any:
    """What the report says, by field; None is what could not be found out."""
    from .. import cuda

    gpus = [d.device_kind for d in jax.local_devices()] if cuda.is_available() else []
    known: dict[str, Any] = {
        "torch_version": f"{version.torch}+torchgrad.jax {version.__version__}",
        "is_debug_build": str(version.debug),
        "cuda_compiled_version": version.cuda,
        "hip_compiled_version": version.hip,
        "os": _os_name(),
        "gcc_version": _first_line("gcc", "--version"),
        "clang_version": _first_line("clang", "--version"),
        "cmake_version": _first_line("cmake", "--version"),
        "libc_version": "-".join(platform.libc_ver()),
        "python_version": f"{sys.version} ({sys.maxsize.bit_length() + 1}-bit runtime)".replace("\n", " "),
        "python_platform": platform.platform(),
        "is_cuda_available": str(bool(gpus)),
        "cuda_module_loading": os.environ.get("CUDA_MODULE_LOADING", "N/A"),
        "nvidia_gpu_models": "\n".join(f"GPU {i}: {kind}" for i, kind in enumerate(gpus)) or None,
        "is_xpu_available": "False",
        "is_xnnpack_available": "False",
        "cpu_info": platform.processor() or platform.machine(),
        "jax_version": jax.__version__,
        "jax_devices": ", ".join(map(str, jax.local_devices())),
        "pip_packages": get_pip_packages()[1],
    }
    return SystemEnv(**{name: known.get(name) for name in _FIELDS})


def pretty_str(envinfo: Any) -> str:
    """The report as text."""

    def shown(value: Any) -> str:
        if value is None:
            return "Could not collect"
        return f"\n{value}" if "\n" in str(value) else str(value)

    lines = []
    for name, title in _FIELDS.items():
        if name in ("os", "python_version", "cpu_info", "pip_packages"):
            lines.append("")
        value = getattr(envinfo, name)
        if name.endswith("compiled_version") and value is None:
            value = "N/A"
        lines.append(f"{title}: {shown(value)}")
    return "\n".join(lines)


def get_pretty_env_info() -> str:
    """`get_env_info` as text.

    Example:
        >>> from torchgrad_jax.utils import collect_env
        >>> "JAX version: " in collect_env.get_pretty_env_info()
        True
    """
    return pretty_str(get_env_info())


def main() -> None:
    """Print the report."""
    locale.setlocale(locale.LC_ALL, "")
    sys.stdout.write("Collecting environment information...\n" + get_pretty_env_info() + "\n")


if __name__ == "__main__":
    main()
