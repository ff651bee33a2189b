"""Running statistics: their kernels write them without counting it, before results are saved."""

from __future__ import annotations

from tests.engine.helpers import Programs
from tests.programs import complaint

program = Programs()
test_same_as_torch = program.test()


def _data(m):
    x = m.tensor([[0.3, -1.2, 0.5], [1.4, 0.2, -0.6], [0.9, 2.0, 1.1], [-0.7, 0.1, 0.4]], dtype=m.float64)
    weight = m.tensor([0.5, 1.5, -2.0], dtype=m.float64, requires_grad=True)
    statistics = (m.tensor([0.1, 0.2, 0.3], dtype=m.float64), m.tensor([1.0, 2.0, 3.0], dtype=m.float64))
    return (x.requires_grad_(), weight, *statistics)


@program
def versions(m):
    found = []
    x, weight, *_ = _data(m)
    for shape in ((4, 3), (2, 3, 2)):
        *_, mean, var = _data(m)
        out = m.native_batch_norm(x.reshape(shape), weight, None, mean, var, True, 0.1, 1e-5)
        found.append((out, mean, mean._version, var, var._version))
        for fn in (m.nn.functional.batch_norm, m.nn.functional.instance_norm):
            if fn is m.nn.functional.instance_norm and len(shape) == 2:
                continue
            *_, mean, var = _data(m)
            out = fn(x.reshape(shape), mean, var, weight, None, True)
            found.append((out, mean, mean._version, var, var._version))
    return found


@program
def statistics_that_require_a_gradient(m):
    x, weight, mean, var = _data(m)
    mean.requires_grad_()
    return (complaint(lambda: m.nn.functional.batch_norm(x, mean, var, weight, training=True)), mean, mean._version)


@program
def evaluation_before_training(m):
    x, weight, mean, var = _data(m)
    a = m.nn.functional.batch_norm(x, mean, var, weight)
    b = m.nn.functional.batch_norm(x, mean, var, weight, training=True)
    (a * a + b * x).sum().backward()
    return a, b, mean, var, mean._version, x.grad, weight.grad


@program
def evaluation_before_training_of_a_module(m):
    bn = m.nn.BatchNorm1d(3, momentum=0.5, dtype=m.float64)
    x, *_ = _data(m)
    bn.eval()
    a = bn(x)
    bn.train()
    (a * bn(x)).sum().backward()
    return (bn.running_mean, bn.running_var, bn.running_var._version, bn.num_batches_tracked._version, x.grad)


@program
def statistics_in_views(m):
    x, weight, *_ = _data(m)
    both = m.ones(2, 3, dtype=m.float64)
    out = m.nn.functional.batch_norm(x, both[0], both[1], weight, training=True)
    out.sum().backward()
    return both, both._version


def _checkpointed(m, module, x, **options):
    m.utils.checkpoint.checkpoint(module, x, use_reentrant=False, **options).sum().backward()
    return module.running_mean, module.running_var, module.num_batches_tracked


@program
def recomputed(m):
    found = []
    for options in ({}, {"early_stop": False}):
        for momentum in (0.5, None):
            bn = m.nn.BatchNorm1d(3, momentum=momentum, dtype=m.float64)
            found.append(_checkpointed(m, bn, _data(m)[0], **options))
    return found


@program
def a_hook_that_fails(m):
    """The kernel has run when its results are saved, and has not when its arguments are."""
    found = []
    for last in range(1, 7):
        x, weight, mean, var = _data(m)
        seen = []

        def pack(t, seen=seen, last=last):
            seen.append(t.shape)
            if len(seen) == last:
                raise ValueError("enough")
            return t

        with m.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            said = complaint(lambda x=x, w=weight, a=mean, b=var: m.nn.functional.batch_norm(x, a, b, w, training=True))
        found.append((said, mean, var))
    return found
