"""`python -m torchgrad_jax doctor`: what it finds wrong with an environment, and what it says to do."""

import importlib.metadata
import os

import jax
import pytest

from torchgrad_jax import version
from torchgrad_jax._alias import doctor


class Device:
    def __init__(self, platform):
        self.platform = platform


def raising(error):
    def fail(*args, **kwargs):
        raise error

    return fail


def texts(look):
    return " ".join(look())


def setting(monkeypatch, name, value):
    monkeypatch.setattr(type(jax.config), name, value, raising=False)


def versions(monkeypatch, **of):
    def found(name):
        if of.get(name, "") is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return of.get(name) or (jax.__version__ if name == "jaxlib" else version.torch)

    monkeypatch.setattr(importlib.metadata, "version", found)


def gpu(monkeypatch, *, plugin, platforms="cpu"):
    monkeypatch.setattr(doctor.jax, "devices", lambda: [Device(name) for name in platforms.split()])
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/nvidia-smi" if name == "nvidia-smi" else None)
    monkeypatch.setattr(
        doctor.importlib.util, "find_spec", lambda name: name == "jax_cuda12_plugin" if plugin else None
    )


def test_nothing_is_wrong_with_the_environment_of_the_tests(capsys, monkeypatch):
    versions(monkeypatch, torch=None)
    assert doctor.main() == 0
    out = capsys.readouterr().out
    assert out.startswith("torchgrad_jax: ")
    assert out.endswith("\n\nNothing is wrong.\n")


def test_what_is_found_stands_behind_the_report(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "LOOKS", (lambda: iter(("one", "two")), lambda: iter(())))
    assert doctor.main() == 1
    assert capsys.readouterr().out.endswith("\n\n* one\n* two\n")


@pytest.mark.parametrize(
    ("plugin", "platforms", "said"),
    [(False, "cpu", 'pip install "jax[cuda13]"'), (True, "cpu", "nvidia-smi"), (True, "gpu cpu", "")],
)
def test_a_gpu_that_jax_does_not_see(monkeypatch, plugin, platforms, said):
    gpu(monkeypatch, plugin=plugin, platforms=platforms)
    found = texts(doctor._of_devices)
    assert said in found
    assert bool(found) == bool(said)


def test_a_gpu_that_jax_is_told_not_to_use_is_nothing_wrong(monkeypatch):
    gpu(monkeypatch, plugin=True)
    setting(monkeypatch, "jax_platforms", "cpu")
    assert texts(doctor._of_devices) == ""


def test_no_device_at_all(monkeypatch):
    monkeypatch.setattr(doctor.jax, "devices", raising(RuntimeError("Unable to initialize backend 'cuda'")))
    setting(monkeypatch, "jax_platforms", "cuda")
    found = texts(doctor._of_devices)
    assert "Unable to initialize backend 'cuda'; JAX was told to use 'cuda'" in found


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({"jaxlib": "0.9.0"}, "jaxlib 0.9.0 differ"),
        ({"torch": "2.9.1+cu130"}, "PyTorch 2.9.1 is installed beside"),
        ({"torch": None}, ""),
        ({"torch": f"{version.torch}+cpu"}, ""),
    ],
)
def test_versions(monkeypatch, of, said):
    versions(monkeypatch, **of)
    found = texts(doctor._of_versions)
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(("text", "known"), [("0.10.1", False), ("0.12.7", True), ("0.13.0.dev20270101", False)])
def test_a_version_of_jax_that_was_not_tested(monkeypatch, text, known):
    monkeypatch.setattr(doctor.jax, "__version__", text)
    versions(monkeypatch, jaxlib=text, torch=None)
    assert ("was not tested" in texts(doctor._of_versions)) is not known


def test_settings(monkeypatch):
    monkeypatch.setattr(doctor, "IS_GUEST", False)
    setting(monkeypatch, "jax_enable_x64", value=True)
    assert texts(doctor._of_settings) == ""
    monkeypatch.setenv("JAX_DISABLE_JIT", "1")
    setting(monkeypatch, "jax_debug_nans", value=True)
    setting(monkeypatch, "jax_enable_x64", value=False)
    found = texts(doctor._of_settings)
    assert all(name in found for name in ("JAX_DISABLE_JIT", "jax_debug_nans", "jax_enable_x64"))


def test_kernels_that_cannot_be_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "folder_of_kernels", lambda: str(tmp_path / "not" / "there"))
    assert texts(doctor._of_kernels) == ""
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", raising(PermissionError(13, "Permission denied")))
    assert f"cannot be kept in {tmp_path}" in texts(doctor._of_kernels)
    monkeypatch.setattr(doctor, "folder_of_kernels", lambda: None)
    assert "are not kept" in texts(doctor._of_kernels)
    monkeypatch.setattr(doctor, "folder_of_kernels", lambda: "gs://bucket/kernels")
    assert texts(doctor._of_kernels) == ""
