"""Random programs: the same lines on torch and here, compared after each line."""

import pytest

from compat_suite.fuzz.search import search
from compat_suite.judge import Oracle
from compat_suite.ledger import current

PROGRAMS = 150
TOGETHER = 10
"""Programs per test: few enough to spread over the workers."""


@pytest.mark.oracle
@pytest.mark.parametrize("first", range(0, PROGRAMS, TOGETHER))
def test_programs(first: int, torch_oracle: Oracle) -> None:
    bad = []
    seeds = range(first, first + TOGETHER)
    for seed, finding in zip(seeds, search(seeds)):
        known = current().expected_failure(f"fuzz {seed}", "torch")
        if finding is not None and not known:
            bad.append(finding.report())
        if finding is None and known:
            bad.append(f"fuzz {seed} is in the ledger, but agrees now: remove the entry")
    if bad:
        pytest.fail("\n\n".join(bad), pytrace=False)
