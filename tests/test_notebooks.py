"""The notebooks of docs/notebooks run from the top and show what their files keep; values have rich displays."""

import importlib.util
import re
from pathlib import Path

import jax
import pytest

import torchgrad_jax as torch

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("site_notebooks", ROOT / "docs" / "site_notebooks.py")
assert SPEC is not None
assert SPEC.loader is not None
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)


def words(outputs):
    """What a cell shows, less its numbers, which differ between machines: kinds, and words that were printed."""
    kinds = [sorted(output.get("data", ["stream"])) for output in outputs]
    printed = ["".join(o["text"]) for o in outputs if o["output_type"] == "stream"]
    return kinds, [re.sub(r"\d+", "#", text) for text in printed]


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_a_notebook_runs_and_shows_what_is_kept(name):
    notebook = notebooks.read(name)
    kept = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # user code
        shown = notebooks.run(notebook)
    assert [words(outputs) for outputs in shown] == [words(outputs) for outputs in kept]


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_a_notebook_is_a_page_and_names_no_folder_of_a_machine(name):
    text = notebooks.page(name)
    assert text.startswith("# ")
    assert f"]({name}.ipynb)" in text
    assert text.count("```") % 2 == 0
    assert '<div class="shown">' in text
    assert not re.search(r"/(tmp|home|root|work)/| at 0x", text)


def test_a_node_shows_the_graph_behind_it():
    x = torch.ones(2, requires_grad=True)
    picture = (x * x).sum().grad_fn._repr_html_()
    assert picture.startswith("<svg")
    assert all(part in picture for part in ("SumBackward0", "MulBackward0", "leaf [2]"))


def test_a_compiled_function_shows_its_explanation_folded_and_escaped():
    @torch.compile
    def step(x):
        return x + 1

    assert "0 programs" in step._repr_html_()
    step(torch.ones(2))
    shown = step._repr_html_()
    assert shown.startswith("<details><summary>")
    assert "&lt;locals&gt;" in shown
    assert "1 program; traced once" in shown


def test_a_profile_shows_its_longest_events_as_a_table():
    with torch.profiler.profile() as profile:
        torch.ones(2).sin()
    shown = profile.key_averages()._repr_html_()
    assert shown.startswith("<table><tr><th>Name</th>")
    assert "<td>aten::sin</td>" in shown
