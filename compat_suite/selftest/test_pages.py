"""The generated pages of docs/ are current."""

from compat_suite import coverage, saved
from compat_suite.cases import CASES
from compat_suite.jobs import all_jobs
from compat_suite.ledger import current
from compat_suite.pages import DOCS


def test_coverage_page() -> None:
    assert (DOCS / "coverage.md").read_text(encoding="utf-8") == coverage.page(
        all_jobs(CASES), current()
    )


def test_saved_tensors_page() -> None:
    assert (DOCS / "saved_tensors.md").read_text(encoding="utf-8") == saved.page()
