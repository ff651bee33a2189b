"""The harness of compiled published models tells programs from calls that run eagerly, and right from wrong."""

import pytest

from compat_suite.packages import compiled
from compat_suite.packages.compiled_models import table


def counts(*rows):
    return [dict(zip(("traced", "run", "eager"), row)) for row in rows]


PROGRAM = counts((1, 1, 0), (2, 2, 0), (2, 3, 0), (2, 4, 0), (2, 5, 0))
AGAIN = counts((1, 1, 0), (2, 2, 0), (2, 3, 0), (3, 4, 0), (3, 5, 0))
WRITTEN = counts((1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0), (4, 4, 1))
TWICE = counts((1, 2, 0), (1, 4, 0), (1, 6, 0), (1, 8, 0), (1, 10, 0))
NEVER = counts(*[(0, 0, 0)] * 5)


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        (PROGRAM, ("program", "")),
        (TWICE, ("program", "")),
        (AGAIN, ("traced again", "why")),
        (WRITTEN, ("eager", "why")),
        (NEVER, ("eager", "it was not called")),
        ([{}] * 5, ("eager", "nothing was compiled")),
    ],
)
def test_what_the_calls_after_the_second_did(rows, want):
    assert compiled.how_it_runs(rows, ["why"]) == want


WELL = {"counts": PROGRAM, "reasons": [], "seconds": [1.0] * 5, "wrong": "", "spoils": "", "end": ""}


@pytest.mark.parametrize(
    ("told", "right", "reason"),
    [
        ({}, "yes", ""),
        ({"wrong": "weight: off"}, "no", "weight: off"),
        ({"spoils": "KeyError"}, "yes, but", "an eager training afterwards: KeyError"),
        ({"wrong": "weight: off", "spoils": "KeyError"}, "no", "weight: off"),
    ],
)
def test_a_verdict(told, right, reason):
    verdict = compiled.judge("llama", "step", WELL | told, 5.0)
    assert (verdict.right, verdict.reason, verdict.good) == (right, reason, not told)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"died": "RecursionError: deep", "end": ""}, "RecursionError: deep"),
        ({"end": "not done after 180 s"}, "not done after 180 s"),
        ({k: v for k, v in WELL.items() if k != "spoils"} | {"end": "the process ended with -11: "}, "the process"),
    ],
)
def test_a_model_that_dies(told, reason):
    verdict = compiled.judge("llama", "model", told, 5.0)
    assert verdict.right == "died"
    assert reason in verdict.reason


def test_the_page_has_a_row_for_each_way():
    rows = [compiled.judge("transformers llama", way, WELL, 5.0) for way in compiled.WAYS]
    page = compiled.page(rows)
    assert page.count("| transformers llama |") == 2
    assert "With the model compiled 1 of 1 are right" in page


def test_the_names_of_models_are_known_without_their_packages():
    names = list(table())
    assert len(names) > 50
    assert {n.partition(" ")[0] for n in names} == {
        "transformers",
        "timm",
        "torchvision",
        "diffusers",
        "peft",
        "accelerate",
    }
