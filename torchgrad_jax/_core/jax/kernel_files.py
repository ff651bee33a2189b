"""Compiled kernels that outlive the process.

A program for PyTorch starts at once, and its users expect that. To compile a small kernel takes about 20 ms, to read
it from a file 1 ms. So kernels of this package are kept in a folder of their own. JAX's settings stay as they are, and
what others compile in the same process is kept where JAX is told to keep it, if anywhere. Where JAX had a folder before
this package was imported, it keeps kernels of ours there, too.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jaxlib

from ..signals import contextmanager
from .own_kernels import MODULE, names_kernel
from .private import COMPILATION_CACHE, SMALLEST_FILE, SOONEST_COMPILED, CacheInterface

VARIABLE = "TORCHGRAD_JAX_CACHE"
LIMIT = 2 << 30
"""Bytes that the folder may hold; what was not used for the longest time goes first."""
_SPARE = 256 << 20
"""Bytes that a disk must have left: a kernel that is cut off where a disk is full could never be read."""
_DAY = 24 * 3600.0
_NEVER = ("", "0", "off", "no")


_COMPILES = "/jax/core/compile/backend_compile_duration"
_FOLDER: list[str] = []
"""The folder of this process's kernels, if they have one of their own."""
_FILES: list[_Files] = []
"""The files in it."""


def keep_kernels() -> Path | None:
    """Keep kernels of this package in a folder.

    Returns:
        The folder. None if JAX has one already, is not to keep files, or cannot.
    """
    given = os.environ.get(VARIABLE)
    if given is not None and given.lower() in _NEVER:
        return None
    if jax.config.jax_compilation_cache_dir or not jax.config.jax_enable_compilation_cache:
        return None
    folder = (Path(given) if given else _home()) / machine()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            return None
        _make_room(folder)
        if shutil.disk_usage(folder).free < _SPARE:
            return None
    except (OSError, RuntimeError):
        return None  # without a home, or with a full disk, the program runs without kernel files
    files = _Files(str(folder))
    _FOLDER[:], _FILES[:] = [str(folder)], [files]
    _tell_kernels_apart(files)
    return folder


def folder_of_kernels() -> str | None:
    """Return the folder in which kernels of this package are kept: their own, or JAX's."""
    return _FOLDER[0] if _FOLDER else jax.config.jax_compilation_cache_dir


def used_kernels() -> Iterator[tuple[str, bytes]]:
    """Give the kernels that this process has compiled or read from files, each with its key.

    Where JAX keeps them in a folder of the user's, those are all kernels of this package in there: JAX does not tell
    which of them it has read.
    """
    if _FILES:
        files = _FILES[0]
        for key in list(files.used):
            value = files.get(key)
            if value is not None:  # somebody may have emptied the folder
                yield key, value
    elif folder := jax.config.jax_compilation_cache_dir:
        for path in sorted(Path(folder).glob(f"{MODULE}*{_SUFFIX}")):
            yield path.name.removesuffix(_SUFFIX), path.read_bytes()


def add_kernel(key: str, value: bytes) -> bool:
    """Put a kernel that was compiled elsewhere among the files of this process; False if it keeps none."""
    folder = jax.config.jax_compilation_cache_dir
    files = _FILES[0] if _FILES else _files_in(folder) if folder else None
    if files is None:
        return False
    if files.get(key) is None:
        files.put(key, value)
    return True


def _files_in(folder: str) -> Any:
    """JAX's own files of programs in a folder; None where it cannot use it."""
    return (COMPILATION_CACHE.get_file_cache(folder) or (None,))[0]


_SUFFIX = "-cache"
"""How JAX ends the names of files of compiled programs."""


class _Files(CacheInterface):
    """The files of all compiled programs: kernels of this package in their folder, others where JAX is told."""

    def __init__(self, own: str) -> None:
        self._own, self._by_folder = own, {}
        self._path = Path(own)
        self.used: dict[str, None] = {}
        """The keys of kernels of this package that this process has compiled or read, in order."""

    def _of(self, key: str) -> Any:
        folder = self._own if key.startswith(MODULE) else jax.config.jax_compilation_cache_dir
        if not folder:
            return None
        if folder not in self._by_folder:
            self._by_folder[folder] = _files_in(folder)
        return self._by_folder[folder]

    def get(self, key: str) -> Any:
        """Return the program that was kept under a key, or None."""
        files = self._of(key)
        found = None if files is None else files.get(key)
        if found is not None and key.startswith(MODULE):
            self.used[key] = None
        return found

    def put(self, key: str, value: bytes) -> None:
        """Keep a program under a key."""
        files = self._of(key)
        if files is not None:
            files.put(key, value)
            if key.startswith(MODULE):
                self.used[key] = None


class _Settings(threading.local):
    """What JAX was told about the files of its programs while this thread compiles a kernel of ours; None before."""

    before: tuple[Any, Any] | None = None
    without = False
    """Whether its programs are kept nowhere."""


_SETTINGS = _Settings()


class _Nowhere(CacheInterface):
    """Files of programs where none are kept."""

    def __init__(self) -> None:
        self._path = Path(os.devnull)

    def get(self, key: str) -> Any:
        """Return nothing."""

    def put(self, key: str, value: bytes) -> None:
        """Keep nothing."""


@contextmanager
def without_files() -> Iterator[None]:
    """Keep no programs in files, and read none: those for devices that are not here cannot be read without them.

    JAX asks once in a process whether it is to keep programs, so its setting for that changes nothing any more.
    """
    before = COMPILATION_CACHE._cache, COMPILATION_CACHE._cache_initialized
    _SETTINGS.without = True
    COMPILATION_CACHE._cache, COMPILATION_CACHE._cache_initialized = _Nowhere(), True
    try:
        yield
    finally:
        COMPILATION_CACHE._cache, COMPILATION_CACHE._cache_initialized = before
        _SETTINGS.without = False


def are_without() -> bool:
    """Return whether this thread compiles without files now."""
    return bool(_SETTINGS.without)


def compiled_without_files(programs: Sequence[jax.stages.Lowered]) -> list[jax.stages.Compiled]:
    """Compile programs at once, in threads: a compiler uses one core for most of its time."""

    def compiled(program: jax.stages.Lowered) -> jax.stages.Compiled:
        _SETTINGS.without = True
        return program.compile()

    with without_files(), ThreadPoolExecutor(len(programs)) as threads:
        return [*threads.map(compiled, programs)]


def _tell_kernels_apart(files: _Files) -> None:
    """Let JAX keep even small kernels of this package, and all other programs by its own settings."""
    settings = _SETTINGS

    def began(event: str, value: float, **about: Any) -> None:
        if event != _COMPILES or settings.without or not names_kernel(str(about.get("fun_name"))):
            return
        if COMPILATION_CACHE._cache is not files:  # not yet used, or reset by the user
            COMPILATION_CACHE._cache, COMPILATION_CACHE._cache_initialized = files, True
        settings.before = SOONEST_COMPILED.swap_local(0.0), SMALLEST_FILE.swap_local(-1)

    def ended(event: str, duration_secs: float, **about: Any) -> None:
        if event == _COMPILES and settings.before is not None:
            SOONEST_COMPILED.set_local(settings.before[0])
            SMALLEST_FILE.set_local(settings.before[1])
            settings.before = None

    jax.monitoring.register_scalar_listener(began)
    jax.monitoring.register_event_duration_secs_listener(ended)


def _home() -> Path:
    """The platform's folder for caches."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "torchgrad_jax" / "kernels"


def machine() -> str:
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
