"""Compiled kernels that outlive the process.

A program for PyTorch starts at once, and its users expect that. To compile a small kernel takes about 20 ms, to read
it from a file 1 ms. JAX keeps such files in a folder that it is told, so this module tells it one, unless the user
has configured something else.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import time
from pathlib import Path

import jax
import jaxlib

VARIABLE = "TORCHGRAD_JAX_CACHE"
LIMIT = 2 << 30
"""Bytes that the folder may hold; what was not used for the longest time goes first."""
_SPARE = 256 << 20
"""Bytes that a disk must have left: a kernel that is cut off where a disk is full could never be read."""
_DAY = 24 * 3600.0
_NEVER = ("", "0", "off", "no")


def keep_kernels() -> Path | None:
    """Tell JAX to keep kernels in a folder.

    Returns:
        The folder. None if JAX was configured already, is not to keep files, or cannot.
    """
    given = os.environ.get(VARIABLE)
    if given is not None and given.lower() in _NEVER:
        return None
    if jax.config.jax_compilation_cache_dir or not jax.config.jax_enable_compilation_cache:
        return None
    folder = (Path(given) if given else _home()) / _machine()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            return None
        _make_room(folder)
        if shutil.disk_usage(folder).free < _SPARE:
            return None
    except (OSError, RuntimeError):
        return None  # without a home, or with a full disk, the program runs without kernel files
    for name, value in (
        ("jax_compilation_cache_dir", str(folder)),
        ("jax_persistent_cache_min_compile_time_secs", 0),
        ("jax_persistent_cache_min_entry_size_bytes", -1),
    ):
        if name.upper() not in os.environ:
            jax.config.update(name, value)
    return folder


def _home() -> Path:
    """The platform's folder for caches."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "torchgrad_jax" / "kernels"


def _machine() -> str:
    """A name for all machines that can run each other's kernels: a home may be shared by several kinds."""
    described = [jaxlib.__version__, platform.machine(), platform.processor()]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            wanted = ("flags", "Features", "model name")
            described += sorted({line for line in file if line.startswith(wanted)})
    except OSError:
        described.append(platform.version())
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]


def _make_room(folder: Path) -> None:
    """Once a day, remove the kernels that were not used for the longest time if there are too many."""
    stamp = folder.parent / "checked"
    now = time.time()
    if stamp.exists() and now - stamp.stat().st_mtime < _DAY:
        return
    stamp.touch()
    files = []
    for path in folder.parent.glob("*/*"):
        try:
            if path.is_file():
                about = path.stat()
                files.append((max(about.st_atime, about.st_mtime), about.st_size, path))
        except FileNotFoundError:
            pass  # another process makes room too
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= LIMIT:
            return
        path.unlink(missing_ok=True)
        total -= size
