"""The wheel holds the package, and nothing else: its modules, its stubs, its tables, and the license."""

import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest

from torchgrad_jax.version import __version__

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "torchgrad_jax"
MOST_BYTES = 2_450_000
"""Two thirds are code, a quarter docstrings and comments, the rest the index of the files."""

BUILD = "import setuptools.build_meta as b, sys; print(b.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, for setuptools leaves a folder beside what it builds from."""
    place = tmp_path_factory.mktemp("wheel")
    copytree(PACKAGE, place / PACKAGE.name, ignore=ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        copy(ROOT / name, place)
    command = [sys.executable, "-W", "ignore", "-c", BUILD, str(place)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = place.glob("*.whl")
    return path


def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_it_holds_the_package_and_the_license_and_nothing_else(wheel):
    about = {n for n in names(wheel) if ".dist-info/" in n}
    assert {n.partition("/")[2] for n in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "top_level.txt",
    }
    sources = [p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".pyi") and "_codegen" not in p.parts]
    others = [PACKAGE / "py.typed", PACKAGE / "_engine" / "entry" / "signatures.txt", *PACKAGE.rglob("gpus/*.txt")]
    assert names(wheel) - about == {p.relative_to(ROOT).as_posix() for p in [*sources, *others]}


def test_every_folder_of_the_package_is_a_package():
    """setuptools leaves a folder without `__init__.py` out, and its modules with it."""
    folders = {p.parent for p in PACKAGE.rglob("*.py")}
    assert {f for f in folders if not (f / "__init__.py").exists()} <= {PACKAGE / "_alias" / "shim"}


def test_it_stays_small(wheel):
    assert wheel.stat().st_size <= MOST_BYTES


def test_it_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("/METADATA")]
        about = archive.read(name).decode()
    for line in (
        "Name: torchgrad-jax",
        f"Version: {__version__}",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
    ):
        assert line in about.splitlines()
    assert "\n# torchgrad_jax\n" in about  # the README
