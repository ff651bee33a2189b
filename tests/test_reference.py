"""The reference of the site: what a reader looks up is there, with its signatures, and comes from the code."""

import importlib.util
from pathlib import Path

import pytest

from torchgrad_jax import interop
from torchgrad_jax._bridge.compile.compiled import Compiled
from torchgrad_jax._core.builtin_functions import function_of
from torchgrad_jax._engine.entry import bind

SPEC = importlib.util.spec_from_file_location(
    "reference", Path(__file__).resolve().parent.parent / "docs/site_reference.py"
)
assert SPEC is not None
assert SPEC.loader is not None
reference = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reference)

PAGES = {page.name: page for page in reference.PAGES}


def entry(page, name):
    (found,) = (e for e in reference.entries(PAGES[page]) if e[0] == name)
    return found


@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_entries_and_code_that_ends(name):
    page = reference.text(PAGES[name])
    assert page.count("\n## ") >= 3
    assert page.count("\n```") % 2 == 0


def test_overloads_stand_together_and_rows_have_their_sentence():
    _, signatures, doc = entry("torch", "clamp")
    assert all(s.startswith("clamp(input: Tensor, min: ") for s in signatures)
    assert doc.startswith("The nearest value in ``[min, max]``")
    assert entry("torch.Tensor", "clamp")[1]


def test_functions_of_the_top_are_all_there():
    listed = {name for name, *_ in reference.entries(PAGES["torch"])}
    from_rows = {
        name
        for name, fn in bind.NAMESPACES[""].items()
        if hasattr(function_of(fn), "binding") and not name.startswith("_")
    }
    assert from_rows <= listed


def test_classes_show_arguments_and_not_what_a_base_class_says():
    _, (signature,), doc = entry("torch.nn", "Linear")
    assert signature.startswith("class Linear(in_features: int, out_features: int, bias: bool = True")
    assert doc.startswith("``x @ weight.T + bias``")


def test_a_docstring_becomes_paragraphs_lists_and_an_example():
    doc = (
        "Adds.\n\nDiffers from torch: `a*b` is *not* a[0].\n\nArgs:\n    a: one\n        more\n    b: two\n\n"
        "Example:\n    >>> 1 < 2\n    True\n"
    )
    assert reference.markdown(doc) == (
        "Adds.\n\n**Differs from torch:** `a*b` is \\*not\\* a\\[0\\].\n\n"
        "**Args:**\n\n* a: one\n    more\n* b: two\n\n"
        "```pycon\n>>> 1 < 2\nTrue\n```\n"
    )


def test_each_public_name_of_interop_and_of_compiled_functions_has_one_tier():
    stable, experimental = (reference.tiers()[tier] for tier in ("stable", "experimental"))
    assert sorted(stable[0] + experimental[0]) == sorted(interop.__all__)
    assert sorted(stable[1] + experimental[1]) == sorted(n for n in dir(Compiled) if not n.startswith("_"))


def test_experimental_names_are_marked_in_the_reference():
    page = reference.text(PAGES["torch.interop"])
    after = {name: page.partition(f"## {name} {{")[2].partition("\n## ")[0] for name in ("eager", "to_jax")}
    assert "Experimental" in after["eager"]
    assert "Experimental" not in after["to_jax"]
