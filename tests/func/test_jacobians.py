"""jacrev, jacfwd and hessian, compared with torch."""

import pytest

import torchgrad_jax as torch
from tests.differential import numbers
from tests.expressions import table

test_as_torch_does = table(__file__, "jacobians.txt", prelude=["prelude.txt"], look=numbers)


@pytest.mark.parametrize("transform", ["jacfwd", "hessian", "jacrev", "grad"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_derivatives_of_rows_along_any_dimension(transform, dim):
    """A row of a batch that is not its first dimension has strides of its own; tangents are laid out like it."""
    derivative = getattr(torch.func, transform)(lambda t: (t.pow(3) * t[0, 0]).sum())
    rows = torch.arange(12.0).view(2, 3, 2)
    out = torch.vmap(derivative, in_dims=dim)(rows.movedim(0, dim))
    torch.testing.assert_close(out, torch.stack([derivative(row) for row in rows]))
