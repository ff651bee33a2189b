"""JAX's transforms applied to functions that write to tensors from outside: nothing that is traced stays behind."""

import copy
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import torchgrad_jax as torch

nn = torch.nn


def rows():
    return torch.tensor([[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]])


# --- transforms: of a function of a 2 x 3 tensor to a number ---------------------------------------


def _scan(f):
    return lambda x: jax.lax.scan(lambda c, x: (c + f(x), None), jnp.float32(0), x[None])[0]


def _cond(f):
    return jax.jit(lambda x: jax.lax.cond(jnp.asarray(x.sum() > 0), f, lambda x: x.sum(), x))


def _while(f):
    return jax.jit(lambda x: jax.lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, f(s[1]) + s[1]), (0, x))[1])


def _shard_map(f):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec()
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


TRANSFORMS: dict[str, Any] = {
    "jit": jax.jit,
    "grad": jax.grad,
    "value_and_grad": jax.value_and_grad,
    "vmap": lambda f: lambda x: jax.vmap(f)(x[None]),
    "jacrev": jax.jacrev,
    "jacfwd": jax.jacfwd,
    "hessian": jax.hessian,
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: jax.vjp(f, x),
    "linearize": lambda f: lambda x: jax.linearize(f, x),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "eval_shape": lambda f: lambda x: jax.eval_shape(f, x),
    "make_jaxpr": lambda f: lambda x: jax.make_jaxpr(f)(x),
    "scan": _scan,
    "map": lambda f: lambda x: jax.lax.map(f, x[None]),
    "fori_loop": lambda f: lambda x: jax.lax.fori_loop(0, 2, lambda i, x: x * f(x), x),
    "while_loop": _while,
    "cond": _cond,
    "shard_map": _shard_map,
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(f))(x[None]),
    "jit of vmap": lambda f: lambda x: jax.jit(jax.vmap(f))(x[None]),
    "torch.compile of grad": lambda f: torch.compile(jax.grad(f)),
}

# --- writes: each changes what `world` holds with what comes from x --------------------------------


def _add_(w, x):
    w.buffer.add_(x)


def _setitem(w, x):
    w.buffer[0] = x[0]


def _view(w, x):
    w.view.mul_(x[1])


def _out(w, x):
    torch.sin(x, out=w.buffer)


def _copied(w, x):
    with torch.no_grad():
        w.weight.copy_(x)


def _augmented(w, x):
    w.buffer *= x


def _data(w, x):
    w.buffer.data = x


def _set(w, x):
    w.buffer.set_(x.clone())


def _swapped(w, x):
    torch.utils.swap_tensors(w.buffer, x * 1)


def _backward(w, x):
    (w.weight * x).sum().backward()


def _backward_again(w, x):
    (w.graded * x).sin().sum().backward()


def _retained(w, x):
    (w.inner * x).sum().backward()


def _grad(w, x):
    w.weight.grad = x * 2


def _norm(w, x):
    w.norm(x)


def _norms(w, x):
    w.norms(x)


def _after_plain_writes(w, x):
    """What holds no traced value is written before, which is undone."""
    w.norm(rows())
    w.norm.num_batches_tracked.fill_(7)
    w.weight.grad = rows()
    w.graded.grad.add_(1)
    w.buffer.add_(x)


def _registered(w, x):
    w.norm.running_mean = x[0] * 1


def _fresh_gradient(w, x):
    """What the function itself put in place belongs to the world, too."""
    w.weight.grad = rows()
    w.weight.grad.add_(x)


def _gradient_of_a_pass(w, x):
    (w.weight * rows()).sum().backward()
    w.weight.grad.add_(x)


def _fresh_data(w, x):
    w.buffer.data = rows()
    w.buffer.data.mul_(x)


def _fresh_buffer(w, x):
    w.norm.running_mean = torch.zeros(3)
    w.norm.running_mean.add_(x[0])


def _step(w, x):
    w.graded.grad = x * 1
    w.optimizer.step()


def _closure(w, x):
    def closure():
        w.optimizer.zero_grad()
        loss = (w.graded * x).sum()
        loss.backward()
        return loss

    w.optimizer.step(closure)


def _line_search(w, x):
    def closure():
        w.lbfgs.zero_grad()
        loss = (w.graded * x).square().sum()
        loss.backward()
        return loss

    w.lbfgs.step(closure)


def _clipped(w, x):
    w.graded.grad.mul_(x)
    nn.utils.clip_grad_norm_([w.graded], 1.0)


WRITES = [
    _add_, _setitem, _view, _out, _copied, _augmented, _data, _set, _swapped, _backward, _backward_again, _retained,
    _grad, _norm, _norms, _after_plain_writes, _registered, _step, _fresh_gradient, _gradient_of_a_pass,
    _closure, _line_search, _clipped,
]  # fmt: skip


def world():
    graded = torch.full((2, 3), 2.0, requires_grad=True)
    graded.grad = torch.ones(2, 3)
    buffer = torch.ones(2, 3)
    inner = graded * 3
    inner.retain_grad()
    return SimpleNamespace(
        buffer=buffer,
        view=buffer[1],
        weight=torch.ones(2, 3, requires_grad=True),
        graded=graded,
        inner=inner,
        norm=nn.BatchNorm1d(3),
        norms=nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3), nn.BatchNorm1d(3)),
        optimizer=torch.optim.Adam([graded], lr=0.1),
        lbfgs=torch.optim.LBFGS([graded]),
    )


def state(w):
    """Values, versions and gradients of everything, and what the optimizer remembers."""
    tensors = [w.buffer, w.view, w.weight, w.graded, *w.norm.buffers(), *w.norms.buffers()]
    grads = [w.weight.grad, w.graded.grad, w.inner.grad]
    seen = [None if t is None else (t.tolist(), t._version, t.requires_grad, t.is_leaf) for t in [*tensors, *grads]]
    return seen, copy.deepcopy(w.optimizer.state_dict()), copy.deepcopy(w.lbfgs.state_dict())


def check_refused(transformed, write):
    w = world()
    before = state(w)

    def f(x):
        write(w, x)
        return x.sum()

    with pytest.raises(RuntimeError, match="made outside of it") as error:
        transformed(f)(rows())
    assert "functional_call" in str(error.value)
    assert f"in {write.__name__}" in str(error.value) or "in closure" in str(error.value)
    assert state(w) == before
    # Eager use goes on.
    w.buffer.add_(1)
    w.norm(rows())
    (w.graded * w.inner).sum().backward()
    w.optimizer.step()
    assert all(bool(torch.isfinite(t).all()) for t in [w.buffer, w.graded, *w.norm.buffers()])


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__.strip("_"))
@pytest.mark.parametrize("transform", ["jit", "grad", "vmap"])
def test_traced_values_stay_inside(transform, write):
    check_refused(TRANSFORMS[transform], write)


@pytest.mark.parametrize("write", [_fresh_data, _fresh_buffer], ids=lambda f: f.__name__.strip("_"))
@pytest.mark.parametrize("transform", ["grad", "vmap"])
def test_what_the_function_put_in_place_takes_no_traced_values(transform, write):
    w = world()
    with pytest.raises(RuntimeError, match="made outside of it"):
        TRANSFORMS[transform](lambda x: write(w, x) or x.sum())(rows())
    assert torch.isfinite(w.buffer).all()
    assert torch.isfinite(w.norm(rows())).all()


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_every_transform(transform):
    for write in (_add_, _backward, _norm):
        check_refused(TRANSFORMS[transform], write)


def test_the_inner_transform_of_two():
    def f(x):
        kept = torch.zeros(3)  # belongs to the outer one
        jax.vmap(lambda r: kept.add_(r))(x)
        return kept.sum()

    with pytest.raises(RuntimeError, match="made outside of it"):
        jax.jit(f)(rows())

    def g(x):
        kept = torch.zeros(2, 3)
        kept.add_(jax.vmap(lambda r: r * 2)(x))
        return kept.sum()

    assert jax.jit(jax.grad(g))(rows()).tolist() == [[2.0] * 3] * 2


# --- what stays allowed ----------------------------------------------------------------------------


def _own_tensors(x):
    kept = torch.zeros(2, 3)
    kept.add_(x)
    kept[0] = x[1]
    kept[1:].mul_(x[1:])
    other = torch.empty_like(kept)
    torch.mul(kept, 2.0, out=other)
    return other.sum()


def _own_leaves(x):
    leaf = torch.nn.Parameter(torch.ones(2, 3))
    (leaf * x).sum().backward()
    return (leaf.grad * x).sum()


OUTSIDE = torch.full((2, 3), 3.0, requires_grad=True)


def _own_leaf_on_memory_from_outside(x):
    leaf = OUTSIDE.detach().requires_grad_()
    (leaf * x).sum().backward()
    return (leaf.grad * x).sum()


def _own_optimizer(x):
    leaf = torch.nn.Parameter(torch.ones(2, 3))
    optimizer = torch.optim.Adam([leaf], lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (leaf * leaf * x).sum().backward()
        optimizer.step()
    return leaf.sum()


def _own_module(x):
    torch.manual_seed(0)
    net = nn.BatchNorm1d(3)
    return (net(x) * x).sum() + net.running_mean.sum()


@pytest.mark.parametrize(
    "f",
    [_own_tensors, _own_leaves, _own_leaf_on_memory_from_outside, _own_optimizer, _own_module],
    ids=lambda f: f.__name__.strip("_"),
)
@pytest.mark.parametrize("transform", ["jit", "grad", "vmap", "jit of grad", "jvp", "hessian"])
def test_writes_to_what_the_function_made(transform, f):
    TRANSFORMS[transform](f)(rows())
    if transform == "jit":
        assert jax.jit(f)(rows()).item() == pytest.approx(f(rows()).item(), rel=1e-5)


def test_arguments_are_inside():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    params, buffers = dict(net.named_parameters()), dict(net.named_buffers())

    def loss(params, buffers, x):
        buffers = {k: v.clone() for k, v in buffers.items()}
        out = torch.func.functional_call(net, {**params, **buffers}, (x,))
        return (out**2).sum(), buffers

    g, new = jax.jit(jax.grad(loss, has_aux=True))(params, buffers, rows())
    assert net[1].num_batches_tracked.item() == 0
    net(rows()).square().sum().backward()
    assert torch.allclose(net[0].weight.grad, g["0.weight"], atol=1e-4)
    assert torch.allclose(net[1].running_mean, new["1.running_mean"], atol=1e-6)

    def written(x, total):
        total += x
        return total.sum()

    assert jax.jit(written)(rows(), torch.ones(2, 3)).item() == 17.0


def test_plain_values_are_kept_where_the_function_runs_each_time():
    calls = torch.zeros(())
    weight = torch.ones(3, requires_grad=True)

    def f(x):
        calls.add_(1)
        (weight * 2).sum().backward()
        return (x * x).sum()

    assert jax.grad(f)(rows()).tolist() == (rows() * 2).tolist()
    jax.vmap(f)(rows())
    assert calls.item() == 2.0
    assert weight.grad.tolist() == [4.0] * 3
    with pytest.raises(RuntimeError, match="would not do it again"):
        jax.jit(f)(rows())
    assert calls.item() == 2.0
    assert weight.grad.tolist() == [4.0] * 3


def test_results_of_eager_writes_are_not_undone_by_later_errors():
    total = torch.zeros(3)
    for k in range(3):
        with pytest.raises(RuntimeError, match="made outside of it") as kept:
            jax.grad(lambda x: total.add_(x).sum())(torch.ones(3))
        total.add_(1)
        assert total.tolist() == [k + 1.0] * 3
        assert kept.value is not None  # an exception that is still held holds the failed trace


def test_shared_constants_are_not_replaced_by_tracers():
    shared = torch.ones(3)
    jax.jit(lambda x: jax.jit(lambda a, b: a + b)(x, shared))(torch.zeros(3))
    assert shared.tolist() == [1.0] * 3


# --- writes that the derivative follows ------------------------------------------------------------


def _rows_in_a_loop(x):
    total = torch.zeros(3)
    for row in x:
        total += row * row
    return total.exp().mul(1e-3).sum()


def _through_a_view(x):
    whole = torch.zeros(2, 3)
    seen = whole * 2  # before the write
    whole.view(6)[:3] = x[1].sin()
    return (whole * x).sum() + whole.t().pow(3).sum() + seen.sum()


def _at_indices(x):
    kept = torch.zeros(2, 3)
    kept.index_add_(0, torch.tensor([1, 1]), x * x)
    kept.masked_fill_(x > 3, 2.0)
    return (kept * x).sum()


def _of_a_leaf_without_recording(x):
    leaf = nn.Parameter(torch.ones(2, 3))
    with torch.no_grad():
        leaf.copy_(x)
    return (leaf * x).sum()


def _with_a_hook(x):
    kept = torch.zeros(2, 3)
    kept[0] = x[1] ** 2
    kept.register_hook(lambda g: g * 2)
    return (kept * kept).sum()


def _statistics(x):
    mean, var = torch.zeros(3), torch.ones(3)
    out = nn.functional.batch_norm(x, mean, var, training=True)
    return (out * x).sum() + (mean.clone() * x[0]).sum() + var.sum()


def _limits(x):
    tiny = x * 1e-9
    loss = nn.functional.gaussian_nll_loss(x, x * 2, tiny.abs(), eps=1e-6)
    return loss * 1e-6 + nn.functional.cosine_similarity(tiny, x, dim=1).sum()


FOLLOWED = [
    _rows_in_a_loop,
    _through_a_view,
    _at_indices,
    _of_a_leaf_without_recording,
    _with_a_hook,
    _statistics,
    _limits,
]


FORMS = ["to_jax", "jit of to_jax", "vmap of to_jax", "tensors"]
WRITTEN = [(form, f) for form in FORMS for f in FOLLOWED if (form, f) != ("tensors", _with_a_hook)]


@pytest.mark.parametrize(("form", "f"), WRITTEN, ids=lambda x: getattr(x, "__name__", x).strip("_"))
def test_derivatives_follow_writes_to_what_the_function_made(form, f):
    x = rows().requires_grad_()
    value = f(x)
    (want,) = torch.autograd.grad(value, x)
    pure = torch.to_jax(f)
    given, row = rows().numpy(), {"tensors": f}.get(form, pure)
    slope = jax.grad(row)
    if form == "tensors":
        got = [slope(rows()).numpy()]
    elif form == "vmap of to_jax":
        got = list(jax.vmap(slope)(jnp.stack([given, given])))
    else:
        got = [(jax.jit(slope) if "jit" in form else slope)(given), jax.jacfwd(pure)(given)]
        assert jax.jit(pure)(given).item() == pytest.approx(value.item(), rel=1e-5)
    for g in got:
        assert jnp.allclose(g, want.numpy(), rtol=1e-4, atol=1e-5)
