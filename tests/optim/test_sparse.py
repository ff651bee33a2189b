"""Programs that ask for sparse gradients of embeddings: their gradients are dense, and they train as with torch."""

import warnings

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()


def trained(m, make, layer):
    """Parameters and losses of five steps, in which some rows are not looked up."""
    m.manual_seed(0)
    optimizer, losses = make(layer.parameters()), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(5):
            optimizer.zero_grad()
            loss = layer(m.tensor([[1, 1], [3, i % 3]])).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss)
    return layer.weight.detach().clone(), losses


def embedding(m):
    layer = m.nn.Embedding(6, 3, sparse=True)
    layer.weight.data.copy_(m.arange(18.0).view(6, 3) / 10)
    return layer


@program
def embeddings_with_the_optimizers_that_take_sparse_gradients(m):
    optim = m.optim
    kinds = {
        "sgd": lambda p: optim.SGD(p, lr=0.1),
        "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.5),
        "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
        "adam": lambda p: optim.SparseAdam(list(p), lr=0.1, betas=(0.8, 0.9)),
        "up": lambda p: optim.SparseAdam(list(p), lr=0.1, maximize=True),
    }
    return {name: trained(m, make, embedding(m)) for name, make in kinds.items()}


@program
def bags(m):
    layer = m.nn.EmbeddingBag(6, 3, sparse=True, mode="sum")
    layer.weight.data.copy_(m.arange(18.0).view(6, 3) / 10)
    return trained(m, lambda p: m.optim.SparseAdam(p, lr=0.1), layer)


@program
def what_the_optimizer_keeps_goes_through_a_checkpoint(m):
    layer = embedding(m)
    optimizer = m.optim.SparseAdam(layer.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer(m.tensor([1, 4])).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()["state"][0]
    return state["step"], state["exp_avg"].to_dense(), state["exp_avg_sq"].to_dense()


def test_one_warning_says_that_the_gradient_is_dense():
    from torchgrad_jax._core.errors import warn

    warn._seen.clear()
    layer = tg.nn.Embedding(4, 2, sparse=True)
    with pytest.warns(UserWarning, match="the gradient is dense here"):
        layer(tg.tensor([1])).sum().backward()
    layer(tg.tensor([1])).sum().backward()  # warnings are errors in tests
    assert layer.weight.grad.shape == (4, 2)
