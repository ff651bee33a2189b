"""Sums with a scaled term, in half types, to the last bit."""

from pathlib import Path

from tests.expressions import Expressions

test_as_torch_does = Expressions(__file__).test(Path(__file__).with_name("sums.txt").read_text())
