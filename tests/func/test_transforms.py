"""grad, vjp, jvp and linearize, compared with torch."""

import pytest

from tests.differential import numbers
from tests.expressions import table

test_as_torch_does = pytest.mark.long(
    "vmap(grad(h))(torch.stack([x, x]))",
    "grad(lambda a: vmap(lambda x: torch.cumprod(x, 0).sin().sum())(a).sum())(A)",
    "vmap(grad(lambda x: torch.cumprod(x, 0).sin().sum()))(A)",
    "grad(lambda a: vmap(lambda x: torch.matrix_exp(x).sum())(a).sum())(C[:, :, :3] / 5)",
    "grad(lambda a: vmap(lambda x: torch.linalg.det(x))(a).sum())(torch.stack([A, A + 2 * torch.eye(3)]))",
)(table(__file__, "transforms.txt", prelude=["prelude.txt"], look=numbers))
