"""`vmap` under its oldest name."""

import importlib

from tests.engine.helpers import Programs


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


def nested(m):
    return old(m)._vmap(lambda a: old(m)._vmap(lambda b: b * a.sum())(a))(m.ones(2, 3))


test_as_in_torch = Programs([hessian, dims, nested]).test()
