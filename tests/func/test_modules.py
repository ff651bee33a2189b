"""functional_call, stack_module_state and the other names for modules and programs, compared with torch."""

import importlib
from typing import Any

import pytest

import torchgrad_jax
from tests.programs import Programs, result_or_error

tg: Any = torchgrad_jax

program = Programs()
test_same_as_torch = program.test()


def linear(m):
    layer = m.nn.Linear(2, 1)
    return layer, {"weight": m.ones(1, 2), "bias": m.zeros(1)}, m.ones(2)


def tied(m):
    class Tied(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = m.nn.Linear(2, 2, bias=False)
            self.b = m.nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("c", m.zeros(2))

        def forward(self, x):
            self.c = self.c + 1
            return self.b(self.a(x)) + self.c

    return Tied(), m.eye(2), m.ones(2)


# --- functional_call ------------------------------------------------------------------------------


@program
def replaced(m):
    call = m.func.functional_call
    layer, w, x = linear(m)
    return [
        call(layer, w, x),
        call(layer, w, (x,)),
        call(layer, [w, {}], x),
        call(layer, (w,), x),
        call(layer, [{"weight": w["weight"]}, {"bias": w["bias"]}], x),
        call(layer, w, None, {"input": x}),
        call(layer, w, x, {}),
        layer.weight.shape,
        type(layer.weight).__name__,
    ]


@program
def refused(m):
    call = m.func.functional_call
    layer, w, x = linear(m)
    return [
        result_or_error(lambda args=args: call(*args))
        for args in (
            (layer, [w, w], x),
            (layer, 3, x),
            (layer, [3], x),
            (layer, {"a.b": x}, x),
            (layer, {"": x}, x),
            (layer, {"weight": 3.0}, x),
            (layer, {"in_features": x}, x),
            (layer, w, x, {"input": x}),
        )
    ]


@program
def strict(m):
    call = m.func.functional_call
    layer, w, x = linear(m)
    return [
        result_or_error(lambda given=given: call(layer, given, x, strict=True))
        for given in (w, {"foo": x}, {"weight": w["weight"]}, {**w, "foo": x})
    ]


@program
def gradients(m):
    layer, w, x = linear(m)
    given = {k: v.clone().requires_grad_() for k, v in w.items()}
    out = m.func.functional_call(layer, given, x)
    found = m.func.grad(lambda p: m.func.functional_call(layer, p, x).sum())(w)
    return m.autograd.grad(out.sum(), list(given.values())), found, layer.weight.grad


@program
def tied_weights(m):
    call = m.func.functional_call
    module, eye, x = tied(m)
    w = eye * 2
    return [
        call(module, {"a.weight": w}, x),
        call(module, {"b.weight": w}, x),
        module.c,
        result_or_error(lambda: call(module, {"a.weight": w, "b.weight": eye}, x)),
        call(module, {"a.weight": w, "b.weight": w}, x),
        call(module, {"a.weight": w, "b.weight": eye * 3}, x, tie_weights=False),
        result_or_error(lambda: call(module, {"a.weight": w}, x, strict=True)),
        call(module, {"a.weight": w, "c": x}, x, strict=True),
    ]


@program
def assigned_buffer(m):
    module, eye, x = tied(m)
    given = {"a.weight": eye, "c": m.zeros(2)}
    out = m.func.functional_call(module, given, x)
    return out, given["c"], sorted(given), module.c


@program
def batch_statistics(m):
    layer = m.nn.BatchNorm1d(2)
    state = {k: v.detach().clone() for k, v in layer.state_dict().items()}
    out = m.func.functional_call(layer, state, m.tensor([[1.0, 2.0], [3.0, 4.0]]))
    return out, state["running_mean"], state["num_batches_tracked"], layer.running_mean


@program
def restored_after_an_error(m):
    layer, w, _ = linear(m)
    before = layer.weight
    told = result_or_error(lambda: m.func.functional_call(layer, w, m.ones(3)))[0]
    return told, layer.weight is before


@program
def old_place(m):
    stateless = importlib.import_module(f"{m.__name__}.nn.utils.stateless")
    layer, w, x = linear(m)
    return stateless.functional_call(layer, w, x)


# --- ensembles ------------------------------------------------------------------------------------


@program
def stacked(m):
    models = [m.nn.Linear(2, 1) for _ in range(3)]
    for i, model in enumerate(models):
        with m.no_grad():
            model.weight.fill_(i)
            model.bias.fill_(1)
    params, buffers = m.func.stack_module_state(models)
    base = models[0]

    def run(p, b, x):
        return m.func.functional_call(base, (p, b), (x,))

    out = m.func.vmap(run, in_dims=(0, 0, None))(params, buffers, m.ones(4, 2))
    grads = m.func.vmap(m.func.grad(lambda p, x: run(p, {}, x).sum()), in_dims=(0, None))(
        {k: v.detach() for k, v in params.items()}, m.ones(2)
    )
    return out.detach(), params, buffers, grads, type(params["weight"]).__name__


@program
def not_stacked(m):
    call = m.func.stack_module_state
    frozen = m.nn.Linear(2, 1)
    frozen.weight.requires_grad_(False)
    return [
        result_or_error(lambda models=models: call(models))
        for models in (
            [],
            [m.nn.Linear(2, 1), m.nn.BatchNorm1d(2)],
            [m.nn.Linear(2, 1), m.nn.Linear(2, 1).eval()],
            [m.nn.Linear(2, 1), frozen],
            [m.nn.Linear(2, 1), m.nn.Linear(3, 1)],
        )
    ]


@program
def buffers_stacked(m):
    layers = [m.nn.BatchNorm1d(2), m.nn.BatchNorm1d(2)]
    params, buffers = m.func.stack_module_state(layers)
    frozen = [m.nn.Linear(2, 1).requires_grad_(False) for _ in range(2)]
    return buffers, sorted(params), m.func.stack_module_state(frozen)[0]["weight"].requires_grad


@program
def without_running_statistics(m):
    model = m.nn.Sequential(m.nn.BatchNorm1d(2), m.nn.Sequential(m.nn.BatchNorm2d(3)))
    out = m.func.replace_all_batch_norm_modules_(model)
    layers = [model[0], model[1][0]]
    ran = m.func.vmap(model[0])(m.arange(12.0).reshape(2, 3, 2)).detach()
    return (out is model, [(b.running_mean, b.num_batches_tracked, b.track_running_stats) for b in layers], ran)


@program
def running_statistics_from_outside_are_updated(m):
    def loss(x, mean, var):
        return (m.nn.functional.batch_norm(x, mean, var, training=True) * x).sum()

    x = m.arange(6.0).reshape(3, 2)
    mean, var = m.zeros(2), m.ones(2)
    slope = m.func.grad(lambda x: loss(x, mean, var))(x)
    tangent = m.func.jvp(lambda x: loss(x, mean, var), (x,), (m.ones(3, 2),))
    _, back = m.func.vjp(lambda x: loss(x, mean, var), x)
    means, vars_ = m.zeros(4, 2), m.ones(4, 2)
    scaled = x * m.arange(1.0, 5).reshape(4, 1, 1)
    slopes = m.func.vmap(m.func.grad(loss))(scaled, means, vars_)
    return slope, tangent, back(m.ones(())), mean, var, slopes, means, vars_


@program
def running_statistics_refused(m):
    return result_or_error(lambda: m.func.vmap(m.nn.BatchNorm1d(2))(m.ones(2, 3, 2)))


# --- programs -------------------------------------------------------------------------------------


@program
def functionalized(m):
    x = m.ones(2)
    out = m.func.functionalize(lambda x, k=1: x[0].mul_(5) * k)(x, k=2)
    same = m.func.functionalize(lambda x: x, remove="mutations_and_views")(x)
    return out, x, same, m.func.functionalize(lambda x: {"a": x, "b": None})(3.0)


@program
def functionalize_refused(m):
    return result_or_error(lambda: m.func.functionalize(lambda x: x, remove="foo"))


@program
def unwrapped(m):
    seen = []

    def inner(x):
        seen.append((m.func.debug_unwrap(x * 2), m.func.debug_unwrap(x, recurse=False).shape))
        return x

    m.func.vmap(m.func.vmap(inner))(m.ones(2, 3))
    m.func.grad(lambda x: (seen.append(m.func.debug_unwrap(x)), x)[1])(m.ones(()))
    plain = m.ones(2)
    return seen, m.func.debug_unwrap(plain) is plain


@program
def printed(m):
    seen = []
    m.func.vmap(lambda x: (seen.append(repr(x * 2)), x)[1])(m.ones(2, 3))
    return seen


@program
def top_level_name(m):
    return m.vmap is m.func.vmap, m.vmap(m.sin)(m.zeros(2))


def test_module_is_restored_after_an_error_inside_vmap():
    """The module holds its own tensors again after a call inside of vmap that raised."""
    layer, w, _ = linear(tg)
    with pytest.raises(RuntimeError):
        tg.vmap(lambda x: tg.func.functional_call(layer, w, x).item())(tg.ones(2, 2))
    assert layer.weight is not w["weight"]
