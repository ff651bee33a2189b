"""torch.autograd.functional, compared with torch."""

from pathlib import Path

from tests.func.judged import table

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
test_as_torch_does = table(
    __file__, PRELUDE, Path(__file__).with_name("functional.txt").read_text()
)
