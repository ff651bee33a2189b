"""Small calls: numbers that do not fit, arguments of a wrong type, results written elsewhere."""

import pytest

from tests.expressions import table

test_as_torch_does = pytest.mark.long(
    "text84",
    "text85",
    "v = torch.ones(2, 3, dtype=torch.bool)[:, ::2][:, None]; v.pow(3).stride()",
    "text87",
    'm = torch.eye(3).requires_grad_(); torch.linalg.matrix_norm(m[None], "nuc", (0, 1), True)',
)(table(__file__, "small_calls.txt"))
