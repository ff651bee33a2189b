"""checkpoint as a decorator, which torch 2.14 has: the same gradients and recomputations as the call."""

import pytest

import torchgrad_jax as torch
from torchgrad_jax.utils.checkpoint import checkpoint


def gradient(fn, *args, **kwargs):
    x = torch.tensor([0.5, 1.0], requires_grad=True)
    fn(x, *args, **kwargs).sum().backward()
    assert x.grad is not None
    return x.grad


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_function_runs_again_in_its_backward(reentrant):
    ran = []

    @checkpoint(use_reentrant=reentrant)
    def block(x, times=2):
        """What it does."""
        ran.append(1)
        return x.sin() * times

    assert (block.__name__, block.__doc__) == ("block", "What it does.")
    assert torch.equal(gradient(block), 2 * torch.tensor([0.5, 1.0]).cos())
    assert len(ran) == 2


def test_a_method_gets_its_instance():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor(3.0))

        @checkpoint(use_reentrant=False)
        def forward(self, x, *, shift=0.0):
            return (x * self.weight).sin() + shift

    block = Block()
    assert torch.equal(gradient(block, shift=1.0), 3 * (3 * torch.tensor([0.5, 1.0])).cos())
    assert block.weight.grad is not None


def test_options_go_to_each_call():
    contexts = []

    def context_fn():
        contexts.append(1)
        return torch.no_grad(), torch.enable_grad()

    wrapped = checkpoint(use_reentrant=False, context_fn=context_fn, preserve_rng_state=False)(lambda x: x * 2)
    x = torch.ones(2, requires_grad=True)
    assert not wrapped(x).requires_grad
    wrapped(x)
    assert len(contexts) == 2


def test_arguments_that_are_called_like_options_are_the_functions():
    wrapped = checkpoint(use_reentrant=False)(lambda x, debug: x * debug)
    assert torch.equal(gradient(wrapped, debug=5), torch.full((2,), 5.0))


def test_what_is_refused():
    with pytest.raises(ValueError, match="Unexpected keyword arguments: x,y"):
        checkpoint(use_reentrant=False, x=1, y=2)
    with pytest.raises(TypeError, match="None is no function"):
        checkpoint(None, torch.ones(2), use_reentrant=False)
    with pytest.raises(TypeError, match="a decorator takes a function"):
        checkpoint(use_reentrant=False)(3)
