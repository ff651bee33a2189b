"""A compiled function does what the function does: results, writes, gradients, versions, draws."""

import types

import numpy as np
import pytest

import torchgrad_jax as torch
from tests.differential import agree
from tests.programs import attempt
from torchgrad_jax._core.errors.messages import Unsupported
from torchgrad_jax.utils.checkpoint import checkpoint


def compiled(fn, **kwargs):
    return torch.compile(fn, **kwargs)


def parameters(seed=0):
    torch.manual_seed(seed)
    return [torch.randn(4, 8).requires_grad_(), torch.zeros(8).requires_grad_(), torch.randn(8, 1).requires_grad_()]


def loss_of(ps, x, y):
    return ((x @ ps[0] + ps[1]).tanh() @ ps[2] - y).pow(2).mean()


def data():
    torch.manual_seed(1)
    return torch.randn(16, 4), torch.randn(16, 1)


# --- results --------------------------------------------------------------------------------------


def test_values_and_one_trace():
    f = compiled(lambda x, y: (x.sin() * y).sum())
    for k in range(3):
        x = torch.arange(3.0) + k
        agree(f(x, x), (x.sin() * x).sum())
    assert f.counts == {"traced": 1, "run": 3, "eager": 0}


def test_other_kinds_of_arguments_are_traced_again():
    f = compiled(lambda x, k=1: x * k)
    f(torch.ones(2))
    f(torch.ones(3))
    f(torch.ones(2, dtype=torch.float64))
    assert f(torch.ones(2), k=3).tolist() == [3.0, 3.0]
    assert f(torch.ones(2), k=2).tolist() == [2.0, 2.0]
    assert f.counts["traced"] == 4
    assert len(f.reasons) == 3


def test_containers_in_and_out():
    f = compiled(lambda d, *rest: {"a": (d["x"] + rest[0], 7), "b": [d["y"]]})
    x = torch.ones(2)
    out = f({"x": x, "y": x * 2}, x)
    assert out["a"][0].tolist() == [2.0, 2.0]
    assert out["a"][1] == 7
    assert out["b"][0].tolist() == [2.0, 2.0]


def test_layout_of_results():
    f = compiled(lambda x: (x * 2).t())
    out = f(torch.ones(2, 3))
    assert out.shape == (3, 2)
    assert out.stride() == (1, 3)


def test_gradients_flow_through():
    w = torch.full((3,), 2.0).requires_grad_()
    f = compiled(lambda x: (x * w).sin().sum())
    x = torch.arange(3.0).requires_grad_()
    f(x).backward()
    got = w.grad, x.grad
    w.grad = x.grad = None
    (x * w).sin().sum().backward()
    agree(got[0], w.grad)
    agree(got[1], x.grad)


def test_second_gradients_and_detach():
    f = compiled(lambda x: (x**3 * x.detach()).sum())
    x = torch.arange(1.0, 3.0).requires_grad_()
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    agree(g, torch.tensor([3.0, 24.0]))
    agree(h, torch.tensor([6.0, 24.0]))


def test_no_grad_inside():
    def f(x):
        with torch.no_grad():
            a = x * 2
        return (a * x).sum()

    x = torch.arange(3.0).requires_grad_()
    (g,) = torch.autograd.grad(compiled(f)(x), x)
    assert g.tolist() == [0.0, 2.0, 4.0]


class Straight(torch.autograd.Function):
    """Rounds; its gradient is made up, so that JAX cannot know it."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g * 7


def test_custom_functions_and_hooks_keep_their_gradients():
    def f(x):
        y = Straight.apply(x) * 2
        y.register_hook(lambda g: g * 10)
        return y.sum()

    x = torch.tensor([0.3, 1.7], requires_grad=True)
    out = compiled(f)(x)
    assert out.grad_fn.name() == "CompiledFunctionBackward"
    (g,) = torch.autograd.grad(out, x, retain_graph=True)
    assert g.tolist() == [140.0, 140.0]
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        torch.autograd.grad(out, x, create_graph=True)
    out.backward()
    assert x.grad.tolist() == [140.0, 140.0]
    with pytest.raises(RuntimeError, match="a second time"):
        out.backward()


def test_hooks_outside_run_once():
    calls = []
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda g: calls.append(g.tolist()))
    x = (torch.ones(2, requires_grad=True) * 3).requires_grad_()
    x.register_hook(lambda g: calls.append(g.tolist()))
    compiled(lambda x: (x * w).sum())(x).backward()
    assert sorted(calls) == [[1.0, 1.0], [3.0, 3.0]]
    assert w.grad.tolist() == [3.0, 3.0]


def test_arguments_with_a_common_history():
    a = torch.full((2,), 2.0, requires_grad=True)
    b = a * 3
    f = compiled(lambda x, y: (x * y).sum())
    for _ in range(2):
        (g,) = torch.autograd.grad(f(a, b), a, retain_graph=True)
        assert g.tolist() == [12.0, 12.0]


def test_several_results():
    w = torch.full((2,), 2.0, requires_grad=True)
    f = compiled(lambda x: (x * w, (w**2).sum(), x + 1))
    a, b, c = f(torch.ones(2))
    assert not c.requires_grad
    (a.sum() + b).backward()
    assert w.grad.tolist() == [5.0, 5.0]
    w.grad = None
    f(torch.ones(2))[1].backward()
    assert w.grad.tolist() == [4.0, 4.0]


# --- writes ---------------------------------------------------------------------------------------


def test_writes_to_arguments_and_outside():
    buffer = torch.zeros(2)

    def f(x):
        x.mul_(2)
        buffer.add_(x)
        return x + 1

    g = compiled(f)
    x = torch.ones(2)
    for _ in range(3):
        out = g(x)
    assert x.tolist() == [8.0, 8.0]
    assert buffer.tolist() == [14.0, 14.0]
    assert out.tolist() == [9.0, 9.0]
    assert (x._version, buffer._version) == (3, 3)
    assert g.counts["traced"] == 1


def test_writes_through_views_are_seen_by_all():
    base = torch.zeros(3, 2)
    row = base[1]

    def f(x):
        row.copy_(x)
        base[2, 0] = 5.0

    compiled(f)(torch.ones(2))
    assert base.tolist() == [[0.0, 0.0], [1.0, 1.0], [5.0, 0.0]]
    assert row.tolist() == [1.0, 1.0]


def test_views_as_arguments():
    base = torch.arange(6.0).reshape(2, 3)
    f = compiled(lambda x: x.add_(1))
    for i in range(2):
        f(base[i])
    assert base.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert f.counts["traced"] == 1


def test_a_shared_array_is_not_donated_away():
    a = torch.ones(3)
    b = a.clone()  # arrays are immutable, so a clone shares one until somebody writes
    f = compiled(lambda: a.add_(1))
    f()
    f()
    assert a.tolist() == [3.0] * 3
    assert b.tolist() == [1.0] * 3


# --- training steps -------------------------------------------------------------------------------


def manual_step(ps):
    def step(x, y):
        for p in ps:
            p.grad = None
        loss = loss_of(ps, x, y)
        loss.backward()
        with torch.no_grad():
            for p in ps:
                p.sub_(0.1 * p.grad)
        return loss

    return step


def test_a_step_by_hand():
    a, b = parameters(), parameters()
    eager, fast = manual_step(a), compiled(manual_step(b))
    x, y = data()
    for _ in range(4):
        want, got = eager(x, y), fast(x, y)
        agree(want, got)
    assert fast.counts == {"traced": 1, "run": 4, "eager": 0}
    for p, q in zip(a, b):
        agree(p, q)
        agree(p.grad, q.grad)
        assert p._version == q._version
        assert p.grad._version == q.grad._version
    assert got.requires_grad
    assert got.grad_fn.name() == want.grad_fn.name()
    with pytest.raises(RuntimeError, match="a second time"):
        got.backward()


def test_gradients_accumulate():
    w = torch.ones(2).requires_grad_()
    f = compiled(lambda x: (w * x).sum().backward())
    for _ in range(3):
        f(torch.arange(2.0))
    assert w.grad.tolist() == [0.0, 3.0]
    assert f.counts["traced"] == 2  # with and without a gradient there


def test_hooks_are_part_of_the_program():
    w = torch.ones(2).requires_grad_()
    w.register_hook(lambda g: g * 10)

    def f(x):
        w.grad = None
        (w * x).sum().backward()

    g = compiled(f)
    g(torch.ones(2))
    g(torch.ones(2))
    assert w.grad.tolist() == [10.0, 10.0]


def test_autograd_grad_and_func_inside():
    w = torch.full((2,), 3.0).requires_grad_()

    def f(x):
        (g,) = torch.autograd.grad((w**2 * x).sum(), w, create_graph=True)
        h = torch.func.vmap(torch.func.grad(lambda v: (v**2).sum()))(x[:, None])
        return g, h

    g, h = compiled(f)(torch.arange(2.0))
    agree(g, torch.tensor([0.0, 6.0]))
    agree(h, torch.tensor([[0.0], [2.0]]))


# --- random draws ---------------------------------------------------------------------------------


def test_draws_are_those_of_eager_code():
    def f(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(6)

    fast = compiled(f)
    x = torch.ones(6)
    torch.manual_seed(3)
    want = [f(x).tolist() for _ in range(3)]
    torch.manual_seed(3)
    got = [fast(x).tolist() for _ in range(3)]
    assert want == got
    assert want[0] != want[1]
    assert fast.counts["traced"] == 1


def test_draws_are_made_once_where_gradients_are_wanted():
    """As many numbers are drawn as eagerly, and forward and backward see the same ones."""
    f = lambda x: torch.nn.functional.dropout(x, 0.5)  # noqa: E731
    fast = compiled(f)
    seen = []
    for call in (f, fast):
        torch.manual_seed(3)
        for _ in range(3):
            x = torch.ones(40, requires_grad=True)
            y = call(x)
            (g,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(g.sum(), x)
            seen.append([y.tolist(), g.tolist(), second.tolist(), torch.rand(1).item()])
    assert seen[:3] == seen[3:]


GENERATOR = torch.Generator()


def seeded_in_the_middle(x):
    before = torch.rand(2)
    torch.manual_seed(3)
    return before, x * torch.rand(2)


def seeded_at_last(x):
    drawn = torch.rand(2)
    torch.manual_seed(3)
    return drawn


def seeded_by_an_argument(x, seed=5):
    torch.manual_seed(seed)
    return torch.nn.functional.dropout(x, 0.5)


def drawn_from_a_generator_of_its_own(x):
    return torch.randperm(5, generator=torch.Generator().manual_seed(5)), torch.rand(2, generator=torch.Generator())


def drawn_from_a_generator_of_outside(x):
    GENERATOR.manual_seed(2)
    return torch.rand(2, generator=GENERATOR)


def drawn_apart(x):
    with torch.random.fork_rng():
        torch.manual_seed(9)
        inside = torch.randn(2)
    return inside, torch.rand(2)


def drawn_for_each_row(x):
    def row(x):
        torch.manual_seed(4)
        return x + torch.rand(())

    return torch.func.vmap(row, randomness="different")(x)


def drawn_again_by_a_checkpoint(x):
    w = torch.ones(8, requires_grad=True)
    torch.manual_seed(1)
    y = checkpoint(lambda x: torch.nn.functional.dropout(x, 0.5), w * 2, use_reentrant=False)
    (g,) = torch.autograd.grad(y.sum(), w)
    return y.detach(), g, torch.rand(2)


def refused_by_a_check(x):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return torch.multinomial(x, 1)


SEEDED = [
    seeded_in_the_middle,
    seeded_at_last,
    seeded_by_an_argument,
    drawn_from_a_generator_of_its_own,
    drawn_from_a_generator_of_outside,
    drawn_apart,
    drawn_for_each_row,
    drawn_again_by_a_checkpoint,
    refused_by_a_check,
]


@pytest.mark.parametrize("f", SEEDED, ids=lambda f: f.__name__)
def test_generators_are_seeded_in_each_run_where_the_function_seeds_them(f):
    fast = compiled(f)

    def found(call):
        torch.manual_seed(0)
        xs = [torch.ones(2), torch.tensor([-1.0, 2.0]), torch.ones(2)]
        return [[str(attempt(lambda x=x: call(x))), torch.rand(1).item()] for x in xs]

    assert found(f) == found(fast)
    assert fast.counts == {"traced": 1, "run": 3, "eager": 0}


@pytest.mark.parametrize("seed", [torch.seed, lambda: torch.Generator().seed(), torch.get_rng_state])
def test_what_cannot_be_told_before_the_draws_is_refused_and_changes_nothing(seed):
    torch.manual_seed(0)
    with pytest.raises(Unsupported, match="a compiled function may not"):
        torch.compile(seed)()
    assert torch.rand(1).item() == torch.rand(1, generator=torch.Generator().manual_seed(0)).item()


# --- what it depends on ---------------------------------------------------------------------------


SCALE = 2.0


def test_values_that_code_can_reach_are_watched():
    global SCALE
    k = 1.0

    class Holder:
        factor = 1.0

        def __init__(self):
            self.factor = 3.0
            self.table = {"w": torch.ones(2)}

    holder = Holder()
    f = compiled(lambda x: x * k * SCALE * holder.factor * holder.table["w"])
    x = torch.ones(2)
    assert f(x).tolist() == [6.0, 6.0]
    k = 2.0
    assert f(x).tolist() == [12.0, 12.0]
    holder.factor = 1.0
    assert f(x).tolist() == [4.0, 4.0]
    SCALE = 3.0
    assert f(x).tolist() == [6.0, 6.0]
    holder.table["w"] = torch.zeros(2)
    assert f(x).tolist() == [0.0, 0.0]
    SCALE = 2.0


class Options:
    """Looked at as a class, and through an instance."""

    scale = 2.0


def test_classes_and_other_modules_are_watched(monkeypatch):
    options = Options()
    f = compiled(lambda x: x * Options.scale + options.scale)
    x = torch.ones(1)
    assert f(x).tolist() == [4.0]
    monkeypatch.setattr(Options, "scale", 3.0)
    assert f(x).tolist() == [6.0]
    elsewhere = types.ModuleType("users_settings")
    elsewhere.factor = 2.0  # type: ignore[attr-defined]
    monkeypatch.setitem(globals(), "elsewhere", elsewhere)
    g = compiled(lambda x: x * elsewhere.factor)
    assert g(x).tolist() == [2.0]
    elsewhere.factor = 5.0  # type: ignore[attr-defined]
    assert g(x).tolist() == [5.0]


def test_arrays_and_objects_as_arguments():
    f = compiled(lambda x, a: x + torch.from_numpy(a))
    x, a = torch.ones(2), np.ones(2, np.float32)
    assert f(x, a).tolist() == [2.0, 2.0]
    a[0] = 5.0
    assert f(x, a).tolist() == [6.0, 2.0]
    g = compiled(lambda x, s: torch.copysign(x, s))
    assert g(x, 0.0).tolist() == [1.0, 1.0]
    assert g(x, -0.0).tolist() == [-1.0, -1.0]

    class Held:
        __slots__ = ("k",)

        def __init__(self, k):
            self.k = k

    h = compiled(lambda x, o: x * o.k)
    assert [h(x, Held(k))[0].item() for k in range(4)] == [0.0, 1.0, 2.0, 3.0]


def test_recompiles_are_logged(monkeypatch, capsys):
    monkeypatch.setenv("TORCHGRAD_JAX_LOGS", "recompiles")
    f = compiled(lambda x: x + 1)
    f(torch.ones(1))
    assert capsys.readouterr().err == ""
    f(torch.ones(2))
    assert "traced again" in capsys.readouterr().err


# --- errors ---------------------------------------------------------------------------------------


def test_values_are_not_known_and_nothing_is_lost():
    w = torch.ones(2).requires_grad_()

    def f(x):
        w.grad = None
        with torch.no_grad():
            w.add_(1)
        if x.sum() > 0:
            return x
        return w

    w.grad = torch.ones(2)
    before = w.grad
    with pytest.raises(RuntimeError, match=r"values of a tensor are needed(.|\n)*if x.sum\(\) > 0"):
        compiled(f)(torch.ones(2))
    assert w.tolist() == [1.0, 1.0]
    assert w.grad is before
    assert w._version == 0


@pytest.mark.parametrize("use", [torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy])
def test_no_values_for_python(use):
    with pytest.raises(RuntimeError, match=r"torch\.compile:"):
        compiled(use)(torch.ones(()))


def test_arguments_of_compile():
    def f(x):
        return x

    assert torch.compile(f, disable=True) is f
    assert torch.compile(f, backend="eager") is f
    assert torch.compile(fullgraph=True, dynamic=False)(f)(torch.ones(1)).tolist() == [1.0]
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        torch.compile(f, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(f, mode="default", options={})


def test_within_a_transform_it_is_part_of_it():
    f = compiled(lambda x: (x**2).sum())
    agree(torch.func.vmap(f)(torch.ones(3, 2)), torch.full((3,), 2.0))
    agree(torch.func.grad(f)(torch.ones(2)), torch.full((2,), 2.0))


def test_as_a_method():
    class Model:
        def __init__(self):
            self.w = torch.ones(2)

        @torch.compile
        def run(self, x):
            return x * self.w

    model = Model()
    assert model.run(torch.ones(2)).tolist() == [1.0, 1.0]
    model.w = torch.zeros(2)
    assert model.run(torch.ones(2)).tolist() == [0.0, 0.0]


# --- modules --------------------------------------------------------------------------------------


def network():
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(4, 8, bias=False),  # a bias here has gradient 0, which Adam blows up
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(8, 1),
    )


def test_a_step_of_a_module():
    a, b = network(), network()
    opt_a, opt_b = (torch.optim.AdamW(m.parameters(), lr=0.01) for m in (a, b))

    def step_of(model, opt):
        def step(x, y):
            opt.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            return loss

        return step

    x, y = data()
    eager, fast = step_of(a, opt_a), compiled(step_of(b, opt_b))
    torch.manual_seed(5)
    want = [eager(x, y).item() for _ in range(4)]
    torch.manual_seed(5)
    got = [fast(x, y).item() for _ in range(4)]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for (name, p), q in zip(a.state_dict().items(), b.state_dict().values()):
        np.testing.assert_allclose(q.numpy(), p.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)
    assert fast.counts["traced"] == 1
    a.eval()
    b.eval()
    agree(eager(x, y), fast(x, y))
    assert "'training' was True and is False" in fast.reasons


def test_short_runs_give_what_long_ones_give():
    def f(x, y):
        return x - 2 * y

    fast = torch.compile(f)
    a, b = torch.arange(4.0).view(2, 2), torch.ones(2, 2)
    for x, y in ((a, b), (a, b), (a, b), (b, a), (a, a), (a.t(), b), (a[:1], b), (a, b), (a.double(), b)):
        agree(fast(x, y), f(x, y))
    for _ in range(3):
        with torch.inference_mode():
            assert fast(a, b).is_inference()
        agree(fast(a, b), f(a, b))
    b.add_(1)
    agree(fast(a, b), f(a, b))


def test_a_compiled_module_is_a_module():
    plain = network().eval()
    model = torch.compile(plain)
    x, y = data()
    agree(model(x), plain(x))
    torch.nn.functional.mse_loss(model(x), y).backward()
    got = plain[0].weight.grad
    plain.zero_grad()
    torch.nn.functional.mse_loss(plain(x), y).backward()
    agree(got, plain[0].weight.grad)
    assert isinstance(model, torch.nn.Module)
    assert next(n for n, _ in model.named_parameters()) == "_orig_mod.0.weight"
    assert model._orig_mod is plain
    assert len(model) == 5  # type: ignore[arg-type]
    model.train()
    assert plain.training
    plain.eval()
    plain.compile()
    agree(plain(x), model._orig_mod(x))


def test_the_recompile_limit_warns_once_and_names_what_came_in_many_kinds():
    f = torch.compile(lambda x, scale, n: x * scale + len(range(n)), recompile_limit=2)
    w = torch.ones(2)
    f(torch.ones(1), w[:1], 1)
    f(torch.ones(3), w[:1], 1)
    told = r"recompile_limit of 2 programs.*'x' was \(1,\).*\(3,\).*\(4,\).*'n' was 1, 7\. .*pad or cut"
    with pytest.warns(UserWarning, match=told):
        assert f(torch.ones(4), w[:1], 7).tolist() == [8.0] * 4
    assert f(torch.ones(5), w[:1], 1).tolist() == [2.0] * 5  # told once
    assert f.programs.evicted == 2


LAYOUTS = {
    "transposed": lambda: torch.arange(6.0).reshape(2, 3).t() + 1,
    "permuted": lambda: (torch.arange(24.0) + 1).reshape(2, 3, 4).permute(2, 0, 1),
    "channels last": lambda: torch.ones(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    "gaps": lambda: (torch.arange(12.0) + 1).reshape(2, 6)[:, ::2],
    "expanded": lambda: torch.ones(3).expand(2, 3),
}


@pytest.mark.parametrize("drop", ["dropout", "alpha_dropout"])
@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
def test_dropout_draws_in_the_order_of_memory(make, drop):
    found = []
    for form in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        f = form(lambda x: getattr(torch.nn.functional, drop)(x * 2, 0.5))
        found.append([f(make()) for _ in range(2)])
    for eager, compiled in zip(*found):
        torch.testing.assert_close(compiled, eager)
        assert compiled.stride() == eager.stride()
