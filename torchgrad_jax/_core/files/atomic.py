"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from typing import IO, Any

from ..signals import contextmanager

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# In these folders a name stands for a device, a pipe or an open file, even if that is a plain file.
_SPECIAL_FOLDERS = ("/dev/", "/proc/", "/sys/")
# With these errors no file can be made beside another one, which may still be writable; otherwise `open` explains.
_NO_FILE_BESIDE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
_NO_RENAME_HERE = {errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV}
_SECONDS_TO_LOCK = 60
_NO_FSYNC_HERE = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF}


@contextmanager
def replacing(path: Any, mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """A new file that takes the place of the one at `path` when the block ends without an exception.

    Until then the old file is untouched; after an exception it stays and the new one is removed. Symbolic links
    are followed, and the permissions are those that `open(path, mode)` would leave. What cannot be replaced (a device,
    a pipe, a file of another user, a file in a folder where nothing can be created) is opened as it is.

    Args:
        path: the file.
        mode: `"wb"` or `"w"`.
        **options: for `open`.
    """
    new = _place_of(path)
    if new is None:
        with open(path, mode, **options) as file:
            yield file
        return
    target, beside, old = new
    lock = None
    try:
        _remove_left_behind(beside)
        fd = _create(beside, old)
        lock = _locked(fd)
        with open(path if fd is None else fd, mode, **options) as file:
            yield file
            file.flush()
            _sync(file.fileno())
        if fd is not None:
            _move(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(beside)
        raise
    finally:
        if lock is not None:
            os.close(lock)
    _sync_folder(os.path.dirname(target))


def _place_of(path: Any) -> tuple[str, str, os.stat_result | None] | None:
    """The file behind a path, a name beside it, and the old file's status; None for what cannot be replaced."""
    name = os.fsdecode(path)
    if not os.path.basename(name) or _is_special(name):
        return None
    target = os.path.realpath(name)
    try:
        found = os.stat(target)
    except FileNotFoundError:
        found = None
    except OSError:
        return None  # `open` raises the error
    if found is not None and not (stat.S_ISREG(found.st_mode) and os.access(target, os.W_OK)):
        return None
    folder, base = os.path.split(target)
    return target, os.path.join(folder, f".{base[:40]}.{secrets.token_hex(4)}.tmp"), found


def _is_special(name: str) -> bool:
    """Return whether a name, or a symbolic link on the way to the file, is among devices or open files."""
    for _ in range(40):
        folder = os.path.realpath(os.path.dirname(os.path.abspath(name)))
        if f"{folder}/".startswith(_SPECIAL_FOLDERS) and not f"{folder}/".startswith("/dev/shm/"):
            return True
        if not os.path.islink(name):
            return False
        name = os.path.join(folder, os.readlink(name))
    return True


def _create(beside: str, old: os.stat_result | None) -> int | None:
    """Open the new file, with the old one's owner and permissions; None where that is not allowed."""
    fd = None
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if old is not None and hasattr(os, "fchown"):
            new = os.fstat(fd)
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
        return fd
    except BaseException as e:
        if fd is not None:
            os.close(fd)
            os.remove(beside)
        if isinstance(e, OSError) and e.errno in _NO_FILE_BESIDE:
            return None
        raise


def _locked(fd: int | None) -> int | None:
    """A descriptor of the new file that keeps it locked until closed: others see that somebody writes it."""
    if fd is None or fcntl is None:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX)
        return os.dup(fd)
    return None


def _remove_left_behind(beside: str) -> None:
    """Remove new files for the same place whose writers were killed: nobody locks them."""
    folder, name = os.path.split(beside)
    like = re.compile(re.escape(name[: -len("01234567.tmp")]) + r"[0-9a-f]{8}\.tmp")
    with contextlib.suppress(OSError):
        for found in os.listdir(folder) if fcntl is not None else ():
            if like.fullmatch(found):
                _remove_if_unlocked(os.path.join(folder, found))


def _remove_if_unlocked(name: str) -> None:
    assert fcntl is not None
    with contextlib.suppress(OSError), open(name, "rb") as file:
        # One that was made this moment may not be locked yet.
        if time.time() - os.fstat(file.fileno()).st_mtime > _SECONDS_TO_LOCK:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.remove(name)


def _move(beside: str, target: str) -> None:
    try:
        os.replace(beside, target)
    except OSError as e:
        if e.errno not in _NO_RENAME_HERE:
            raise
        shutil.copyfile(beside, target)  # for example, the file is a mount point
        os.remove(beside)


def _sync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno not in _NO_FSYNC_HERE:
            raise


def _sync_folder(folder: str) -> None:
    """Make the new name last, where the system can."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
