"""What a step does to storages, views, aliases, versions and graphs; that it is one kernel."""

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.autograd.programs import leaf
from tests.engine.helpers import Programs, attempt
from torchgrad_jax.optim import _rules

PROGRAMS = Programs()


def with_gradient(m, p, *values):
    p.grad = m.tensor(list(values))
    return p


@PROGRAMS
def aliases_see_the_update(m):
    p = with_gradient(m, leaf(m, 1.0, 2.0, 3.0), 1.0, 1.0, 1.0)
    alias, view = p.detach(), p.detach()[1:]
    m.optim.SGD([p], lr=0.5).step()
    return [p, alias, view, alias._version, view._version]


@PROGRAMS
def a_view_is_optimized(m):
    base = m.zeros(4)
    p = base[1:3].requires_grad_()
    p.grad = m.ones(2)
    o = m.optim.Adam([p], lr=0.5)
    o.step()
    o.step()
    return [base, p.detach(), base._version, p._version, o.state_dict()["state"]]


@PROGRAMS
def strided_parameters_and_gradients(m):
    p = m.arange(6.0).reshape(2, 3).t().requires_grad_()
    p.grad = m.arange(12.0).reshape(3, 4)[:, ::2]
    o = m.optim.SGD([p], lr=0.5, momentum=0.9)
    a = m.optim.Adam([p], lr=0.1)
    for _ in range(2):
        o.step()
        a.step()
    buffer, average = o.state[p]["momentum_buffer"], a.state[p]["exp_avg"]
    return [p.detach(), p.stride(), buffer, buffer.stride(), average, average.stride()]


@PROGRAMS
def parameters_that_overlap(m):
    base = m.zeros(3)
    p, q = base[:2].requires_grad_(), base[1:].requires_grad_()
    p.grad, q.grad = m.ones(2), m.ones(2)
    m.optim.AdamW([p, q], lr=0.5, weight_decay=0.5).step()
    return base


@PROGRAMS
def a_gradient_that_is_the_parameter(m):
    p = leaf(m, 1.0, 2.0)
    p.grad = p.detach()
    m.optim.AdamW([p], lr=0.5, weight_decay=0.5).step()
    return p.detach()


@PROGRAMS
def a_gradient_that_is_another_parameter(m):
    p, q = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
    p.grad, q.grad = m.ones(2), p.detach()
    m.optim.SGD([p, q], lr=0.5).step()
    return [p.detach(), q.detach()]


@PROGRAMS.raises
def saved_parameter_is_noticed(m):
    p = leaf(m, 1.0, 2.0)
    loss = (p * p).sum()
    loss.backward(retain_graph=True)
    m.optim.SGD([p], lr=0.5).step()
    return attempt(loss.backward)


@PROGRAMS
def still_a_leaf(m):
    p = with_gradient(m, leaf(m, 1.0), 1.0)
    m.optim.Adam([p]).step()
    return [p.is_leaf, p.requires_grad, p.grad_fn, p.grad]


@PROGRAMS
def loaded_state_of_another_dtype(m):
    p = with_gradient(m, leaf(m, 1.0, 2.0), 0.5, 0.25)
    o = m.optim.Adam([p], lr=0.5)
    o.step()
    o.state[p]["exp_avg"] = o.state[p]["exp_avg"].double()
    return [attempt(o.step)]


@PROGRAMS
def whole_numbers(m):
    p = m.tensor([1, 2])
    p.grad = m.tensor([1, 1])
    return [attempt(lambda: m.optim.SGD([p], lr=0.5).step()), p, attempt(m.optim.SGD([p], lr=1).step), p]


@PROGRAMS
def state_of_another_shape(m):
    p = with_gradient(m, leaf(m, 1.0), 0.5)
    o = m.optim.SGD([p], lr=0.5, momentum=0.5)
    o.state[p]["momentum_buffer"] = m.ones(2)
    return [attempt(o.step), p]


@PROGRAMS
def empty_parameter(m):
    p = m.zeros(0, 3, requires_grad=True)
    p.grad = m.zeros(0, 3)
    o = m.optim.Adam([p])
    o.step()
    return [p, o.state_dict()["state"]]


@PROGRAMS
def momentum_starts_as_a_copy(m):
    p = with_gradient(m, leaf(m, 1.0), 1.0)
    o = m.optim.SGD([p], lr=0.1, momentum=0.9)
    g = p.grad
    o.step()
    g.zero_()
    return [o.state[p]["momentum_buffer"], g]


@PROGRAMS
def state_written_by_hand(m):
    p = with_gradient(m, leaf(m, 1.0), 1.0)
    o = m.optim.Adam([p], lr=0.1)
    o.step()
    o.state[p]["step"].fill_(9.0)
    o.state[p]["exp_avg"].mul_(2)
    o.step()
    o.state[p]["step"] = m.tensor(99.0)
    o.step()
    return [p, o.state[p]]


@PROGRAMS
def steps_that_differ(m):
    p, q = leaf(m, 1.0), leaf(m, 1.0)
    o = m.optim.Adam([p, q], lr=0.1)
    for i in range(5):
        p.grad = m.tensor([1.0])
        q.grad = m.tensor([1.0]) if i % 2 else None
        o.step()
    return [p, q, o.state_dict()["state"]]


def differentiable(name, **options):
    """A step whose result is differentiated, with respect to what the gradient was made of."""

    def run(m):
        start = leaf(m, 1.0, -2.0, 0.5)
        scale = leaf(m, 0.5, 1.5, -1.0)
        p = start.clone()
        o = getattr(m.optim, name)([p], differentiable=True, **options)
        for _ in range(3):
            p.grad = scale * scale.exp() + 0.1 * start
            o.step()
        (p * p).sum().backward()
        return [p.detach(), start.grad, scale.grad, p.requires_grad]

    run.__name__ = f"differentiable_{name}_{'_'.join(options)}"
    return run


PROGRAMS += [
    differentiable("SGD", lr=0.1),
    differentiable("SGD", lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    differentiable("Adam", lr=0.1),
    differentiable("Adam", lr=0.1, weight_decay=0.1),
    differentiable("AdamW", lr=0.1),
    differentiable("NAdam", lr=0.1),
    differentiable("RAdam", lr=0.1),
    differentiable("RAdam", lr=0.1, betas=(0.5, 0.5)),
    differentiable("Adadelta", lr=0.5),
    differentiable("ASGD", lr=0.1, t0=1),
]
PROGRAMS.raises(differentiable("RMSprop", lr=0.1, centered=True, momentum=0.5))


@PROGRAMS
def learning_rate_is_differentiated(m):
    out = []
    for name in ("SGD", "Adam"):
        lr = m.tensor(0.1, requires_grad=True)
        p = leaf(m, 1.0, 2.0).clone()
        o = getattr(m.optim, name)([p], lr=lr, differentiable=True)
        for _ in range(2):
            p.grad = m.tensor([0.5, -1.0])
            o.step()
        p.sum().backward()
        out += [p.detach(), lr.grad]
    return out


@PROGRAMS
def weight_decay_is_differentiated(m):
    decay = m.tensor(0.3, requires_grad=True)
    p = leaf(m, 1.0, 2.0).clone()
    o = m.optim.SGD([p], lr=0.5, weight_decay=decay, differentiable=True)
    for _ in range(2):
        p.grad = m.tensor([0.5, -1.0])
        o.step()
    p.sum().backward()
    return [p.detach(), decay.grad]


@PROGRAMS
def a_scaler_scales_fused_steps(m):
    out = []
    for name in ("SGD", "Adam", "Adagrad"):
        p = with_gradient(m, leaf(m, 1.0, 2.0), 8.0, -4.0)
        o = getattr(m.optim, name)([p], lr=0.1, fused=True)
        o.grad_scale, o.found_inf = m.tensor(4.0), m.tensor(0.0)
        o.step()
        out += [p.detach(), p.grad, o._step_supports_amp_scaling]
        o.found_inf = m.tensor(1.0)
        o.step()
        out += [p.detach(), [s.get("step") for s in o.state.values()]]
    o = m.optim.SGD([p], lr=0.1)
    o.found_inf = m.tensor(1.0)
    return [out, attempt(o.step)]


@PROGRAMS
def functional_forms(m):
    import importlib

    def form(module, name):
        return getattr(importlib.import_module(f"{m.__name__}.optim.{module}"), name)

    p, g, a, b, c = (m.tensor([x, 2.0]) for x in (1.0, 0.5, 0.0, 0.0, 0.0))
    step = m.tensor(3.0)
    form("adam", "adam")(
        [p],
        [g],
        [a],
        [b],
        [c],
        [step],
        amsgrad=True,
        beta1=0.9,
        beta2=0.99,
        lr=0.1,
        weight_decay=0.1,
        eps=1e-8,
        maximize=False,
    )
    form("adamw", "adamw")(
        [p],
        [g],
        [a],
        [b],
        [],
        [step],
        amsgrad=False,
        beta1=0.9,
        beta2=0.99,
        lr=0.1,
        weight_decay=0.1,
        eps=1e-8,
        maximize=False,
    )
    buffers = [None]
    form("sgd", "sgd")(
        [p], [g], buffers, weight_decay=0, momentum=0.9, lr=0.1, dampening=0, nesterov=False, maximize=True
    )
    wrong = attempt(
        lambda: form("adam", "adam")(
            [p],
            [g],
            [a],
            [b],
            [],
            [3],
            amsgrad=False,
            beta1=0.9,
            beta2=0.99,
            lr=0.1,
            weight_decay=0.1,
            eps=1e-8,
            maximize=False,
        )
    )
    nothing = form("sgd", "sgd")(
        [], [], [], weight_decay=0, momentum=0, lr=0.1, dampening=0, nesterov=False, maximize=False
    )
    return [p, g, a, b, c, step, buffers, wrong, nothing]


test_same_as_torch = PROGRAMS.test()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adafactor", "ASGD"])
def test_a_step_is_one_kernel(name, monkeypatch):
    ps = [tg.ones(i % 4 + 1, requires_grad=True) for i in range(12)]
    for p in ps:
        p.grad = tg.ones_like(p)
    o = getattr(tg.optim, name)(ps)
    o.step()
    runs = []
    plain = _rules._together
    monkeypatch.setattr(_rules, "_together", lambda *a: (runs.append(len(a[1])), plain(*a)))
    alone = []
    monkeypatch.setattr(_rules, "_one_by_one", lambda *a: alone.append(a))
    o.step()
    assert runs == [12]
    assert not alone


OWN_GRADIENTS = {
    "Adam": {"lr": 0.1, "amsgrad": True},
    "Adamax": {"lr": 0.1, "weight_decay": 0.1},
    "Rprop": {"lr": 0.1},
    "Adagrad": {"lr": 0.1},
}


@pytest.mark.parametrize("name", OWN_GRADIENTS)
def test_differentiable_where_torch_stumbles(name):
    """torch's own backward fails for these, over what it overwrote; differences tell what is right."""

    def final(start, scale):
        p = start.clone()
        o = getattr(tg.optim, name)([p], differentiable=True, **OWN_GRADIENTS[name])
        for _ in range(3):
            p.grad = scale * scale.exp() + 0.1 * start
            o.step()
        return p

    start, scale = (tg.tensor(x, dtype=tg.float64, requires_grad=True) for x in ([1.0, -2.0, 0.5], [0.5, 1.5, -1.0]))
    assert tg.autograd.gradcheck(final, (start, scale), atol=1e-4, rtol=1e-4, nondet_tol=1e-12)


def test_modes_take_the_general_path():
    p = tg.tensor([1.0, 2.0], requires_grad=True)
    p.grad = tg.ones(2)
    o = tg.optim.SGD([p], lr=0.5)
    with pytest.warns(UserWarning, match="Anomaly"), tg.autograd.detect_anomaly(check_nan=False):
        o.step()
    assert p.tolist() == [0.5, 1.5]
    with tg.inference_mode():
        o.step()
    assert p.tolist() == [0.0, 1.0]


def test_a_subclass_with_its_own_functions_sees_the_operations():
    seen = []

    class Noisy(tg.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", str(func)))
            return super().__torch_function__(func, types, args, kwargs or {})

    p = tg.tensor([1.0]).as_subclass(Noisy)
    p.grad = tg.ones(1)
    seen.clear()
    tg.optim.SGD([p], lr=0.5).step()
    assert "add_" in seen


@pytest.mark.parametrize("known", [False, True])
def test_step_inside_of_a_traced_function(known, monkeypatch):
    """A step count that is being traced: the rule computes with it instead of the host.

    The same when it is `known` that JAX traces tensors, and steps are cut off from its derivative.
    """
    import jax
    import jax.numpy as jnp

    from torchgrad_jax._core.state import Modes
    from torchgrad_jax._engine.memory.tensor import wrap_array

    monkeypatch.setattr(Modes, "traced", known)

    for name in ("Adam", "NAdam", "RAdam", "ASGD", "Adagrad", "Adafactor", "SGD"):
        options = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
        p = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        o = getattr(tg.optim, name)([p], **options)
        for _ in range(8):
            p.grad = tg.tensor([0.5, -1.0, 2.0])
            o.step()
        q = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        first = getattr(tg.optim, name)([q], **options)
        q.grad = tg.tensor([0.5, -1.0, 2.0])
        first.step()

        def step(x, values, optimizer=first.__class__, options=options):
            q = wrap_array(x).requires_grad_()
            other = optimizer([q], **options)
            other.state[q] = {k: wrap_array(v) for k, v in values.items()}
            q.grad = wrap_array(jnp.asarray([0.5, -1.0, 2.0], jnp.float32))
            other.step()
            return q._st.array, {k: v._st.array for k, v in other.state[q].items()}

        compiled = jax.jit(step)
        x, values = q._st.array, {k: v._st.array for k, v in first.state[q].items()}
        for _ in range(7):
            x, values = compiled(x, values)
        np.testing.assert_allclose(np.asarray(x), p.detach().numpy(), rtol=3e-6, err_msg=name)
