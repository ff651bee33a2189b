"""The ledger is strict, and the one in use speaks of jobs that exist."""

import datetime
import re
from pathlib import Path

import pytest

from compat_suite import api
from compat_suite.case import case, s, t
from compat_suite.cases import CASES
from compat_suite.execute import Result, run
from compat_suite.jobs import Job, all_jobs, jobs_of
from compat_suite.judge import judge
from compat_suite.ledger import Entry, Ledger, LedgerError, current, load, parse
from compat_suite.libs import ours
from compat_suite.opinfo.runner import CHECKS
from compat_suite.surface import recorded
from compat_suite.test_fuzz import PROGRAMS

TODAY = datetime.date(2025, 1, 1)
GOOD = {"id": "value torch.neg([2])", "oracle": "torch", "kind": "differs", "reason": "a test", "date": TODAY}
JOB = next(iter(jobs_of(case("torch.neg", s(t(2))))))


class Oracle:
    """Says what it was told."""

    kind, name, attributes = "torch", "an oracle", True

    def __init__(self, result: Result) -> None:
        self.told = result

    def result(self, job: Job) -> Result:
        return self.told


def right() -> Oracle:
    return Oracle(run(ours(), JOB))


def wrong() -> Oracle:
    return Oracle(Result(error=("RuntimeError", "something else")))


def test_an_expected_difference_passes_and_an_unexpected_agreement_fails() -> None:
    book = Ledger(xfail=(Entry(**GOOD),))
    assert judge(JOB, wrong(), book).status == "xfailed"
    stale = judge(JOB, right(), book)
    assert stale.status == "stale"
    assert stale.bad
    assert "remove the entry" in stale.report()


def test_a_skip_does_not_run() -> None:
    assert judge(JOB, wrong(), Ledger(skip=(Entry(**GOOD),))).status == "skipped"


def test_an_entry_of_another_oracle_does_not_count() -> None:
    assert judge(JOB, wrong(), Ledger(xfail=(Entry(**{**GOOD, "oracle": "jax"}),))).status == "failed"
    assert judge(JOB, wrong(), Ledger(xfail=(Entry(**{**GOOD, "oracle": "any"}),))).status == "xfailed"


def test_patterns() -> None:
    entry = Entry(**{**GOOD, "id": "value torch.neg(*"})
    assert entry.matches("value torch.neg([2])", "torch")
    assert not entry.matches("grad torch.neg([2])", "torch")


@pytest.mark.parametrize(
    "change", [{"kind": "strange"}, {"oracle": "nobody"}, {"reason": " "}, {"date": "today"}, {"id": ""}, {"extra": 1}]
)
def test_malformed_entries_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(LedgerError):
        parse({"entry": [{**GOOD, **change}]}, "a file")


def test_missing_fields_duplicates_and_other_tables_are_refused() -> None:
    with pytest.raises(LedgerError, match="fields"):
        parse({"entry": [{k: v for k, v in GOOD.items() if k != "reason"}]}, "a file")
    with pytest.raises(LedgerError, match="twice"):
        parse({"entry": [GOOD, GOOD]}, "a file")
    with pytest.raises(LedgerError, match="only"):
        parse({"entries": []}, "a file")


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "skip.toml").write_text("")
    (tmp_path / "xfail.toml").write_text(
        '[[entry]]\nid = "a"\noracle = "torch"\nkind = "missing"\nreason = "b"\ndate = 2025-01-01\n'
    )
    assert load(tmp_path).xfail == (Entry("a", "torch", "missing", "b", TODAY),)


def test_stale_entries_are_found() -> None:
    book = Ledger(xfail=(Entry(**GOOD), Entry(**{**GOOD, "id": "value torch.gone([2])"})))
    assert [e.id for e in book.stale([(JOB.id, "torch")])] == ["value torch.gone([2])"]


def test_every_entry_in_use_matches_something() -> None:
    known = [job.id for job in all_jobs(CASES)]
    known += [f"name {n}" for names in recorded().values() for n in names]
    known += [f"api {module}.{name}" for module, names in api.recorded().items() for name in names]
    known += [f"fuzz {seed}" for seed in range(PROGRAMS)]
    # Which operators torch's own table lists is known where torch is installed: `opinfo` itself
    # complains of an entry that passes.
    known += [e.id for e in current().xfail if re.match(rf"opinfo (\*|{'|'.join(CHECKS)}) \S+$", e.id)]
    pairs = [(job_id, oracle) for job_id in known for oracle in ("torch", "jax", "numeric")]
    assert not current().stale(pairs)
