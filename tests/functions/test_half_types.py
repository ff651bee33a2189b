"""Sums and products with a scaled term, in half types, to the last bit."""

from tests.expressions import table

test_as_torch_does = table(__file__, "half_types.txt")
