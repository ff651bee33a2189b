"""Gradients of each example, as in `torch.nn.utils._per_sample_grad`."""

import importlib
from typing import Any

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def per_sample(m: Any, module: Any, **options: Any) -> Any:
    where = importlib.import_module(f"{m.__name__}.nn.utils._per_sample_grad")
    return where.call_for_per_sample_grads(module, **options)


def expanded(m: Any, *args: Any) -> Any:
    where = importlib.import_module(f"{m.__name__}.nn.utils._expanded_weights")
    return where.ExpandedWeight(*args)


def filled(m: Any, module: Any) -> Any:
    """With parameters that do not depend on how they are drawn."""
    with m.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_((m.arange(1, p.numel() + 1, dtype=m.float64) * (i + 2)).sin().reshape(p.shape))
    return module


def samples(m: Any, module: Any) -> list[Any]:
    return [(p.grad, p.grad_sample, p.grad_sample.requires_grad) for p in module.parameters()]


@program
def layers(m):
    nn = m.nn
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding="same"), nn.GroupNorm(2, 4), nn.Tanh(), nn.InstanceNorm2d(4, affine=True),
        nn.Tanh(), nn.Flatten(2), nn.LayerNorm(9), nn.Linear(9, 2),
    )  # fmt: skip
    filled(m, net.double())
    x = (m.arange(54.0).double() * 3).cos().reshape(3, 2, 3, 3).requires_grad_()
    y = per_sample(m, net)(x)
    y.pow(3).sum().backward()
    return y.grad_fn.name(), y, x.grad, samples(m, net)


@program
def convolutions(m):
    found = []
    for dims, kind in enumerate((m.nn.Conv1d, m.nn.Conv2d, m.nn.Conv3d), 1):
        net = filled(m, kind(2, 4, 2, stride=2, padding=1, groups=2))
        x = m.arange(2.0 * 2 * 3**dims).sin().reshape(2, 2, *[3] * dims)
        y = per_sample(m, net, loss_reduction="mean")(x)
        y.square().mean().backward()
        found.append((y.grad_fn.name(), samples(m, net)))
    return found


@program
def words(m):
    """The padding index gets a gradient too, in torch."""
    net = filled(m, m.nn.Embedding(5, 3, padding_idx=1))
    y = per_sample(m, net)(m.tensor([[1, 2], [2, 2]]))
    (y * m.arange(12.0).reshape(2, 2, 3)).sum().backward()
    return y, samples(m, net)


@program
def a_weight_used_twice(m):
    class Twice(m.nn.Linear):
        def forward(self, x):
            return super().forward(super().forward(x).tanh())

    net = filled(m, Twice(2, 2))
    per_sample(m, net)(m.arange(6.0).reshape(3, 2)).sum().backward()
    return samples(m, net)


@program
def more_dimensions_between(m):
    net = filled(m, m.nn.Linear(2, 3, bias=False))
    x = m.arange(8.0).reshape(2, 2, 2).requires_grad_()
    per_sample(m, net)(x).square().sum().backward()
    return x.grad, samples(m, net)


@program
def frozen_bias(m):
    net = filled(m, m.nn.Linear(2, 2))
    net.bias.requires_grad_(False)
    per_sample(m, net)(m.ones(3, 2)).sum().backward()
    return net.weight.grad_sample, hasattr(net.bias, "grad_sample")


@program
def second_gradients(m):
    net = filled(m, m.nn.Linear(2, 2))
    x = m.arange(6.0).reshape(3, 2).requires_grad_()
    y = per_sample(m, net)(x).pow(3).sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    return g, net.weight.grad_sample.requires_grad, m.autograd.grad(g.square().sum(), x)


@program
def running_statistics(m):
    net = filled(m, m.nn.InstanceNorm1d(2, affine=True, track_running_stats=True)).eval()
    x = m.arange(12.0).sin().reshape(2, 2, 3)
    y = per_sample(m, net)(x)
    y.square().sum().backward()
    return y, samples(m, net)


@program
def what_is_refused(m):
    nn, x = m.nn, m.ones(3, 2)
    used = nn.Linear(2, 2)
    per_sample(m, used)(x).sum().backward()
    weight = m.ones(2, requires_grad=True)
    return [
        complaint(lambda: per_sample(m, nn.Linear(2, 2))(m.ones(2))),
        complaint(lambda: per_sample(m, nn.Linear(2, 2), batch_size=4)(x)),
        complaint(lambda: per_sample(m, nn.Linear(2, 2), batch_size=0)),
        complaint(lambda: per_sample(m, nn.Linear(2, 2), batch_size=2.0)),
        complaint(lambda: per_sample(m, nn.Linear(2, 2), loss_reduction="max")),
        complaint(lambda: per_sample(m, nn.Linear(2, 2))(m.ones(0, 2))),
        complaint(lambda: per_sample(m, nn.Embedding(5, 3))(m.tensor([1, 2]))),
        complaint(lambda: per_sample(m, nn.EmbeddingBag(5, 3))(m.tensor([[1, 2]]))),
        complaint(lambda: per_sample(m, nn.LayerNorm((3, 2)))(x)),
        complaint(lambda: per_sample(m, nn.BatchNorm1d(2))(x)),
        complaint(lambda: per_sample(m, nn.Bilinear(2, 2, 2))(x, x)),
        complaint(lambda: per_sample(m, nn.Bilinear(2, 2, 2))(x, x[:2])),
        complaint(lambda: per_sample(m, nn.Identity())()),
        complaint(lambda: per_sample(m, 3)),
        complaint(lambda: per_sample(m, used))[1][:60],
        complaint(lambda: expanded(m, 3, 2, "sum")),
        complaint(lambda: expanded(m, m.ones(2), 2, "sum")),
        complaint(lambda: expanded(m, weight, 2, "sum") + 1),
        complaint(
            lambda: m.nn.functional.linear(
                x, expanded(m, m.ones(2, 2, requires_grad=True), 3, "sum"), expanded(m, weight, 3, "mean")
            )
        ),
        expanded(m, weight, 2, "sum").shape,
    ]  # fmt: skip


@program
def a_plain_parameter_beside(m):
    weight = expanded(m, m.ones(2, 2, requires_grad=True), 3, "sum")
    y = m.nn.functional.linear(m.ones(3, 2), weight, m.ones(2, requires_grad=True))
    return complaint(lambda: y.sum().backward())
