"""Random operations inside vmap, compared with torch."""

import pytest

from tests.differential import numbers
from tests.expressions import table

test_as_torch_does = pytest.mark.long('vmap(lambda x: torch.bernoulli(x, 0.5), randomness="different")(A)')(
    table(__file__, "randomness.txt", prelude=["prelude.txt"], look=numbers)
)
