"""A number that a step reads through holders of any kind, in any form, is noticed when it changes.

Each program of the product runs eagerly and compiled, and must give the same before and after the change. With the
guards switched off a step that checks itself must find the change: so no program of the table is one that cannot fail.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

import torchgrad_jax as torch
from tests.bridge.compile.watch.product import Program, is_in_sample, programs
from torchgrad_jax._bridge.compile.program.entry import Entry

TABLE = list(programs())
GROUPS = {
    f"{name}, {depth} deep": list(group)
    for (name, depth), group in itertools.groupby(
        sorted(TABLE, key=lambda p: (p.chain[0].name, len(p.chain))), lambda p: (p.chain[0].name, len(p.chain))
    )
}
SAMPLE = [program for program in TABLE if is_in_sample(program)]
PARTS = {f"part {i}": SAMPLE[i::4] for i in range(4)}


def as_written(fn: Any) -> Any:
    return fn


def not_noticed(programs: Sequence[Program]) -> list[str]:
    """The programs that compiled do not do what they do eagerly."""
    found = []
    for program in programs:
        (expected, _), (results, _) = program.results(as_written), program.results(torch.compile)
        assert expected[0] != expected[1], program.label
        assert not any(isinstance(result, Exception) for result in expected), program.label
        if repr(results) != repr(expected):
            found.append(f"{program.label}: {results}, not {expected}\n{program.source()}")
    return found


def not_found_by_a_check(programs: Sequence[Program]) -> list[str]:
    """The programs of which a check finds nothing, with no guard before it, though what changes is no input."""
    found = []
    for program in programs:
        results, step = program.results(lambda fn: torch.compile(fn, verify=1))
        traced_anew = step.counts["traced"] > 1 or step.counts["eager"]
        right = program.may_be_an_input and repr(results) == repr(program.results(as_written)[0])
        if not (isinstance(results[1], torch.compiler.StaleProgramError) or traced_anew or right):
            found.append(f"{program.label}: {results}\n{program.source()}")
    return found


def test_programs_are_many_and_different():
    assert len(TABLE) == len({program.label for program in TABLE}) >= 3000
    assert {len(program.chain) - 1 for program in TABLE} == {0, 1, 2, 3}


@pytest.mark.parametrize("part", PARTS)
def test_a_change_is_noticed_in_a_sample(part):
    assert not_noticed(PARTS[part]) == []


@pytest.mark.parametrize("part", PARTS)
def test_a_check_finds_the_change_in_a_sample(part, monkeypatch):
    monkeypatch.setattr(Entry, "why_stale", lambda self, given: None)
    assert not_found_by_a_check(PARTS[part]) == []


@pytest.mark.parametrize("group", GROUPS)
def test_a_change_is_noticed(group):
    assert not_noticed(GROUPS[group]) == []


@pytest.mark.parametrize("group", GROUPS)
def test_a_check_finds_the_change(group, monkeypatch):
    monkeypatch.setattr(Entry, "why_stale", lambda self, given: None)
    assert not_found_by_a_check(GROUPS[group]) == []
