"""Under `vmap` over an index alone, gradients reach what the index picks from or writes to."""

import pytest

import torchgrad_jax as torch

W = torch.arange(12.0).reshape(4, 3)
SRC = torch.arange(6.0).reshape(2, 3)


def wide(i):
    return i[:, None].expand(-1, 3)


CALLS = {
    "gather": lambda w, s, i: w.gather(0, wide(i)),
    "index": lambda w, s, i: w[i],
    "index_add": lambda w, s, i: w.index_add(0, i, s),
    "index_copy": lambda w, s, i: w.index_copy(0, i, s),
    "index_fill": lambda w, s, i: w.index_fill(0, i, 2.0),
    "index_put": lambda w, s, i: w.index_put((i,), s),
    "index_put, adding": lambda w, s, i: w.index_put((i,), s, accumulate=True),
    "put": lambda w, s, i: w.put(i, s[:, 0]),
    "scatter": lambda w, s, i: w.scatter(0, wide(i), s),
    "scatter_add": lambda w, s, i: w.scatter_add(0, wide(i), s),
    "scatter_reduce": lambda w, s, i: w.scatter_reduce(0, wide(i), s, "sum"),
    "take": lambda w, s, i: w.take(i) * s[:, 0],
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_a_call_whose_index_alone_is_a_batch(name):
    indices = torch.tensor([[1, 3], [0, 2]])

    def gradients(run):
        w, s = W.clone().requires_grad_(), SRC.clone().requires_grad_()
        out = run(lambda i: CALLS[name](w, s, i))
        return torch.autograd.grad(out.square().sum(), (w, s), allow_unused=True)

    found = gradients(lambda f: torch.func.vmap(f)(indices))
    wanted = gradients(lambda f: torch.stack([f(i) for i in indices]))
    torch.testing.assert_close(found, wanted)
