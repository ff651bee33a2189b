"""The page of a run: every difference with its area, its program and what the filters need."""

from types import SimpleNamespace

from ..cases import CASES
from ..jobs import all_jobs
from ..judge import Verdict
from ..report import as_html, tabulate


def test_page_lists_differences_with_area_and_program():
    jobs = {job.case.family: job for job in all_jobs(CASES) if job.check == "grad"}
    first, second, *_ = jobs.values()
    verdicts = [
        Verdict(first, "failed", ("value: <1.0>, torch 2.0",), "torch"),
        Verdict(second, "xfailed", ("stride",), "torch"),
        *(Verdict(job, "passed") for job in list(jobs.values())[2:]),
    ]
    page = as_html(tabulate(verdicts), verdicts, SimpleNamespace(name="torch"), {first.id: "the jaxpr <a>"})  # pyright: ignore[reportArgumentType]
    assert page.count("<details") == 2
    assert f"data-area='{first.case.family}' data-check='grad' data-status='failed'" in page
    assert all(text in page for text in ("&lt;1.0&gt;", "to reproduce", "explain", "jaxpr &lt;a&gt;"))
    assert all(f"<option value='{family}'>" in page for family in jobs)
