"""Programs whose choices hypothesis makes: it likes extremes, where a seeded generator is even-handed.

`compat_suite/test_fuzz.py` runs this file in a process of its own: what is drawn, and hence what is found,
must not depend on the tests that ran before.
"""

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from ..libs import live_torch, ours
from .programs import make
from .search import Finding, judge, shrink


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # programs are made smaller line by line, in our own way
    suppress_health_check=list(HealthCheck),  # type: ignore[call-overload]
)
@given(st.randoms(use_true_random=False))
def test_drawn_programs(rng: random.Random) -> None:
    """Each program agrees with torch after every line."""
    program = make(rng, live_torch(), ours(), 10)
    found = judge(program, ours(), live_torch()) if program.lines else None
    if found is not None:
        small = shrink(Finding(-1, program, found), ours(), live_torch())
        pytest.fail(small.report(), pytrace=False)
