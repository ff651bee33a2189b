"""jacrev, jacfwd and hessian, compared with torch."""

from tests.differential import numbers
from tests.expressions import table

test_as_torch_does = table(__file__, "jacobians.txt", prelude=["prelude.txt"], look=numbers)
