"""The comparison of names and signatures notices what it has to notice."""

from typing import Any

import pytest

from compat_suite import api

PLAIN = {"kind": "function", "signature": [["x", "POSITIONAL_OR_KEYWORD", ""]]}
CLASS = {"kind": "class", "signature": None, "members": {"apply": PLAIN}}


def taking(*parameters: list[str]) -> dict[str, Any]:
    return {"kind": "function", "signature": list(parameters)}


def test_equal_names_do_not_differ() -> None:
    assert api.compare(PLAIN, PLAIN) == []
    assert api.compare(CLASS, CLASS) == []


@pytest.mark.parametrize(
    "mine",
    [
        taking(),
        taking(["y", "POSITIONAL_OR_KEYWORD", ""]),
        taking(["x", "KEYWORD_ONLY", ""]),
        taking(["x", "POSITIONAL_OR_KEYWORD", "None"]),
        taking(["x", "POSITIONAL_OR_KEYWORD", ""], ["y", "POSITIONAL_OR_KEYWORD", "1"]),
        taking(["x", "POSITIONAL_OR_KEYWORD", ""], ["y", "KEYWORD_ONLY", ""]),
        {"kind": "function", "signature": None},
        {"kind": "value"},
    ],
)
def test_every_difference_is_said(mine: dict[str, Any]) -> None:
    assert len(api.compare(PLAIN, mine)) == 1


def test_a_keyword_of_our_own_takes_nothing_away() -> None:
    more = taking(["x", "POSITIONAL_OR_KEYWORD", ""], ["check", "KEYWORD_ONLY", "False"])
    assert api.compare(PLAIN, more) == []


def test_a_signature_that_torch_hides_is_not_compared() -> None:
    assert api.compare({"kind": "function", "signature": None}, taking()) == []


def test_members_are_compared() -> None:
    assert api.compare(CLASS, {**CLASS, "members": {}}) == ["`.apply` is missing"]
    (found,) = api.compare(CLASS, {**CLASS, "members": {"apply": taking()}})
    assert found.startswith("`.apply`: takes")
