"""Small calls: numbers that do not fit, arguments of a wrong type, results written elsewhere."""

from tests.expressions import table

test_as_torch_does = table(__file__, "small_calls.txt")
