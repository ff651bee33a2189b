"""`vmap` under its oldest name."""

import importlib

import pytest

from tests.engine.helpers import Programs, program


def old(m):
    return importlib.import_module(f"{m.__name__}._vmap_internals")


def hessian(m):
    x = m.tensor([1.0, -2.0, 0.5], requires_grad=True)
    (g,) = m.autograd.grad((x**3).sum() + x.prod(), x, create_graph=True)
    rows = old(m)._vmap(lambda v: m.autograd.grad(g, x, v, retain_graph=True)[0])
    return rows(m.eye(3))


def dims(m):
    z = m.arange(6.0).view(2, 3)
    mapped = old(m)._vmap(lambda a, b: (a * b, a + 1), in_dims=(1, None), out_dims=(1, 0))
    return mapped(z, m.tensor([1.0, 10.0]))


def nothing_among_results(m):
    mapped = old(m)._vmap(lambda a: (None, a * 2), allow_none_pass_through=True)
    return mapped(m.ones(2, 3))


def nested(m):
    return old(m)._vmap(lambda a: old(m)._vmap(lambda b: b * a.sum())(a))(m.ones(2, 3))


def refused(name, call):
    def run(m):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the type is part of the answer
            call(old(m)._vmap, m.ones(2, 3))
        return [type(caught.value).__name__, str(caught.value)]

    return program(name, run)


def f(a):
    return a


WRONG = [
    refused("no inputs", lambda vmap, z: vmap(f)()),
    refused("from the back", lambda vmap, z: vmap(f, in_dims=-1)(z)),
    refused("too far", lambda vmap, z: vmap(f, in_dims=2)(z)),
    refused("not an int", lambda vmap, z: vmap(f, in_dims="a")(z)),
    refused("a number", lambda vmap, z: vmap(f)(3)),
    refused("not ints", lambda vmap, z: vmap(f, out_dims="a")(z)),
    refused("too many", lambda vmap, z: vmap(f, out_dims=(0, 0))(z)),
    refused("a place past the end", lambda vmap, z: vmap(f, out_dims=5)(z)),
    refused("a list", lambda vmap, z: vmap(lambda a: [a])(z)),
    refused("None", lambda vmap, z: vmap(lambda a: (a, None))(z)),
    refused("an int", lambda vmap, z: vmap(lambda a: 3)(z)),
]


test_as_in_torch = Programs([hessian, dims, nothing_among_results, nested, *WRONG]).test()


def test_the_public_name_warns():
    import torchgrad_jax as tg

    with pytest.warns(FutureWarning, match="use `torch.vmap`"):
        mapped = old(tg).vmap(lambda a: a * 2)
    assert mapped(tg.ones(2)).tolist() == [2.0, 2.0]
