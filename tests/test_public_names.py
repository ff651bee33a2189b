"""No public name goes without a deprecation, and new ones are stored: tests/public_names.list has them all."""

import pytest

import torchgrad_jax.version
from tests import public_names


@pytest.fixture(scope="module")
def present():
    return public_names.in_a_fresh_process()


def version(text):
    return tuple(map(int, text.split(".")[:2]))


def test_names_that_were_public_still_are(present):
    missing = public_names.stored()[0] - present
    assert not missing, f"deprecate these first (docs/support.md): {sorted(missing)}"


def test_new_names_are_stored(present):
    names, gone = public_names.stored()
    new = present - names - set(gone)
    assert not new, f"python -m tests.public_names stores these: {sorted(new)}"


def test_names_that_are_gone_were_deprecated_for_a_minor_version():
    for name, (gone, deprecated) in public_names.stored()[1].items():
        assert version(deprecated) < version(gone) <= version(torchgrad_jax.version.__version__), name


def test_a_name_that_is_lost_or_new_is_found(present, monkeypatch, tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("torchgrad_jax.add\ntorchgrad_jax.none\ntorchgrad_jax.old  gone in 0.3, deprecated in 0.2\n")
    monkeypatch.setattr(public_names, "FILE", file)
    names, gone = public_names.stored()
    assert names - present == {"torchgrad_jax.none"}
    assert gone == {"torchgrad_jax.old": ("0.3", "0.2")}
    public_names.main()
    kept = file.read_text()
    assert "torchgrad_jax.none\n" in kept
    assert "torchgrad_jax.old  gone in 0.3, deprecated in 0.2\n" in kept
    assert "torchgrad_jax.interop.to_jax\n" in kept
