"""Products with a term added, in half types, to the last bit."""

from tests.expressions import table

test_as_torch_does = table(__file__, "products.txt")
