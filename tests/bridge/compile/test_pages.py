"""Each reason of torch.compile is shown: doctest runs the examples of its page; a section without one fails here."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
REASONS = re.split(r"^## ", (DOCS / "compile_reasons.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("section", REASONS, ids=[part.partition("\n")[0] for part in REASONS])
def test_each_reason_has_an_example_that_calls_what_it_compiles(section):
    code = "\n".join(re.findall(r"^(?:>>>|\.\.\.) (.*)$", section, flags=re.MULTILINE))
    assert "torch.compile" in code
    assert re.search(r"[\w)]\((torch\.ones|out_of_range)", code)
