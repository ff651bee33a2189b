"""The harness of others' suites tells apart what passes with both libraries, with torch only, and with neither."""

import pytest

from compat_suite.packages import suites
from compat_suite.packages.suite_table import Suite

pytest.importorskip("torch")

TESTS = """
import pytest
import torch

def test_of_both():
    assert torch.ones(2).sum() == 2

@pytest.mark.parametrize("here", [True, False])
def test_of_torch(here):
    assert ("torchgrad_jax" in repr(torch.Tensor.__module__ + torch.__file__)) is here

def test_of_neither():
    raise AssertionError

def test_left_out():
    pytest.skip("not today")
"""


def test_only_tests_that_pass_with_torch_count(tmp_path, monkeypatch):
    suite = Suite("one", "one", "1.0")
    source = tmp_path / "one" / "source" / "one-1.0"
    (source / "tests").mkdir(parents=True)
    (source / "tests" / "test_it.py").write_text(TESTS)
    monkeypatch.setattr(suites, "fetch", lambda suite, site: source)
    verdict = suites.judge(suite, tmp_path)
    assert verdict.passing == 2
    assert [*verdict.differing.values()] == [(1, "tests/test_it.py::test_of_torch[False]")]
    assert verdict.good == 1


def test_a_file_that_does_not_import_here(tmp_path, monkeypatch):
    suite = Suite("two", "two", "1.0", tests=("test_it.py",))
    (tmp_path / "two").mkdir()
    (tmp_path / "test_it.py").write_text(
        "import torch\nassert 'torchgrad_jax' not in torch.__file__, 'who is it'\ndef test_a(): pass\n"
    )
    monkeypatch.setattr(suites, "fetch", lambda suite, site: tmp_path)
    verdict = suites.judge(suite, tmp_path)
    assert (verdict.passing, verdict.good) == (1, 0)
    (reason,) = verdict.differing
    assert reason != "`not collected`"


def test_reasons_are_counted_together():
    found = {"a.py m::t1": "one | reason", "a.py m::t2": "another", "b.py m::t3": "another"}
    verdict = suites.Verdict("x", 5, suites.by_reason(found), 1.0, 1.0)
    assert suites.reasons(verdict) == ["* 2: `another`, as in `a.py::t2`", "* 1: `one / reason`, as in `a.py::t1`"]


def test_the_page_sums_up():
    found = {"a.py m::t1": "reason", "a.py m::t2": "torch.UnsupportedLayoutError: sparse"}
    verdict = suites.Verdict("einops", 5, suites.by_reason(found), 1.0, 1.0)
    text = suites.page([verdict])
    assert "| 5 | 3 | 1 | 75.0 % |" in text
    assert "| all | 5 | 3 | 1 | 75.0 % |" in text
    assert "* 1: `reason`" in text
