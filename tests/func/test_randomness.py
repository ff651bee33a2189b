"""Random operations inside vmap, compared with torch."""

from tests.differential import numbers
from tests.expressions import table

test_as_torch_does = table(__file__, "randomness.txt", prelude=["prelude.txt"], look=numbers)
