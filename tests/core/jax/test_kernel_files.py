"""Kernels that a program leaves for the next one."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import pytest

from tests.alias.test_run import run as run_aliased
from torchgrad_jax._core.jax import kernel_files as kernels

PROGRAM = (
    "import {}, torchgrad_jax; torch.ones(1_000_000).exp(); "
    "print(torchgrad_jax._core.jax.kernel_files.folder_of_kernels())"
)
BY_NAME = ("-c", PROGRAM.format("torchgrad_jax as torch"))
UNDER_THE_ALIAS = ("-m", "torchgrad_jax", "-c", PROGRAM.format("torch"))
JAX = (
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES",
)


def said(tmp_path, monkeypatch, program=BY_NAME, **variables):
    for name in (*JAX, kernels.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    result = run_aliased(*program, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip(), result.stderr


@pytest.mark.parametrize("program", [BY_NAME, UNDER_THE_ALIAS], ids=["by name", "alias"])
def test_programs_leave_kernels_behind(program, tmp_path, monkeypatch):
    folder = tmp_path / "kernels"
    place, complaints = said(tmp_path, monkeypatch, program, TORCHGRAD_JAX_CACHE=folder)
    assert place.startswith(str(folder))
    assert not complaints
    first = {p.name: p.stat().st_mtime_ns for p in folder.glob("*/*-cache")}
    assert first
    again, complaints = said(tmp_path, monkeypatch, program, TORCHGRAD_JAX_CACHE=folder)
    assert again == place
    assert not complaints
    assert {p.name: p.stat().st_mtime_ns for p in folder.glob("*/*-cache")} == first  # all were read


def test_the_default_is_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernels._home() == tmp_path / "torchgrad_jax" / "kernels"


@pytest.mark.parametrize("value", ["", "0", "off"])
def test_it_can_be_turned_off(value, tmp_path, monkeypatch):
    assert said(tmp_path, monkeypatch, TORCHGRAD_JAX_CACHE=value)[0] == "None"


def test_what_jax_was_told_stays(tmp_path, monkeypatch):
    own, other = tmp_path / "own", tmp_path / "other"
    place, _ = said(tmp_path, monkeypatch, TORCHGRAD_JAX_CACHE=own, JAX_COMPILATION_CACHE_DIR=other)
    assert place == str(other)
    assert not own.exists()


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    place, complaints = said(tmp_path, monkeypatch, TORCHGRAD_JAX_CACHE=tmp_path / "file" / "x")
    assert place == "None"
    assert not complaints


def test_a_disk_with_little_room_is_left_alone(tmp_path, monkeypatch):
    for name in (*JAX, kernels.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(kernels.VARIABLE, str(tmp_path))
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        monkeypatch.setattr(kernels, "_SPARE", 1 << 62)
        assert kernels.keep_kernels() is None
        assert jax.config.jax_compilation_cache_dir is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_a_kernel_that_was_cut_off_is_compiled_again(tmp_path, monkeypatch):
    place, _ = said(tmp_path, monkeypatch, TORCHGRAD_JAX_CACHE=tmp_path)
    for path in Path(place).glob("*-cache"):
        path.write_bytes(path.read_bytes()[:50])
    again, _ = said(tmp_path, monkeypatch, TORCHGRAD_JAX_CACHE=tmp_path)
    assert again == place


def test_many_processes_write_at_once(tmp_path, monkeypatch):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: said(tmp_path, monkeypatch, TORCHGRAD_JAX_CACHE=tmp_path), range(4)))
    assert len(set(found)) == 1
    assert not found[0][1]


def test_what_is_old_makes_room(tmp_path, monkeypatch):
    folder = tmp_path / "machine"
    folder.mkdir()
    now = time.time()
    for age in range(6):
        path = folder / f"{age}-cache"
        path.write_bytes(b"x" * 100)
        os.utime(path, (now - age * 100, now - age * 100))
    monkeypatch.setattr(kernels, "LIMIT", 350)
    kernels._make_room(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["0-cache", "1-cache", "2-cache"]
    monkeypatch.setattr(kernels, "LIMIT", 0)
    kernels._make_room(folder)  # looked at a moment ago
    assert len(list(folder.iterdir())) == 3


HOST = """
import jax, jax.numpy as jnp
{first}
import torchgrad_jax as torch
torch.ones(1_000_000).exp()
{then}
def host_program(x):
    return jnp.sin(x) + 1
jax.jit(host_program)(jnp.ones(1_000_000))
torch.ones(1_000_000).log()
print(jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs)
"""
TELL = "jax.config.update('jax_compilation_cache_dir', {!r}); "
KEEP_ALL = "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)"
RESET = "from jax.experimental.compilation_cache import compilation_cache; compilation_cache.reset_cache(); "


def kept(folder: Path) -> tuple[bool, bool]:
    """Whether a folder holds kernels of this package, and whether it holds the other program."""
    names = [p.name for p in folder.glob("**/*-cache")]
    return any(n.startswith("jit_torch.") for n in names), any(n.startswith("jit_host_program") for n in names)


@pytest.mark.parametrize(
    "first, then, of_host, of_own",
    [
        ("", "{told}{all}", (False, True), (True, False)),
        ("", "{told}", (False, False), (True, False)),  # JAX leaves out what takes less than a second
        ("", "{reset}{told}{all}", (False, True), (True, False)),
        ("", "{told}{reset}{all}", (False, True), (True, False)),
        ("{told}{all}", "", (True, True), (False, False)),
        ("", "", (False, False), (True, False)),
    ],
    ids=["told later", "its own limits", "reset", "reset later", "told before", "never told"],
)
def test_programs_of_the_host_are_kept_where_jax_is_told(first, then, of_host, of_own, tmp_path, monkeypatch):
    host, own = tmp_path / "host", tmp_path / "own"
    names = {"told": TELL.format(str(host)), "all": KEEP_ALL, "reset": RESET}
    program = HOST.format(first=first.format(**names), then=then.format(**names))
    place, _ = said(tmp_path, monkeypatch, ("-c", program), TORCHGRAD_JAX_CACHE=own)
    assert place == f"{host if first or then else None} {0.0 if '{all}' in first + then else 1.0}"
    assert kept(host) == of_host
    assert kept(own) == of_own
