"""Files of recorded answers read as they were written, and hold no more than is needed."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compat_suite import answers

ROOT = Path(__file__).resolve().parents[2]
TEXT = "Trying to backward through the graph a second time. " * 9


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "values"),
    [
        ("float32[2,2] -.25 3*0", "float32", (2, 2), [-0.25, 0.0, 0.0, 0.0]),
        ("float32[2] -0 inf", "float32", (2,), [-0.0, math.inf]),
        ("complex128[2] 1-0j -inf+2.5j", "complex128", (2,), [complex(1.0, -0.0), complex(-math.inf, 2.5)]),
        ("int64[3] 3*7", "int64", (3,), [7, 7, 7]),
        ("bool[] T", "bool", (), [True]),
        ("float64[0,3]", "float64", (0, 3), []),
    ],
)
def test_a_tensor_as_text(text: str, dtype: str, shape: tuple[int, ...], values: list[Any]) -> None:
    assert answers.tensor_text(dtype, shape, values) == text
    assert answers.is_tensor(text)
    assert repr(answers.tensor_of(text)) == repr((dtype, shape, values))


def test_nan_in_a_tensor() -> None:
    _, _, (value,) = answers.tensor_of(answers.tensor_text("float32", (1,), [math.nan]))
    assert math.isnan(value)


@pytest.mark.parametrize("dtype", answers.ROUNDING)
def test_numbers_have_as_many_digits_as_comparisons_need(dtype: str) -> None:
    most = answers.ROUNDING[dtype]
    drawn = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-20, 20).repeat(5)
    for value in drawn.tolist():
        _, _, (got,) = answers.tensor_of(answers.tensor_text(dtype.replace("complex", "float"), (1,), [value]))
        assert got
        assert abs(got - value) <= most * max(abs(value), 1.0)


@pytest.mark.parametrize(
    "value",
    [
        TEXT,
        "a\nb\n" * 300,
        "x" * 1000,
        [[1, 2, 3]] * 40,
        [[{"a": [TEXT, TEXT]}], {"a": [TEXT, TEXT]}, [], {}, None, True, 1.5],
        [["a text that is long enough to be shared", 1]] * 3 + ["a text that is long enough to be shared"],
    ],
)
def test_a_file_reads_as_it_was_written(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "recorded" / "answers.json"
    written = {"b": value, "a": [value, value], "c": {"of": [value, value, 3.0]}}
    answers.write(path, written)
    assert answers.read(path) == written
    text = path.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) < answers.LONG or "x" * 1000 in text
    assert text.count("x" * 1000) + text.count("backward") / 9 < 2.5
    assert [*json.loads(text)] == sorted(json.loads(text))


@pytest.mark.parametrize("value", ["#1", {"joined": ["a"]}, [{"2 times": 1}]])
def test_what_would_not_read_as_it_was_written_is_refused(value: Any, tmp_path: Path) -> None:
    names = {"#1": 5, "a": value} if value == "#1" else {"a": value}
    with pytest.raises(AssertionError, match="does not read"):
        answers.write(tmp_path / "answers.json", names)


def test_another_answer_changes_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    first = {f"case {n}": [TEXT[n:], TEXT[n:], n] for n in range(5)}
    answers.write(path, first)
    before = path.read_text(encoding="utf-8").splitlines()
    answers.write(path, first | {"another": [TEXT[9:], n := 1, [TEXT[9:]] * n]})
    assert {*before} <= {*path.read_text(encoding="utf-8").splitlines()}


def test_recorded_answers_stay_small() -> None:
    files = [f for top in ("tests", "compat_suite") for f in (ROOT / top).rglob("recorded/*.json")]
    assert len(files) > 100
    assert sum(f.stat().st_size for f in files) < 4.7e6
