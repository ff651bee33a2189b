"""Backward passes inside of `vmap` that are compiled as a whole."""

import torchgrad_jax as torch
from torchgrad_jax.func import grad, vmap

F = torch.nn.functional


def test_saved_values_keep_their_places():
    """A view is read again at each look inside of vmap: two looks must not take one for another."""
    torch.manual_seed(2)
    p = [torch.randn(s, requires_grad=True) for s in ((23, 1), (23,), (1, 23), (1,))]

    def net(p, x):
        return F.linear(torch.tanh(F.linear(x, p[0], p[1])), p[2], p[3])

    x = torch.randn(10, 1)
    gs = torch.autograd.grad(F.mse_loss(net(p, x), x), p, create_graph=True)
    F.mse_loss(net([a - 0.1 * g for a, g in zip(p, gs)], x), x).backward()
    fixed = [a.detach() for a in p]

    def loss(p, x, y):
        return F.mse_loss(net(p, x.unsqueeze(0)), y.unsqueeze(0))

    xs, ys = torch.linspace(-1, 1, 4).view(4, 1), torch.zeros(4, 1)
    for _ in range(3):
        got = vmap(grad(loss), in_dims=(None, 0, 0))(fixed, xs, ys)
        for i in range(4):
            want = grad(loss)(fixed, xs[i], ys[i])
            for a, b in zip(got, want):
                torch.testing.assert_close(a[i], b)


def test_a_reduction_of_all_of_an_example_leaves_one_dimension():
    """In torch another overload, with a node of another name."""
    x = torch.rand(3, 4, requires_grad=True) * 1
    names = {
        "sum": "SumBackward1",
        "mean": "MeanBackward1",
        "prod": "ProdBackward1",
        "median": "MedianBackward1",
        "max": "MaxBackward0",
        "min": "MinBackward0",
        "amax": "AmaxBackward0",
    }
    for name, node in names.items():
        assert vmap(getattr(torch, name))(x).grad_fn.name() == node
    assert vmap(lambda v: v.sum(0))(x).grad_fn.name() == "SumBackward1"
