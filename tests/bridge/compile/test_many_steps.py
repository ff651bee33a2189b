"""`step.many(batches)` does what as many calls do, in one program: state, random draws, schedules, checks, errors."""

import pytest

import torchgrad_jax as torch
from torchgrad_jax import optim
from torchgrad_jax._bridge.compile import many_steps

from .test_one_trace import OPTIMIZERS, SCHEDULES

STEPS = 7


def training(make_optimizer, make_schedule=SCHEDULES["step"], inside=True, dropout=0.0):
    torch.manual_seed(0)
    w = torch.randn(3, 3, requires_grad=True)
    opt = make_optimizer([w])
    schedule = make_schedule(opt)

    def step(x):
        opt.zero_grad()
        h = torch.nn.functional.dropout(x @ w, dropout, training=dropout > 0)
        loss = (h.tanh() ** 2).mean()
        loss.backward()
        opt.step()
        if inside:
            schedule.step()
        return loss

    return w, opt, step


def seen(w, opt):
    state = {k: v for k, v in opt.state.get(w, {}).items() if isinstance(v, torch.Tensor)}
    return {"w": w.detach(), "grad": w.grad, **state}, [w._version, opt.param_groups[0]["lr"]]


def assert_same(found, want, **kwargs):
    assert found.keys() == want.keys()
    for key, value in want.items():
        torch.testing.assert_close(found[key], value, msg=lambda text, key=key: f"{key}: {text}", **kwargs)


def assert_as_many_calls(*made, calls=2, **kwargs):
    w, opt, step = training(*made, **kwargs)
    v, own, same = training(*made, **kwargs)
    fast = torch.compile(same)
    for seed in range(calls):
        torch.manual_seed(seed)
        xs = torch.randn(STEPS, 4, 3)
        losses = torch.stack([step(x).detach() for x in xs])
        after = torch.rand(2)
        torch.manual_seed(seed)
        torch.randn(STEPS, 4, 3)
        torch.testing.assert_close(fast.many(xs), losses)
        (found, others), (want, numbers) = seen(v, own), seen(w, opt)
        assert_same(found, want)
        assert others == pytest.approx(numbers)
        assert torch.equal(torch.rand(2), after)  # the stream goes on
    return fast


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name):
    fast = assert_as_many_calls(OPTIMIZERS[name])
    assert fast.counts == {"traced": 1, "run": 2 * STEPS, "eager": 0}, fast.reasons


@pytest.mark.parametrize("name", ["lambda", "one cycle", "sequential", "cyclic"])
def test_schedules_inside_of_the_step_go_on_step_by_step(name):
    fast = assert_as_many_calls(OPTIMIZERS["momentum"], SCHEDULES[name])
    assert fast.counts["traced"] == 1


def test_random_draws_are_those_of_the_calls():
    assert_as_many_calls(OPTIMIZERS["SGD"], dropout=0.5)


def test_random_draws_that_take_much_memory_make_several_loops(monkeypatch):
    monkeypatch.setattr(many_steps, "_HOST_BYTES", 3 * 4 * 3 * 8)
    assert_as_many_calls(OPTIMIZERS["SGD"], dropout=0.5, calls=1)


def test_a_learning_rate_that_is_a_tensor_and_a_schedule():
    def make(ps):
        return optim.Adam(ps, lr=torch.tensor(0.01))

    w, opt, step = training(make)
    v, own, same = training(make)
    xs = torch.randn(STEPS, 4, 3)
    want = torch.stack([step(x).detach() for x in xs])
    torch.testing.assert_close(torch.compile(same).many(xs), want)
    torch.testing.assert_close(own.param_groups[0]["lr"], opt.param_groups[0]["lr"])
    torch.testing.assert_close(v, w)


def accumulating():
    w = torch.ones(3, requires_grad=True)
    opt = optim.SGD([w], lr=0.1)
    counter = {"n": 0}

    def step(x):
        (w * x).sum().backward()
        counter["n"] += 1
        if counter["n"] % 3 == 0:
            opt.step()
            opt.zero_grad()
        return w.detach().sum()

    return w, counter, step


def test_steps_that_need_other_programs_take_turns():
    w, counter, step = accumulating()
    v, own, same = accumulating()
    xs = torch.randn(11, 3)
    want = torch.stack([step(x) for x in xs])
    fast = torch.compile(same)
    torch.testing.assert_close(fast.many(xs), want)
    torch.testing.assert_close(v, w)
    torch.testing.assert_close(v.grad, w.grad)
    assert counter == own == {"n": 11}
    assert fast.counts["eager"] == 0


def test_gradients_that_add_up():
    w = torch.ones(2, requires_grad=True)

    @torch.compile
    def step(x):
        (w * x).sum().backward()

    xs = torch.arange(6.0).reshape(3, 2)
    assert step.many(xs) is None
    assert w.grad.tolist() == [6.0, 9.0]
    assert step.many(xs) is None
    assert w.grad.tolist() == [12.0, 18.0]


def test_results_of_several_kinds():
    total = torch.zeros(2)
    names = {"n": 0}

    @torch.compile
    def step(x, scale, *, note):
        total.add_(x * scale)
        names["n"] += 2
        return {"sum": total.clone(), "n": names["n"], "note": note, "none": None, "state": total}

    out = step.many(torch.ones(4, 2), 0.5, note="hello")
    assert out["sum"].tolist() == [[0.5] * 2, [1.0] * 2, [1.5] * 2, [2.0] * 2]
    assert out["n"] == [2, 4, 6, 8]
    assert (out["note"], out["none"]) == ("hello", None)
    assert out["state"] is total
    assert total.tolist() == [2.0, 2.0]
    assert total._version == 4


def test_rows_that_are_written_to():
    @torch.compile
    def step(x):
        x.mul_(2)
        return x.sum()

    xs = torch.ones(3, 2)
    assert step.many(xs).tolist() == [4.0, 4.0, 4.0]
    assert xs.tolist() == [[2.0, 2.0]] * 3


def test_results_with_a_graph():
    w = torch.ones(2, requires_grad=True)
    out = torch.compile(lambda x: (w * x).sum()).many(torch.arange(4.0).reshape(2, 2))
    out.sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("written", [False, True], ids=["ahead of the program", "in the program"])
@pytest.mark.parametrize("at", [0, 2, 3])
def test_a_step_that_fails_is_not_taken_and_those_before_it_are(at, written):
    table, total = torch.arange(4.0), torch.zeros(())
    calls, draws = {"n": 0}, []
    index = torch.zeros(1, dtype=torch.int64)
    w = torch.ones((), requires_grad=True)

    @torch.compile
    def step(i):
        if written:
            index.copy_(i.reshape(1))
            i = index[0]
        w.grad = None
        (w * table[i]).backward()
        total.add_(table[i] + torch.rand(()) * 0)
        calls["n"] += 1
        return total * 1

    step(torch.tensor(0))
    step(torch.tensor(0))
    torch.manual_seed(1)
    draws += [torch.rand(()).item() for _ in range(at + 1)]
    torch.manual_seed(1)
    rows = torch.tensor([1, 2, 3, 1])
    rows[at] = 9
    with pytest.raises(IndexError, match="index 9 is out of bounds") as caught:
        step.many(rows)
    assert f"In step {at} of many()." in caught.value.__notes__
    assert total.item() == sum(rows[:at].tolist())
    assert calls == {"n": 2 + at}
    assert w.grad.item() == (rows[at - 1].item() if at else 0)
    assert torch.rand(()).item() == draws[at]
    assert step.many(torch.tensor([1, 1])).tolist() == [total.item() - 1, total.item()]


WRONG = {
    "no tensor": (lambda f: f.many(1.0), TypeError, "needs a tensor"),
    "rows": (lambda f: f.many(torch.ones(2), torch.ones(3)), ValueError, r"\(2,\), \(3,\)"),
    "no dimension": (lambda f: f.many(torch.ones(())), ValueError, "a row for each step"),
    "none": (lambda f: f.many(torch.ones(0, 2)), ValueError, "without rows"),
    "gradient": (lambda f: f.many(torch.ones(2, requires_grad=True)), ValueError, "detached"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_steps_is_refused(name):
    act, kind, text = WRONG[name]
    with pytest.raises(kind, match=text):
        act(torch.compile(lambda *xs: xs[0] * 2))


def test_a_function_that_runs_as_it_is_written():
    fast = torch.compile(lambda x: x * 2, backend="inductor")
    fast.patience.written = True
    assert fast.many(torch.ones(2, 1)).tolist() == [[2.0], [2.0]]
    assert fast.counts["eager"] == 2


def test_modules_have_it_too():
    net = torch.compile(torch.nn.Linear(2, 1))
    xs = torch.randn(3, 4, 2)
    with torch.no_grad():
        torch.testing.assert_close(net.many(xs), torch.stack([net(x) for x in xs]))


def full_training(kind):
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    opt = optim.AdamW(net.parameters(), lr=0.01)
    average = optim.swa_utils.AveragedModel(net)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        (scaler.scale(loss) if kind == "scaler" else loss).backward()
        if kind == "scaler":
            scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        if kind == "scaler":
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()
            average.update_parameters(net)
        return loss.detach(), norm

    def state():
        return [*net.state_dict().values(), *average.state_dict().values()], scaler.get_scale()

    return step, state


@pytest.mark.parametrize("kind", ["average", "scaler"])
def test_whole_trainings(kind):
    step, state = full_training(kind)
    same, own = full_training(kind)
    xs, ys = torch.randn(9, 5, 3), torch.randn(9, 5, 1)
    if kind == "scaler":
        xs[4] = float("inf")  # a step that the scaler leaves out
    want = [torch.stack(column) for column in zip(*[step(x, y) for x, y in zip(xs, ys)])]
    fast = torch.compile(same)
    torch.testing.assert_close(list(fast.many(xs, ys)), want, equal_nan=True)
    torch.testing.assert_close(own(), state(), equal_nan=True)
    assert fast.counts["eager"] == 0


RETURNED = {
    "an argument": lambda x, y: (x, y + 1),
    "a view of one": lambda x, y: (x[1:], y + 1),
    "one that is given twice": lambda x, y: (y, x),
    "arguments alone": lambda x, y: y,
}


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", RETURNED)
def test_arguments_that_are_returned(name, rows):
    f, x = RETURNED[name], torch.randn(rows, 2)
    y = x if name == "one that is given twice" else torch.randn(rows, 2)
    found = torch.compile(f).many(x, y)
    want = [f(a, b) for a, b in zip(x, y)]
    if isinstance(found, torch.Tensor):
        torch.testing.assert_close(found, torch.stack(want))
        return
    for column, ts in zip(found, zip(*want), strict=True):
        torch.testing.assert_close(column, torch.stack(ts))


def test_one_step_that_has_no_loop():
    """Its results have a row, too, but for tensors from outside."""
    total, weight = torch.zeros(2), torch.ones(2, requires_grad=True)

    def step(x):
        total.add_(x)
        return x * 2, x, total

    x = torch.tensor([[1.0, 2.0]])
    doubled, same, found = torch.compile(step).many(x)
    assert (doubled.tolist(), same.tolist()) == ([[2.0, 4.0]], [[1.0, 2.0]])
    assert found is total
    assert torch.compile(lambda x: x * weight).many(x).shape == (1, 2)
    with torch.compiler.set_stance("force_eager"):
        assert torch.compile(lambda x: x * 2).many(x).tolist() == [[2.0, 4.0]]
