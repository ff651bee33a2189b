"""Which tests run on a day: as many as fit into the time, the short ones always, each of the others in its turn."""

import itertools

import pytest

from tests.measured import Seconds, chosen, main, table

TESTS = [f"tests/test_a.py::test_quick[{i}]" for i in range(100)] + [
    f"tests/test_b.py::test_slow[{i}]" for i in range(40)
]
SECONDS = Seconds(["tests/test_a.py", "\t0.1\ttest_quick", "tests/test_b.py", "\t2\ttest_slow", "\t8\ttest_slow[7]"])


def run_on(day: int, budget: float = 30.0) -> set[str]:
    return {test for test, runs in zip(TESTS, chosen(TESTS, SECONDS, budget, day)) if runs}


def test_short_tests_run_always_and_all_tests_take_the_time():
    days = [run_on(day) for day in range(60)]
    assert all(day.issuperset(TESTS[:100]) for day in days)
    takes = [sum(map(SECONDS.of, day)) for day in days]
    assert sum(takes) / len(takes) == pytest.approx(30.0, rel=0.1)
    assert max(takes) < 45


def test_long_tests_run_in_turn():
    """20 seconds are left for 40 tests, half a second for each: one of 2 seconds runs on one day in four."""
    for test in TESTS[100:]:
        on = [day for day in range(200) if test in run_on(day)]
        each = SECONDS.of(test) / 0.5
        assert max(b - a for a, b in itertools.pairwise(on)) <= 3 * each
        assert len(on) == pytest.approx(200 / each, rel=0.25)


def test_more_time_runs_more_tests_beside_the_same():
    for day in range(5):
        assert run_on(day, 20.0) < run_on(day, 60.0) < run_on(day, 100.0) == set(TESTS)


def test_what_nobody_has_measured_runs_always():
    new = ["tests/test_c.py::test_new[case]", *TESTS]
    assert all(chosen(new, SECONDS, 5.0, day)[0] for day in range(20))


def test_a_case_that_takes_longer_than_its_like_has_a_line():
    notes = {test: SECONDS.of(test) for test in TESTS} | {"tests/test_c.py::test_tiny": 0.001}
    text = table(notes)
    assert "\t8\ttest_slow[7]\n" in text
    assert len(text.splitlines()) == 5
    again = Seconds(text.splitlines())
    assert [again.of(test) for test in TESTS] == [SECONDS.of(test) for test in TESTS]


def test_what_did_not_run_keeps_its_time(tmp_path, monkeypatch):
    stored = tmp_path / "seconds.txt"
    stored.write_text(table({test: SECONDS.of(test) for test in TESTS}), encoding="utf-8")
    monkeypatch.setattr("tests.measured.FILE", stored)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "1.txt").write_text(f"0.5\t{TESTS[0]}\n0.7\t{TESTS[1]}\n0.5\t{TESTS[2]}\n", encoding="utf-8")
    assert main(str(notes)) == 0
    found = Seconds.stored()
    assert found.of(TESTS[5]) == 0.5
    assert found.of("tests/test_b.py::test_slow[7]") == 8
    (notes / "1.txt").write_text("0.4\ttests/test_b.py::test_slow[1]\n", encoding="utf-8")
    assert main(str(notes)) == 0
    assert Seconds.stored().of("tests/test_b.py::test_slow[7]") == 8  # a case that the day has left out


def test_what_was_not_measured_again_keeps_its_lines():
    known = {"a.py::f": 0.1, "a.py::f[long]": 5.0, "a.py::f[longer]": 7.0}
    lines = table({"b.py::g[1]": 2.0, "b.py::g[2]": 2.0}, known)
    assert lines == "a.py\n\t0.1\tf\n\t5\tf[long]\n\t7\tf[longer]\nb.py\n\t2\tg\n"
