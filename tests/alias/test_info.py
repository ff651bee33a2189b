"""`python -m torchgrad_jax info`: what a report says of a machine."""

import jax
import pytest

from torchgrad_jax import version
from torchgrad_jax._alias import info


def report(capsys):
    assert info.main() == 0
    return dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())


def test_versions_devices_settings_and_caches_are_told(capsys, monkeypatch):
    monkeypatch.setenv("TORCHGRAD_JAX_VERIFY", "3")
    told = report(capsys)
    assert told["torchgrad_jax"].startswith(f"{version.__version__}, which follows torch {version.torch}")
    assert told["jax"] == jax.__version__
    assert "cpu:0" in told["devices"].lower()
    assert told["jax_enable_x64"] == str(jax.config.jax_enable_x64)
    assert "kernels 1024" in told["limits of the caches"]
    assert told["TORCHGRAD_JAX_VERIFY"] == "3"


def test_devices_that_cannot_be_opened_are_told(capsys, monkeypatch):
    def fail():
        raise RuntimeError("Unable to initialize backend 'cuda'")

    monkeypatch.setattr(info.jax, "local_devices", fail)
    assert report(capsys)["devices"] == "none: Unable to initialize backend 'cuda'"


@pytest.mark.parametrize("size", [0, 3 * 2**20])
def test_the_folder_of_kernels_is_told_with_its_size(capsys, monkeypatch, tmp_path, size):
    (tmp_path / "kernel").write_bytes(bytes(size))
    monkeypatch.setattr(type(jax.config), "jax_compilation_cache_dir", str(tmp_path), raising=False)
    assert report(capsys)["compiled kernels"] == f"{tmp_path}, 1 files, {size >> 20} MiB"
