"""Random programs: the same lines on torch and here, compared after each line."""

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from compat_suite.fuzz import recorded
from compat_suite.fuzz.programs import compare, make
from compat_suite.fuzz.search import Finding, judge, program_of, search, shrink
from compat_suite.judge import Oracle
from compat_suite.ledger import current
from compat_suite.libs import live_torch, ours

PROGRAMS = 150
TOGETHER = 10
"""Programs per test: few enough to spread over the workers."""


def expect_no_finding(seed: int, finding: Finding | None) -> str | None:
    """A complaint, in the light of the ledger."""
    known = current().expected_failure(f"fuzz {seed}", "torch")
    if finding is None:
        return f"fuzz {seed} is in the ledger, but agrees now: remove the entry" if known else None
    return None if known else finding.report()


@pytest.mark.oracle
@pytest.mark.parametrize("first", range(0, PROGRAMS, TOGETHER))
def test_programs(first: int, torch_oracle: Oracle) -> None:
    seeds = range(first, first + TOGETHER)
    bad = [expect_no_finding(seed, finding) for seed, finding in zip(seeds, search(seeds))]
    if any(bad):
        pytest.fail("\n\n".join(filter(None, bad)), pytrace=False)


@pytest.mark.oracle
def test_programs_do_something() -> None:
    lengths = [len(program_of(seed).lines) for seed in range(20)]
    assert sum(lengths) > 10 * len(lengths), lengths


@pytest.mark.oracle
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # programs are made smaller line by line, in our own way
    suppress_health_check=list(HealthCheck),
)
@given(st.randoms(use_true_random=False))
def test_drawn_programs(rng: random.Random) -> None:
    """Hypothesis makes the choices: it likes extremes, where a seeded generator is even-handed."""
    program = make(rng, live_torch(), ours(), 10)
    found = judge(program, ours(), live_torch()) if program.lines else None
    if found is not None:
        small = shrink(Finding(-1, program, found), ours(), live_torch())
        pytest.fail(small.report(), pytrace=False)


@pytest.mark.parametrize("seed", range(recorded.PROGRAMS))
def test_recorded_programs(seed: int, torch_oracle: Oracle) -> None:
    if not torch_oracle.name.startswith("recorded"):
        pytest.skip("live torch runs these programs and more")
    program, outcomes = recorded.load()[seed]
    found = compare(program, ours(), outcomes)
    bad = expect_no_finding(seed, None if found is None else Finding(seed, program, found))
    if bad:
        pytest.fail(bad, pytrace=False)
