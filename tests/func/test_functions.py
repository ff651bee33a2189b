"""Custom Functions under transforms, compared with torch."""

import pytest

from tests.differential import numbers
from tests.expressions import table

test_as_torch_does = pytest.mark.long(
    "grad(lambda a: vmap(lambda x: vmap(lambda y: Cube.apply(x * y))(x))(a).sum())(A)",
    "jacrev(jacrev(lambda x: Cube.apply(x).sum()))(x)",
    "vmap(jacrev(Cube.apply))(A)",
)(table(__file__, "functions.txt", prelude=["prelude.txt", "functions_prelude.txt"], look=numbers))
