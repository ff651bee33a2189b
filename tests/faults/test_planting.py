"""Planted faults: what is drawn, what is planted, and where a copy says that a line is reached."""

import pytest

from .draw import faults_of
from .listed import Fault, complaints, mark, read, write
from .survey import watched

SOURCE = '''\
"""Text."""


class Counter:
    def add(self, n):
        if n < 0:
            raise ValueError("below zero")
        elif n == 0:
            return
        for i in range(n):
            self.total += i


def add(n):
    return 1 if n < 0 else n
'''


def test_a_fault_is_one_line_of_its_function():
    fault = Fault("x.py", "Counter.add", "if n < 0:", "if n <= 0:")
    assert fault.planted(SOURCE) == SOURCE.replace("if n < 0:", "if n <= 0:")
    assert Fault("x.py", "add", "if n < 0:", "if n <= 0:").planted(SOURCE) is None
    assert Fault("x.py", "Counter.add", "if n < 0:", "if n <= 0:", nth=2).planted(SOURCE) is None


@pytest.mark.parametrize(
    ("line", "before"), [("elif n == 0:", "if n < 0:"), ("return", "return"), ("self.total += i", "self.total += i")]
)
def test_the_statement_around_a_line_says_first_that_it_is_reached(line, before):
    fault = Fault("x.py", "Counter.add", line, "pass")
    lines = [text.strip() for text in watched(SOURCE, [fault]).splitlines()]
    said = lines.index(f'_reached("{fault.name}")')
    assert lines[said + 1] == before
    compile("\n".join(watched(SOURCE, [fault]).splitlines()), "x", "exec")


def test_what_may_be_drawn(tmp_path):
    (tmp_path / "x.py").write_text(SOURCE)
    drawn = {(kind, f.function, f.line, f.wrong) for kind, f in faults_of(tmp_path / "x.py", tmp_path)}
    assert ("turned", "Counter.add", "if n < 0:", "if n <= 0:") in drawn
    assert ("dropped", "Counter.add", "self.total += i", "pass") in drawn
    assert ("branch", "add", "return 1 if n < 0 else n", "return 1 if False else n") in drawn
    assert ("number", "add", "return 1 if n < 0 else n", "return 2 if n < 0 else n") in drawn


def test_a_list_is_read_as_it_was_written(tmp_path):
    faults = [Fault("a.py", "f", "x = 1", "x = 2", nth=2, found=True), Fault("a.py", "", "y == 1", "y != 1", nth=3)]
    write(tmp_path / "list", faults)
    assert sorted(read(tmp_path / "list"), key=lambda f: f.nth) == faults


def test_what_was_found_is_noted_beneath_the_comments(tmp_path):
    text = "# Why.\nb.py :: g #2\n- x = 1\n+ x = 2\n\n# Other.\na.py :: f\n- y\n+ z\n"
    (tmp_path / "list").write_text(text)
    mark({read(tmp_path / "list")[0].name}, [tmp_path / "list"])
    assert (tmp_path / "list").read_text() == text.replace("g #2", "g #2 = found")
    assert [f.found for f in read(tmp_path / "list")] == [True, False]


def test_complaints_say_which_faults_cannot_be_planted(tmp_path):
    (tmp_path / "x.py").write_text(SOURCE)
    right = Fault("x.py", "add", "return 1 if n < 0 else n", "return n")
    gone = Fault("x.py", "add", "return 2", "return n")
    broken = Fault("x.py", "Counter.add", "if n < 0:", "if n < 0")
    said = complaints([right, gone, broken, right], tmp_path)
    assert [text.partition(":")[0] for text in said] == ["comes twice", "is not there", "is no Python"]
