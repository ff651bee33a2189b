"""NumPy and XLA give the same: each operator and its gradient is computed by either, whatever the rule would choose."""

import pytest

from compat_suite.compare import differences
from compat_suite.execute import Result, run
from compat_suite.jobs import Job
from compat_suite.libs import ours
from compat_suite.suite import per_case
from torchgrad_jax import clear_caches
from torchgrad_jax._core.host import choice


def _by(executor: str, jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    monkeypatch.setattr(choice, "EXECUTOR", executor)
    clear_caches()
    try:
        return [run(ours(), job) for job in jobs]
    finally:
        monkeypatch.undo()
        clear_caches()


def _expect_the_same(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    found = [_by(executor, jobs, monkeypatch) for executor in ("numpy", "xla")]
    apart = {job.id: differences(job, *both) for job, *both in zip(jobs, *found)}
    assert not any(apart.values()), {name: texts for name, texts in apart.items() if texts}


@per_case("value", most=2)
def test_values(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    _expect_the_same(jobs, monkeypatch)


@per_case("grad", most=1)
def test_gradients(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    _expect_the_same(jobs, monkeypatch)
