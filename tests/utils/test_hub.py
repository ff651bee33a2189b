"""torch.hub: weights from addresses, models of folders."""

import hashlib
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

HUBCONF = """
dependencies = ["math"]
from beside import WIDTH


def layer(extra=0):
    '''A layer.'''
    return WIDTH + extra


def _hidden():
    pass


constant = 3
"""


@contextmanager
def weights(m):
    """A file with weights, with its hash in its name, and a folder for hub."""
    with tempfile.TemporaryDirectory() as name:
        folder, before = Path(name), m.hub.get_dir()
        m.hub.set_dir(folder / "hub")
        m.save({"a": m.arange(3.0)}, folder / "w.pth")
        prefix = hashlib.sha256((folder / "w.pth").read_bytes()).hexdigest()[:8]
        named = (folder / "w.pth").rename(folder / f"w-{prefix}.pth")
        try:
            yield folder, named, prefix
        finally:
            m.hub.set_dir(before)


def below(folder):
    return sorted(str(p.relative_to(folder)).partition("-")[0] for p in folder.rglob("*") if p.is_file())


@program
def weights_are_kept(m):
    load = m.hub.load_state_dict_from_url
    with weights(m) as (folder, file, _):
        url = file.as_uri()
        first = load(url, progress=False, check_hash=True, weights_only=True)
        file.unlink()
        again = load(url, progress=False, weights_only=True)
        other = load(url, model_dir=str(folder / "hub" / "checkpoints"), progress=False, weights_only=True)
        return first, again, other, below(folder)


@program
def a_wrong_hash(m):
    with weights(m) as (folder, file, prefix):
        fetch = m.hub.download_url_to_file
        kinds = [
            complaint(lambda: fetch(file.as_uri(), str(folder / "x"), "beef", progress=False)),
            complaint(lambda: fetch(file.as_uri() + "x", str(folder / "x"), progress=False))[:1],
            complaint(
                lambda: m.hub.load_state_dict_from_url(
                    file.as_uri(), progress=False, check_hash=True, file_name="y-0123.pth"
                )
            ),
        ]
        fetch(file.as_uri(), str(folder / "z"), prefix, progress=False)
        texts = [[part.partition("got")[0] for part in kind] for kind in kinds]
        return texts, below(folder)


@program
def models_of_a_folder(m):
    with tempfile.TemporaryDirectory() as name:
        Path(name, "hubconf.py").write_text(HUBCONF)
        Path(name, "beside.py").write_text("WIDTH = 4")
        hub = m.hub
        return (
            hub.load(name, "layer", source="local", extra=2),
            complaint(lambda: hub.load(name, "constant", source="local")),
            complaint(lambda: hub.load(name, "nothing", source="local")),
            complaint(lambda: hub.load(name, 3, source="local")),
            complaint(lambda: hub.load(name, "layer", source="web")),
        )


def test_what_a_folder_needs_is_looked_for(tmp_path):
    (tmp_path / "hubconf.py").write_text("dependencies = ['surely_not_there']")
    with pytest.raises(RuntimeError, match="Missing dependencies: surely_not_there"):
        tg.hub.load(tmp_path, "layer", source="local")


def test_a_line_says_how_far_it_is(tmp_path, capsys):
    (tmp_path / "a").write_bytes(b"abc")
    tg.hub.download_url_to_file((tmp_path / "a").as_uri(), str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == b"abc"
    assert "100.0%" in capsys.readouterr().err
