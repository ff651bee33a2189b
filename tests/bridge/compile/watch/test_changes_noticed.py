"""Whatever changes around a compiled step is noticed, and whatever a step does outside is done in each call.

Each row of the tables beside this file runs eagerly and compiled, and must give and leave behind the same.
"""

import zlib
from collections.abc import Callable
from typing import Any

import pytest

import torchgrad_jax as torch
from tests.bridge.compile.watch.changed_steps import UNSEEN, WAYS, Observer, Row, rows_of, to_five_digits
from torchgrad_jax._bridge.compile.program.entry import Entry

CHANGES, EFFECTS = rows_of("changes"), rows_of("effects")


def ways_of(row: Row) -> list[str]:
    """All ways for one row in eight; for the others the step by itself, and every second time one other way."""
    number, (first, *others) = zlib.crc32(row.label.encode()), WAYS
    if number % 8 == 0:
        return [first, *others]
    return [first, others[number // 2 % 4]] if number % 2 else [first]


def each_way(table: list[Row]) -> Any:
    """The rows in their ways, as parameters of a test."""
    found = [(row, way) for row in table for way in ways_of(row)]
    return pytest.mark.parametrize("row, way", found, ids=[f"{row.label}-{way}" for row, way in found])


class Stale:
    """A step that is run once, and whose result is then given again: what a program does that notices nothing."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn, self.result = fn, None

    def __call__(self, x: Any) -> Any:
        if self.result is None:
            self.result = to_five_digits(self.fn(x))
        return self.result


def as_written(fn: Any) -> Any:
    return fn


@pytest.fixture
def observed(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> Callable[..., list[Any]]:
    """What a row gives and leaves behind in a way, its step wrapped by a function."""

    def observe(row: Row, way: str, wrap: Callable[[Any], Any]) -> list[Any]:
        return Observer(row, way, wrap.__name__, tmp_path, capfd).observe(wrap)

    return observe


def test_labels_are_unique_and_there_are_enough():
    labels = [row.label for row in CHANGES + EFFECTS]
    assert sorted(set(labels)) == sorted(labels)
    assert len(CHANGES) >= 200


@pytest.mark.parametrize("row", CHANGES + EFFECTS, ids=lambda row: row.label)
def test_a_program_that_notices_nothing_would_differ(row, observed):
    expected = observed(row, "function", as_written)
    assert observed(row, "function", Stale) != expected
    results = [result for result, _ in expected]
    assert not any(isinstance(result, str) and "Error" in result for result in results), results
    if row.then and not row.whole:
        assert results[1] != results[2]


@each_way(CHANGES)
def test_a_change_is_noticed(row, way, observed):
    compiled, expected = observed(row, way, torch.compile), observed(row, way, as_written)
    if row.label in UNSEEN:
        assert compiled != expected, f"it is seen by now: {UNSEEN[row.label]}"
    else:
        assert compiled == expected


@each_way(EFFECTS)
def test_an_effect_is_repeated(row, way, observed):
    assert observed(row, way, torch.compile) == observed(row, way, as_written)


@pytest.mark.parametrize("row", [row for row in CHANGES if row.then], ids=lambda row: row.label)
def test_a_check_finds_a_stale_program(row, tmp_path, capfd, monkeypatch):
    """The first call after the change raises, unless it is another kind of call, or what changes is an input."""
    outcomes = []

    class Checked:
        def __init__(self, fn: Any) -> None:
            monkeypatch.setattr(Entry, "why_stale", lambda self, tensors: None)  # no guard notices anything
            self.compiled = torch.compile(fn, verify=1)

        def __call__(self, x: Any) -> Any:
            before = dict(self.compiled.counts)
            try:
                result = self.compiled(x)
            except Exception as e:
                outcomes.append(type(e).__name__)
                raise
            now = self.compiled.counts
            outcomes.append(
                "eager"
                if now["eager"] > before["eager"]
                else "traced"
                if now["traced"] > before["traced"]
                else "program"
            )
            return result

    Observer(row, "function", "checked", tmp_path, capfd).observe(Checked)
    assert "StaleProgramError" not in outcomes[:2]
    assert outcomes[2] in ("StaleProgramError", "eager", "traced", *(["program"] if row.kind == "input" else []))
