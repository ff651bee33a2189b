"""`python -m compat_suite targets`: which operators compile for hardware that is not here."""

import argparse
import datetime

import pytest

from compat_suite import cli, targets
from compat_suite.ledger import Entry
from compat_suite.saved_state import SavedState


def entry(id):
    return Entry(id, "any", "upstream", "the compiler has none", datetime.date(2026, 11, 30))


ROWS = {
    "v5e:2x2 value torch.sin([3]) float32": (targets.COMPILES, ""),
    "v5e:2x2 grad torch.linalg.svd([2,2]) float32": (targets.FAILS, "the compiler ends the process"),
    "h100 value torch.allclose([3], [3]) float32": (targets.NOWHERE, "values are needed"),
}


def test_each_row_has_a_forward_and_a_gradient_in_the_dtypes_that_such_chips_have():
    jobs = targets.all_jobs(["torch.cumsum"])
    kinds = {(job.check, job.dtype) for job in jobs}
    assert {("value", "float32"), ("value", "bfloat16"), ("value", "int64"), ("grad", "float32")} <= kinds
    assert ("second", "float32") in kinds
    assert not any(job.dtype in ("float64", "complex128") for job in targets.all_jobs())


def test_a_sample_is_the_same_for_the_same_seed():
    jobs = targets.all_jobs()
    few = targets.sampled(jobs, 20, "")
    assert few == targets.sampled([*reversed(jobs)], 20, "") == targets.sampled(jobs, 40, "")[:20]
    assert few != targets.sampled(jobs, 20, "tomorrow")


def test_what_fails_has_to_be_known_and_what_is_known_has_to_fail():
    assert targets.judged(ROWS, [], all_ran=True) == [
        "v5e:2x2 grad torch.linalg.svd([2,2]) float32: the compiler ends the process"
    ]
    assert targets.judged(ROWS, [entry("v5e:2x2 * torch.linalg.svd(*")], all_ran=True) == []
    (wrong,) = targets.judged(ROWS, [entry("v5e:2x2 grad torch.linalg.svd*"), entry("* torch.sin(*")], all_ran=True)
    assert "torch.sin([3]) float32 compiles" in wrong
    known = [entry("v5e:2x2 grad torch.linalg.svd*"), entry("h100 * torch.qr*")]
    assert targets.judged(ROWS, known, all_ran=False) == []
    assert "matches nothing" in targets.judged(ROWS, known, all_ran=True)[0]


def test_the_table_counts_by_target_and_check():
    assert targets.summary(ROWS).splitlines()[2:] == [
        "| v5e:2x2 | forward | 1 | 0 | 0 |",
        "| v5e:2x2 | gradient | 0 | 1 | 0 |",
        "| h100 | forward | 0 | 0 | 1 |",
    ]


def test_without_compilers_the_command_says_so(monkeypatch, capsys):
    monkeypatch.setattr(targets, "targets_of", lambda names: None)
    assert targets.main(argparse.Namespace(on=None)) == 0
    assert "the compilers for TPUs and GPUs are not installed (make targets)" in capsys.readouterr().out


def test_a_compiler_that_ends_its_process_costs_one_row(monkeypatch):
    """What ends the process is a failure of that row, and the next one has a new process."""
    jobs = targets.all_jobs(["torch.sin"])[:2]
    answers = iter([EOFError(), (targets.COMPILES, "")])
    started = []

    class Pipe:
        def send(self, what):
            pass

        def poll(self, seconds):
            return True

        def recv(self):
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        def close(self):
            pass

    class Process:
        def __init__(self, **_):
            started.append(self)

        def start(self):
            pass

        def join(self):
            pass

    class Context:
        def Pipe(self):
            return Pipe(), Pipe()

        def Process(self, **named):
            return Process(**named)

    monkeypatch.setattr(targets.multiprocessing, "get_context", lambda kind: Context())
    state = SavedState(None, "test")
    targets.run(jobs, ["v5e:2x2"], state)
    assert [row[0] for row in state.rows.values()] == [targets.FAILS, targets.COMPILES]
    assert len(started) == 2


@pytest.mark.usefixtures("tpu", "gpu")
def test_a_few_operators_compile(capsys):
    assert cli.main(["targets", "--op", "torch.cumsum", "--op", "torch.nn.functional.softmax"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert {row.split(" | ")[0] for row in rows[2:]} == {"| v5e:2x2", "| h100"}
    assert all(row.endswith(" | 0 | 0 |") for row in rows[2:])
