"""Suites written for torch, on unittest, on pytest and on torch.testing._internal, run as they are.

What each test does under torch lies in recorded/suites.json, which TORCHGRAD_RECORD=1 writes again.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUITES = [str(HERE / "suites" / name) for name in ("mixed.py", "parametrized.py")]
RECORDED = HERE / "recorded" / "suites.json"
LINE = re.compile(r"^\S*?(\w+\.py::\S+) ([A-Z]+)( \(.*\))?", re.MULTILINE)


def run(tmp_path, *command):
    """What each test of the suites did, as pytest says, and what their TestCase takes for equal."""
    answers = tmp_path / "equality.json"
    env = {**os.environ, "EQUALITY": str(answers), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    quiet = ["-v", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(HERE)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, *command, *SUITES],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    outcomes = {name: f"{state}{reason or ''}" for name, state, reason in LINE.findall(done.stdout)}
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return {"outcomes": outcomes, "equality": json.loads(answers.read_text())}


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return run(tmp_path_factory.mktemp("suites"), "-p", "torchgrad_jax.pytest_alias")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    if os.environ.get("TORCHGRAD_RECORD") == "1":
        found = run(tmp_path_factory.mktemp("suites"))
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    return json.loads(RECORDED.read_text())


def test_same_tests_with_the_same_outcomes(ours, theirs):
    assert len(theirs["outcomes"]) > 40
    assert ours["outcomes"] == theirs["outcomes"]


def test_same_things_are_equal(ours, theirs):
    for i, (got, want) in enumerate(zip(ours["equality"], theirs["equality"], strict=True)):
        assert got == want, f"comparison {i}"


def test_run_by_themselves(tmp_path):
    """`run_tests()` under `python -m torchgrad_jax`, with a seed of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "torchgrad_jax", SUITES[0], "--seed=1234", "Unit"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 8 tests" in done.stderr
    assert "OK (expected failures=1)" in done.stderr


def test_names_that_are_not_there():
    found = importlib.import_module("torchgrad_jax.testing._internal.common_utils")
    with pytest.raises(AttributeError, match=r"torch.testing._internal.common_utils.nothing"):
        found.nothing
