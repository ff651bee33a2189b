"""Small calls: numbers that do not fit, arguments of a wrong type, results written elsewhere."""

from pathlib import Path

from tests.expressions import Expressions

test_as_torch_does = Expressions(__file__).test(
    Path(__file__).with_name("small_calls.txt").read_text()
)
