"""What suites about modules derive from and check with."""

# ruff: noqa: PT009 - it is unittest's TestCase
from __future__ import annotations

from typing import Any

import torchgrad_jax as torch

from ._missing import missing_in
from ._test_case import TestCase


def get_reduction(m: Any) -> str:
    """How a loss reduces: its attribute, or what its older ones amount to."""
    reduction = getattr(m, "reduction", None)
    if reduction is None:
        average = getattr(m, "size_average", getattr(m, "sizeAverage", None))
        reduction = "mean" if average is None or average else "sum"
    return reduction


def _create_basic_net() -> tuple[Any, Any, Any]:
    """A layer, and two nets around it, one in the other."""

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer_dummy_param = torch.nn.Parameter(torch.empty(3, 5))
            self.layer_dummy_buf = torch.nn.Buffer(torch.zeros(1, 3, 3, 7))

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l1 = Layer()
            self.dummy_param = torch.nn.Parameter(torch.empty(3, 5))
            self.dummy_buf = torch.nn.Buffer(torch.zeros(7, 3, 3, 1))

    layer, net = Layer(), Net()
    return layer, net, torch.nn.Sequential(net)


def _test_module_empty_input(
    test_case: Any, module: Any, inp: Any, check_size: bool = True, inference: bool = False
) -> None:
    """Check that a module takes no elements, and gives gradients of no elements."""
    if not inference:
        inp.requires_grad_(True)
    out = module(inp)
    if not inference:
        out.backward(torch.rand_like(out))
    if check_size:
        test_case.assertEqual(out.size(), inp.size())
    if not inference:
        for p in module.parameters():
            if p.requires_grad:
                test_case.assertEqual(p.grad, torch.zeros_like(p.grad))
        test_case.assertEqual(inp.grad, torch.zeros_like(inp))


def _test_bfloat16_ops(
    test_case: Any, op: Any, device: Any, inp_dims: Any = (), prec: float = 1e-2, scale_factor: Any = None
) -> None:
    """Check that a module gives in bfloat16 nearly what it gives in float32, with the same gradients."""
    wide = torch.randn(inp_dims, dtype=torch.float32, device=device, requires_grad=True)
    upstream = None
    found = []
    for kind in (torch.float32, torch.bfloat16):
        x = wide.detach().to(kind).requires_grad_()
        fn = op.to(kind) if isinstance(op, torch.nn.Module) else op
        out = fn(x)
        if upstream is None:
            upstream = torch.randn_like(out)
        out.backward(upstream.to(kind))
        found.append((out.detach(), x.grad))
    for a, b in zip(*found):
        test_case.assertEqual(a, b, atol=prec, rtol=prec, exact_dtype=False)


class NNTestCase(TestCase):
    """Checks of modules by their whole Jacobian."""

    def _forward(self, module: Any, input: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _forward")

    def _backward(self, module: Any, input: Any, output: Any, grad_output: Any, create_graph: bool = False) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _backward")

    def _get_parameters(self, module: Any) -> tuple[list[Any], list[Any]]:
        """The parameters of a module and their gradients."""
        params = list(module.parameters())
        return params, [p.grad for p in params]

    def _zero_grad_parameters(self, module: Any) -> None:
        """Make the gradients of a module zeros."""
        for p in module.parameters():
            if p.grad is not None:
                p.grad = p.grad.detach().zero_()

    def _flatten_tensors(self, x: Any) -> Any:
        """All numbers of nested tensors as one vector."""
        if isinstance(x, torch.Tensor):
            return x.reshape(-1)
        return torch.cat([self._flatten_tensors(v) for v in x]) if len(x) else torch.zeros(0)

    def check_jacobian(self, module: Any, input: Any, jacobian_input: bool = True) -> None:
        """Check a module's derivatives by finite differences.

        Args:
            module: a module of float64 parameters.
            input: a float64 tensor.
            jacobian_input: whether derivatives by the input are checked, besides those by the parameters.
        """
        params = tuple(p for p in module.parameters() if p.requires_grad)
        given = (input.detach().requires_grad_(), *params) if jacobian_input else params
        x = given[0] if jacobian_input else input
        self.assertTrue(torch.autograd.gradcheck(lambda *_: self._forward(module, x), given))


__getattr__ = missing_in("common_nn")
