"""Custom Functions under transforms, compared with torch."""

from tests.differential import numbers
from tests.expressions import table

test_as_torch_does = table(__file__, "functions.txt", prelude=["prelude.txt", "functions_prelude.txt"], look=numbers)
