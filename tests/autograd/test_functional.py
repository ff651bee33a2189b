"""torch.autograd.functional, compared with torch."""

from tests.differential import numbers
from tests.expressions import table

PRELUDE = """
functional = torch.autograd.functional
vjp, jvp, vhp, hvp = functional.vjp, functional.jvp, functional.vhp, functional.hvp
jacobian, hessian = functional.jacobian, functional.hessian
x = torch.arange(1.0, 4.0)
s = torch.tensor(2.0)
xr = x.clone().requires_grad_()
sq = lambda x: x**2
sm = lambda x: (x**2).sum()
"""
test_as_torch_does = table(__file__, "functional.txt", prelude=[PRELUDE], look=numbers)
