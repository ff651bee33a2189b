"""Every name that torch has for a core operator exists; `out=` works where torch takes it."""

import json

import pytest

from compat_suite import api, surface
from compat_suite.cases import COVERED
from compat_suite.jobs import Job
from compat_suite.judge import Oracle
from compat_suite.ledger import current
from compat_suite.libs import live_torch, ours
from compat_suite.suite import expect_agreement, per_case


@pytest.fixture(scope="module")
def torch_names(torch_oracle: Oracle) -> dict[str, list[str]]:
    if torch_oracle.name.startswith("recorded"):
        return surface.recorded()
    return surface.names_of(live_torch())


@pytest.mark.parametrize("core", [*COVERED, "Python operators"])
def test_names(core: str, torch_names: dict[str, list[str]]) -> None:
    missing = {n for n in torch_names[core] if not ours().has(n)}
    known = {n for n in torch_names[core] if current().expected_failure(f"name {n}", "torch")}
    assert missing == known, f"missing: {sorted(missing - known)}; in the ledger but there: {sorted(known - missing)}"


@per_case("out")
def test_out(jobs: list[Job], torch_oracle: Oracle) -> None:
    expect_agreement(jobs, torch_oracle)


@pytest.mark.parametrize("module", api.recorded())
def test_names_and_signatures_of_autograd(module: str) -> None:
    rows = [r for r in api.names(ours(), current()) if r.path.rpartition(".")[0] == module]
    unknown = [
        f"{r.path}: {r.state} {r.how}"
        for r in rows
        if r.state != "same" and not current().expected_failure(f"api {r.path}", "torch")
    ]
    assert not unknown


def test_what_is_recorded_of_autograd_is_what_torch_has(torch_oracle: Oracle) -> None:
    if torch_oracle.name.startswith("recorded"):
        assert {"torch.autograd", "torch.autograd.graph"} <= set(api.recorded())
    else:
        live = api.facts(live_torch())
        assert json.loads(json.dumps(live)) == api.recorded()
