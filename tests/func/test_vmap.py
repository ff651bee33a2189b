"""vmap, compared with torch."""

import pytest

from tests.differential import numbers
from tests.expressions import table

test_as_torch_does = pytest.mark.long(
    "after(lambda: vmap(with_views)(A), A)",
    "vmap(lambda x: vmap(lambda y: x + y)(A) + s)(A)",
    "torch.autograd.grad(vmap(with_views)(Ar).sum(), Ar)",
    "text238",
    "vmap(torch.linalg.inv)(torch.stack([torch.eye(2), torch.zeros(2, 2)]))",
    "vmap(torch.linalg.cholesky)(torch.stack([torch.eye(2), -torch.eye(2)]))",
)(table(__file__, "vmap.txt", prelude=["prelude.txt"], look=numbers))
