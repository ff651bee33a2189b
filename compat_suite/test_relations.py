"""The relations of `relations.py` hold for each operator: nobody has to know the right result."""

from compat_suite.jobs import Job
from compat_suite.libs import ours
from compat_suite.relations import RELATIONS, Call, broken
from compat_suite.suite import per_case


@per_case("value", most=3)
def test_relations(jobs: list[Job]) -> None:
    calls = [Call(ours(), job) for job in jobs]
    found = [f"{name}: {c.job.id}: {said}" for c in calls for name in RELATIONS for said in broken(name, c)]
    assert not found, "\n".join(found)
