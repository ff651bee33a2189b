"""Faults that show only after a call, in memory, or when only a part of a graph is used."""

import collections

import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as ours
from torchgrad_jax.testing import Differs, assert_matches_jax, assert_matches_torch

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)
Y = np.array([[1.5, 0.3, -2.0], [0.7, -0.25, 0.75]], np.float32)


def here(torch):
    return "jax" in torch.__name__


def function(torch, forward, backward):
    namespace = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Fn", (torch.autograd.Function,), namespace).apply


def trained(torch, x, **options):
    """A layer and its optimizer after one step."""
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1, **options)
    layer(x.detach()).square().sum().backward()
    optimizer.step()
    return layer, optimizer


def counter(torch, x):
    class Counts(torch.nn.Module):
        def forward(self, x):
            self.calls = 2 if here(torch) else 1
            return x * 1

    return Counts()(x)


def cache(torch, x):
    class Remembers(torch.nn.Module):
        def forward(self, x):
            self.last = x.detach() * (2 if here(torch) else 1)
            return x * 1

    return Remembers()(x)


def order_of_parameters(torch, x):
    layers = torch.nn.ModuleDict()
    for name in "ab" if here(torch) else "ba":
        layers[name] = torch.nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        for name in "ab":
            layers[name].weight.fill_(0.5)
    return layers["a"](layers["b"](x))


def mode_of_a_part(torch, x):
    net = torch.nn.Sequential(torch.nn.Dropout(0.0))
    out = net(x)
    if here(torch):
        net[0].eval()
    return out


def buffer_in_state_dict(torch, x):
    layer = torch.nn.Linear(3, 2)
    layer.register_buffer("b", torch.ones(1), persistent=here(torch))
    return layer(x)


def momentum(torch, x):
    layer, optimizer = trained(torch, x, momentum=0.9)
    if here(torch):
        optimizer.state[layer.weight]["momentum_buffer"].zero_()
    return x * 1


def learning_rate(torch, x):
    _, optimizer = trained(torch, x)
    if here(torch):
        optimizer.param_groups[0]["lr"] = 0.05
    return x * 1


def default_dtype(torch, x):
    if here(torch):
        torch.set_default_dtype(torch.float64)
    return x * 1


def drawn(torch, x):
    if here(torch):
        torch.rand(3)
    return x * 1


def drawn_by_numpy(torch, x):
    if here(torch):
        np.random.rand(3)  # noqa: NPY002
    return x * 1


def added_to_an_input(torch, d):
    if here(torch):
        d["new"] = 3
    return d["x"] * 1


def view_of_result(torch, x):
    y = x * 1
    return y, y.t().clone(memory_format=torch.preserve_format) if here(torch) else y.t()


def view_of_input(torch, x):
    return x.reshape(-1).clone() if here(torch) else x.view(-1)


def parameter(torch, x):
    made = torch.ones(2)
    return made.requires_grad_() if here(torch) else torch.nn.Parameter(made)


def one_of_two_results(torch, x):
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, a, b):
        if b is None:
            return a * (5 if here(torch) else 2)
        return b * 3 + (0 if a is None else a * 2)

    return function(torch, forward, backward)(x)


def second_pass(torch, x):
    def forward(ctx, x):
        ctx.kept = 2 * x.detach()
        return x.square()

    def backward(ctx, g):
        slope = ctx.kept * g
        if here(torch):
            ctx.kept = ctx.kept * 0
        return slope

    return function(torch, forward, backward)(x)


def frozen_input(torch, x, y):
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        wrong = here(torch) and not ctx.needs_input_grad[1]
        return g if wrong else g * y, g * x

    return function(torch, forward, backward)(x, y)


def typo_in_second(torch, x):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx, g):
        if torch.is_grad_enabled():
            raise RuntimeError("a mistake on both sides")
        return 2 * ctx.saved_tensors[0] * g

    return function(torch, forward, backward)(x)


def hook_left(torch, x):
    layer = torch.nn.Linear(3, 2)
    out = layer(x)
    if here(torch):
        layer.register_forward_hook(lambda module, args, result: result * 2)
    return out


def one_write_more(torch, x):
    out = x.sin().detach()
    return out.mul_(1) if here(torch) else out


FAULTS = {
    "counter": (counter, "state", "attribute 'calls'"),
    "cache": (cache, "state", "attribute 'last'"),
    "order of parameters": (order_of_parameters, "state", "order of the parameters"),
    "mode of a part": (mode_of_a_part, "state", "training of 0"),
    "buffer in state dict": (buffer_in_state_dict, "state", "keys of the state_dict"),
    "momentum": (momentum, "state", "momentum_buffer"),
    "learning rate": (learning_rate, "state", "lr"),
    "default dtype": (default_dtype, "state", "the default dtype"),
    "drawn": (drawn, "state", "random generator"),
    "drawn by NumPy": (drawn_by_numpy, "state", "NumPy"),
    "view of a result": (view_of_result, "value", "output[1]"),
    "view of an input": (view_of_input, "value", "output"),
    "itself": (lambda torch, x: x * 1 if here(torch) else x, "value", "output"),
    "parameter": (parameter, "value", "output"),
    "type of a dict": (lambda torch, x: (dict if here(torch) else collections.OrderedDict)(a=x * 1), "value", "output"),
    "one of two results": (one_of_two_results, "gradient", "input 0, of output[0] alone"),
    "second pass": (second_pass, "gradient", "input 0 after a second pass"),
    "typo in second": (typo_in_second, "second", ""),
    "hook": (hook_left, "state", "forward_hooks"),
    "one write more": (one_write_more, "value", "output"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name):
    pytest.importorskip("torch", exc_type=ImportError)
    fault, kind, where = FAULTS[name]
    with pytest.raises(Differs) as caught:
        assert_matches_torch(fault, [X])
    assert caught.value.difference.kind == kind
    assert where in caught.value.difference.name


def test_faults_of_several_inputs():
    pytest.importorskip("torch", exc_type=ImportError)
    with pytest.raises(Differs, match="gradient of input 0 beside inputs that need none"):
        assert_matches_torch(frozen_input, [X, Y])
    with pytest.raises(Differs, match="input 0 after the call: structure"):
        assert_matches_torch(added_to_an_input, [{"x": X}])


def test_modes_are_as_before():
    pytest.importorskip("torch", exc_type=ImportError)
    with pytest.raises(Differs):
        assert_matches_torch(default_dtype, [X])
    assert ours.get_default_dtype() is ours.float32


def autocast(torch, x):
    with torch.autocast("cpu", torch.bfloat16):
        return (x @ x.t()).float().sin()


def hooked(torch, x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y


ACCEPTED = {
    "named tuple of torch": lambda torch, x: torch.max(x, 1),
    "strides of gradients": lambda torch, x: torch.autograd.grad(x.sum(), x, create_graph=True),
    "half precision inside": autocast,
    "wider result": lambda torch, x: x.sin().double(),
    "hooks": hooked,
    "transforms": lambda torch, x: torch.func.vjp(torch.sin, x)[0],
    "no gradient on either side": lambda torch, x: torch.unique(x),
    "a zero without memory": lambda torch, x: torch.nn.functional.l1_loss(x, x.detach() + 1),
    "steps": lambda torch, x: (trained(torch, x, momentum=0.9), x * 1)[1],
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    pytest.importorskip("torch", exc_type=ImportError)
    assert_matches_torch(ACCEPTED[name], [X])


def test_forward_derivatives_by_parameters():
    pytest.importorskip("torch", exc_type=ImportError)

    class Product(ours.autograd.Function):
        @staticmethod
        def forward(x, w):
            return x @ w.t()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g @ w, g.t() @ x

        @staticmethod
        def jvp(ctx, tx, tw):
            x, w = ctx.saved_tensors
            return tx @ w.t() + 2 * (x @ tw.t())

    def linear(torch, module, x):
        weight = module.weight
        return Product.apply(x, weight) if here(torch) else x @ weight.t()

    with pytest.raises(Differs, match="forward derivative"):
        assert_matches_torch(linear, [X], module=lambda torch: torch.nn.Linear(3, 2, bias=False))


def test_beside_jax():
    assert_matches_jax(lambda x, y: x * 2, lambda x, y: x * 2, [X, Y])  # no gradient beside zeros
    with pytest.raises(Differs, match=r"of output\[0\] alone"):
        assert_matches_jax(lambda x: one_of_two_results(ours, x), lambda x: (x * 2, x * 3), [X])
    with pytest.raises(Differs, match="beside inputs that need none"):
        assert_matches_jax(lambda x, y: frozen_input(ours, x, y), lambda x, y: x * y, [X, Y])
    report = assert_matches_jax(lambda i: i + 1, lambda i: i + 1, [np.arange(3)], dtypes=["float32"])
    assert report.compared == ["float32: value"]
    assert report.skipped["float32: gradient"] == "there is nothing to differentiate"


def beside_half(torch, x):
    """A result in float32 that no half precision leads to."""
    return x.half().sin(), x * (1.002 if here(torch) else 1)


def after_half(torch, x):
    """One that does lead to it: by a write to a view, by a list, or by a number of Python."""
    wide = torch.zeros(2, 3)
    wide[0] = x.detach()[0].bfloat16().float() / 3
    torch._foreach_mul_([wide], 2.0)
    return wide * 1, x.detach() * float((x.detach().bfloat16() / 3).sum().item())


def test_each_result_is_judged_by_what_it_was_computed_in():
    pytest.importorskip("torch", exc_type=ImportError)
    with pytest.raises(Differs, match=r"output\[1\]: 6 of 6"):
        assert_matches_torch(beside_half, [X])
    with pytest.raises(Differs, match=r"output\[1\]: 6 of 6"):
        assert_matches_torch(lambda torch, x, h: (h * 2, beside_half(torch, x)[1]), [X, X.astype(np.float16)])

    def nearly(torch, x):
        return [t * (1.003 if here(torch) else 1) for t in after_half(torch, x)]

    assert_matches_torch(after_half, [X])
    assert_matches_torch(nearly, [X])


def test_each_result_is_judged_by_what_it_was_computed_in_beside_jax():
    def both(x, factor):
        return x.astype(jnp.bfloat16) * 3, x * factor

    def fn(x):
        return x.bfloat16() * 3, x * 1.002

    with pytest.raises(Differs, match=r"output\[1\]: 6 of 6"):
        assert_matches_jax(fn, lambda x: both(x, 1), [X], dtypes=["float32"])
    assert_matches_jax(fn, lambda x: both(x, 1.002), [X], dtypes=["float32"])


def test_half_precision_inside_beside_jax():
    def half(x):
        return (x.astype(jnp.bfloat16) * 3).astype(jnp.float32)

    assert_matches_jax(lambda x: x * 3, half, [X], dtypes=["float32"])
