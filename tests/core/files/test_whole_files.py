"""Files that the package writes are complete or not there at all, also after failed saves, on links and on devices."""

import errno
import fcntl
import gzip
import importlib
import io
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import torchgrad_jax as torch
from torchgrad_jax._core.files import atomic as files

OLD = b"the old file"


@pytest.fixture(scope="module")
def profiled():
    with torch.profiler.profile(with_stack=True) as p:
        torch.ones(3).sin()
    return p


@pytest.fixture(scope="module")
def exported():
    return torch.interop.export(torch.sin, torch.zeros(2))


def _legacy(path, request):
    torch.save({"x": torch.ones(4)}, path, _use_new_zipfile_serialization=False)


def _safetensors(path, request):
    pytest.importorskip("safetensors")
    importlib.import_module("torchgrad_jax.serialization.safetensors").save_file({"x": torch.ones(4)}, path)


WRITERS = {
    "save": lambda path, request: torch.save({"x": torch.ones(4)}, path),
    "save-legacy": _legacy,
    "safetensors": _safetensors,
    "export": lambda path, request: request.getfixturevalue("exported").save(path),
    "trace": lambda path, request: request.getfixturevalue("profiled").export_chrome_trace(str(path)),
    "stacks": lambda path, request: request.getfixturevalue("profiled").export_stacks(str(path)),
}


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "file.pt"
    path.write_bytes(OLD)
    return path


def untouched(path):
    return path.read_bytes() == OLD and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("raised", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()], ids=["full", "interrupt"])
@pytest.mark.parametrize("writer", WRITERS)
def test_the_old_file_stays(writer, raised, old, monkeypatch, request):
    def fail(fd):
        raise raised

    WRITERS[writer](old.parent / "once", request)  # what is made on first use
    os.remove(old.parent / "once")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(raised)):
        WRITERS[writer](old, request)
    assert untouched(old)
    monkeypatch.undo()
    WRITERS[writer](old, request)
    assert not untouched(old)
    assert os.listdir(old.parent) == [old.name]


@pytest.mark.parametrize("zipped", [True, False])
def test_a_full_disk_leaves_the_old_file(zipped, old):
    big = {"x": torch.ones(1 << 18)}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OSError) as caught:  # noqa: PT011
            torch.save(big, old, _use_new_zipfile_serialization=zipped)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert untouched(old)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("where", ["beside", "in-place"])
def test_what_cannot_be_pickled_leaves_the_old_file(where, zipped, old, monkeypatch):
    if where == "in-place":
        monkeypatch.setattr(files, "_place_of", lambda path: None)
    with pytest.raises(Exception, match="lambda"):
        torch.save([torch.ones(3), lambda: 1], old, _use_new_zipfile_serialization=zipped)
    assert untouched(old)


KILLED = """
import os, signal, sys
from torchgrad_jax._core.files import atomic as files
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
with files.replacing(sys.argv[1]) as file:
    file.write(b"new")
"""


def test_a_killed_process_leaves_the_old_file(old):
    found = subprocess.run([sys.executable, "-c", KILLED, old], check=False)
    assert found.returncode == -signal.SIGKILL
    assert old.read_bytes() == OLD


def test_what_a_killed_process_left_goes_with_a_later_save(old):
    """Files that somebody writes stay, and so do those of other names and those just made."""
    dead, young, other, used = (
        old.with_name(f".{name}.tmp")
        for name in (f"{old.name}.01234567", f"{old.name}.89abcdef", "other.01234567", f"{old.name}.0123abcd")
    )
    for file in (dead, young, other, used):
        file.write_bytes(b"part")
    for file in (dead, other, used):
        os.utime(file, (0, 0))
    with used.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        with files.replacing(old) as mine:
            mine.write(b"new")
            mine.flush()
            os.utime(mine.fileno(), (0, 0))
            torch.save({"x": torch.ones(2)}, old)
    assert old.read_bytes() == b"new"
    assert [file.exists() for file in (dead, young, other, used)] == [False, True, True, True]


def test_everything_is_on_the_disk_before_the_name_changes(old, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append(stat.S_ISDIR(os.fstat(fd).st_mode)))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *names: (seen.append("replaced"), replace(*names)))
    torch.save(1, old)
    assert seen == [False, "replaced", True]


@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize("mode", [None, 0o600, 0o664])
def test_permissions_are_those_of_open(mode, umask, tmp_path):
    paths = [tmp_path / "saved", tmp_path / "opened"]
    before = os.umask(umask)
    try:
        for path, write in zip(paths, (lambda p: torch.save(1, p), lambda p: p.write_bytes(b""))):
            if mode is not None:
                path.touch()
                path.chmod(mode)
            write(path)
    finally:
        os.umask(before)
    saved, opened = (stat.S_IMODE(p.stat().st_mode) for p in paths)
    assert saved == opened


@pytest.mark.parametrize("made", [True, False], ids=["to-a-file", "to-nothing-yet"])
def test_links_are_followed(made, tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "real.pt", tmp_path / "link.pt"
    if made:
        target.write_bytes(OLD)
    (tmp_path / "middle").symlink_to("there/real.pt")
    link.symlink_to("middle")
    torch.save({"x": torch.ones(1)}, link)
    assert link.is_symlink()
    assert torch.load(target)["x"].tolist() == [1.0]
    assert os.listdir(tmp_path / "there") == ["real.pt"]


def test_devices_and_pipes_are_written_to(tmp_path):
    torch.save(1, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    torch.save([1, 2], pipe)
    reader.join(30)
    assert torch.load(io.BytesIO(got[0])) == [1, 2]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_open_files_are_written_to_and_not_replaced(name, old):
    with open(old, "r+b") as file:
        inode = os.fstat(file.fileno()).st_ino
        link = old.parent / "out"
        link.symlink_to(name.format(file.fileno()))
        torch.save(1, link)
        assert old.stat().st_ino == inode
        assert torch.load(file) == 1


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS, errno.ENAMETOOLONG])
def test_a_folder_where_nothing_can_be_made(error, old, monkeypatch):
    made = os.open

    def refuse(path, flags, *rest, **named):
        if flags & os.O_EXCL:
            raise OSError(error, "not here")
        return made(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)
    torch.save([3], old)
    assert torch.load(old) == [3]


def test_no_room_for_another_file_leaves_the_old_one(old, monkeypatch):
    def refuse(path, flags, *rest, **named):
        raise OSError(errno.ENOSPC, "no inodes")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="no inodes"):
        torch.save([3], old)
    assert untouched(old)


def test_a_file_that_cannot_be_renamed_over(old, monkeypatch):
    def busy(*names):
        raise OSError(errno.EBUSY, "a mount point")

    monkeypatch.setattr(os, "replace", busy)
    torch.save([3], old)
    assert torch.load(old) == [3]
    assert os.listdir(old.parent) == [old.name]


@pytest.mark.parametrize(
    "name, error",
    [
        ("", FileNotFoundError),
        (".", IsADirectoryError),
        ("none/f", RuntimeError),
        ("file.pt/f", RuntimeError),
        ("new/", RuntimeError),
        ("x" * 300, OSError),
    ],
)
def test_paths_that_cannot_be_written(name, error, old, monkeypatch):
    monkeypatch.chdir(old.parent)
    with pytest.raises(error):
        torch.save(1, name)
    assert untouched(old)


def test_long_names(tmp_path):
    path = tmp_path / ("é" * 120 + ".pt")
    torch.save([1], path)
    assert torch.load(path) == [1]


class _Full(io.RawIOBase):
    """A file object of a program, on a disk that is full after 100 bytes."""

    def __init__(self):
        self.held = b""

    def writable(self):
        return True

    def write(self, data):
        if len(self.held) + len(data) > 100:
            raise OSError(errno.ENOSPC, "no space")
        self.held += bytes(data)
        return len(data)


@pytest.mark.parametrize("zipped", [True, False])
def test_file_objects_of_the_program_stay_open_and_get_nothing_of_what_cannot_be_pickled(zipped):
    file = io.BytesIO()
    with pytest.raises(Exception, match="lambda"):
        torch.save([lambda: 1], file, _use_new_zipfile_serialization=zipped)
    assert file.getvalue() == b""
    full = _Full()
    with pytest.raises(OSError, match="no space"):
        torch.save(torch.ones(100), full, _use_new_zipfile_serialization=zipped)
    assert not full.closed


def test_traces_that_are_compressed(profiled, tmp_path):
    profiled.export_chrome_trace(str(tmp_path / "t.json.gz"))
    with gzip.open(tmp_path / "t.json.gz") as file:
        assert json.load(file)["traceEvents"]
    assert os.listdir(tmp_path) == ["t.json.gz"]


def test_downloads(old, tmp_path):
    source = tmp_path / "weights"
    source.write_bytes(b"123")
    target = Path(old)
    with pytest.raises(RuntimeError, match="invalid hash"):
        torch.hub.download_url_to_file(source.as_uri(), str(target), "00", progress=False)
    assert target.read_bytes() == OLD
    assert sorted(os.listdir(tmp_path)) == ["file.pt", "weights"]
    torch.hub.download_url_to_file(source.as_uri(), str(target), "a665a459", progress=False)
    assert target.read_bytes() == b"123"
