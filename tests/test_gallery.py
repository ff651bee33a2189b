"""The gallery of the site has a page for each program of examples/ and each pair, with its words and all its code."""

import importlib.util
import sys
from pathlib import Path

import pytest

from benchmarks import gallery as measuring

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("site_gallery", ROOT / "docs/site_gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["site_gallery"] = module  # dataclasses look their module up
    yield spec.loader.exec_module(module) or module
    del sys.modules["site_gallery"]


def test_every_example_and_pair_has_a_page(gallery):
    pairs = [p for p in EXAMPLES.glob("pairs/*.py") if p.stem not in ("__main__", "common")]
    files = sorted(str(p.relative_to(EXAMPLES)) for p in (*EXAMPLES.glob("*.py"), *pairs))
    assert sorted(p.file for p in gallery.PROGRAMS) == files
    index = gallery.index()
    for program in gallery.PROGRAMS:
        assert program.page.replace(".md", ".html") in index


def test_a_page_has_words_a_command_a_device_and_the_whole_program(gallery):
    for program in gallery.PROGRAMS:
        text, source = gallery.text(program), (EXAMPLES / program.file).read_text(encoding="utf-8")
        assert program.title in text
        assert "examples/" in text
        assert "**On a GPU or TPU:**" in text
        last = source.rstrip().splitlines()[-1]
        assert last in text
        words = gallery._words(source)
        assert len(words) > 20
        assert "An ordinary PyTorch script." not in words


def test_scripts_that_print_their_steps_have_a_curve_and_a_time(gallery):
    times = gallery.measured()
    for name in measuring.SCRIPTS:
        assert (ROOT / "docs" / "gallery" / f"{name}.svg").exists()
        assert set(times["programs"][f"{name}.py"]) == {"here", "torch"}
    assert "torch 2." in times["on"]


def test_curves_are_read_from_lines_of_steps():
    assert measuring.curve("hello\nstep 0  loss 2.5  lr 0.1\nstep 10  loss -1.25\nend", "loss") == (
        [0, 10],
        [2.5, -1.25],
    )
