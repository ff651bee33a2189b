"""A compiled training step is traced once, and gives eager's numbers: every optimizer, every schedule around it."""

import copy
import functools

import pytest

import torchgrad_jax as torch
from tests.bridge import trainings
from torchgrad_jax import optim
from torchgrad_jax.optim import lr_scheduler as schedules

STEPS = 50
OPTIMIZERS = {
    name: lambda ps, kind=kind, options=options: getattr(optim, kind)(ps, lr=0.02, **options)
    for name, (kind, options) in [*trainings.OPTIMIZERS.items(), ("AdamW", ("AdamW", {}))]
    if name != "dampening"  # whose first step is not like the others
}
SCHEDULES = {
    **{name: functools.partial(make, schedules) for name, make in trainings.SCHEDULES.items()},
    "lambda": lambda o: schedules.LambdaLR(o, lambda n: 1 / (n + 1)),
    "one cycle": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=STEPS + 1),
}


def parts(make):
    torch.manual_seed(0)
    w = torch.randn(3, 3, requires_grad=True)
    opt = make([w])

    def step(x):
        opt.zero_grad()
        loss = ((x @ w).tanh() ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    return w, opt, step


def train(make, schedule, compiled):
    """All losses, the weight, its version, and the state of the optimizer after a training; how it was traced."""
    w, opt, step = parts(make)
    around = schedule(opt)
    run = torch.compile(step) if compiled else step
    x = torch.randn(4, 3)
    losses = []
    for _ in range(STEPS):
        loss = run(x)
        losses.append(loss.detach())
        around.step(loss.detach()) if isinstance(around, schedules.ReduceLROnPlateau) else around.step()
    state = {k: v for k, v in opt.state[w].items() if isinstance(v, torch.Tensor)}
    seen = {"loss": torch.stack(losses), "w": w.detach(), **state}
    return seen, (w._version, {k: v._version for k, v in state.items()}), run


def assert_same_training(make, schedule):
    want, versions, _ = train(make, schedule, False)
    found, found_versions, run = train(make, schedule, True)
    assert found.keys() == want.keys()
    for key, value in want.items():
        torch.testing.assert_close(found[key], value, msg=lambda text, key=key: f"{key}: {text}")
    assert found_versions == versions
    assert run.counts == {"traced": 1, "run": STEPS, "eager": 0}, run.reasons


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_makes_its_state_before_the_program(name):
    assert_same_training(OPTIMIZERS[name], SCHEDULES["cosine"])


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_outside_of_the_step_traces_nothing_again(name):
    assert_same_training(OPTIMIZERS["momentum"], SCHEDULES[name])


@pytest.mark.parametrize("name", ["cyclic", "one cycle"])
def test_a_schedule_that_changes_betas(name):
    assert_same_training(OPTIMIZERS["Adam"], SCHEDULES[name])


def test_a_schedule_that_waits_for_a_plateau():
    assert_same_training(OPTIMIZERS["Adam"], lambda o: schedules.ReduceLROnPlateau(o, patience=1, threshold=0.5))


def test_an_option_that_is_changed_from_outside_is_traced_once_more():
    _, opt, step = parts(OPTIMIZERS["Adam"])
    _, eager_opt, eager = parts(OPTIMIZERS["Adam"])
    fast = torch.compile(step)
    for i in range(8):
        for o in (opt, eager_opt):
            o.param_groups[0]["weight_decay"] = 0.01 * (i + 1)
        torch.testing.assert_close(fast(torch.eye(3)), eager(torch.eye(3)))
    assert fast.counts["traced"] == 2


def test_an_error_in_the_first_call_leaves_no_state():
    w = torch.ones(2, requires_grad=True)
    opt = optim.Adam([w])
    table = torch.eye(2)

    @torch.compile
    def step(i):
        w.grad = None
        loss = (w @ table[i]).sum()
        loss.backward()
        opt.step()
        return loss

    with pytest.raises(IndexError):
        step(torch.tensor(5))
    assert not opt.state
    assert w.tolist() == [1.0, 1.0]
    step(torch.tensor(1))
    assert opt.state[w]["step"].item() == 1


def test_state_that_is_loaded_is_that_of_the_program():
    w, opt, step = parts(OPTIMIZERS["Adam"])
    eager_w, eager_opt, eager = parts(OPTIMIZERS["Adam"])
    fast, x = torch.compile(step), torch.eye(3)
    fast(x), eager(x)
    saved = [copy.deepcopy(o.state_dict()) for o in (opt, eager_opt)]
    fast(x), eager(x)
    for o, state in zip((opt, eager_opt), saved):
        o.load_state_dict(state)
    torch.testing.assert_close(fast(x), eager(x))
    torch.testing.assert_close(w, eager_w)


def scaled():
    w, opt, _ = parts(OPTIMIZERS["Adam"])
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)

    def step(x):
        opt.zero_grad()
        loss = ((x @ w) ** 2).mean()
        scaler.scale(loss).backward()
        return loss

    def after():
        scaler.step(opt)
        scaler.update()

    return w, scaler, step, after


def test_a_gradient_scaler_after_the_step_skips_where_eager_code_does():
    w, scaler, eager, after = scaled()
    v, own, step, own_after = scaled()
    fast = torch.compile(step)
    for i in range(8):
        x = torch.full((2, 3), float("inf") if i == 4 else 0.1 * (i + 1))
        torch.testing.assert_close(fast(x), eager(x), equal_nan=True)
        after()
        own_after()
        torch.testing.assert_close(v, w)
        assert own.get_scale() == scaler.get_scale()
    assert fast.counts["eager"] == 0


def test_the_second_call_compiles_nothing():
    # Parameters that NumPy holds are overwritten by arrays of JAX's: no second program for those.
    from jax import monitoring

    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    opt = torch.optim.AdamW(net.parameters())

    @torch.compile
    def step(x):
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    x, compiled = torch.ones(4, 3), []
    step(x)

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if "jaxpr_to_mlir" in event:
            compiled.append(event)

    monitoring.register_event_duration_secs_listener(listen)
    try:
        step(x)
    finally:
        monitoring.unregister_event_duration_listener(listen)
    assert not compiled


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "Rprop"])
@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
def test_parameters_of_one_element_share_nothing(name, shape):
    # The zeros that two parameters or their averages begin with are one array of constants.
    def losses(compiled):
        ps = [torch.nn.Parameter(torch.zeros(shape)) for _ in range(2)]
        opt = getattr(optim, name)(ps, lr=0.1, **({"momentum": 0.9} if name == "SGD" else {}))

        def step(x):
            opt.zero_grad()
            loss = (ps[0] * x + ps[1] * 2 - 3).square().sum()
            loss.backward()
            opt.step()
            return loss

        run = torch.compile(step) if compiled else step
        found = [run(torch.tensor(float(i + 1))).item() for i in range(4)]
        if compiled:
            assert run.counts["traced"] == 1, run.reasons
        return found

    assert losses(True) == pytest.approx(losses(False), rel=1e-5)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_the_closure_of_an_optimizer_that_steps_outside(search):
    """What LBFGS keeps (lists that grow, numbers) is nothing to a closure that does not look at it."""

    def losses(compiled):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2, dtype=torch.float64)  # its steps make roundings larger
        optimizer = torch.optim.LBFGS(net.parameters(), lr=0.3, max_iter=3, line_search_fn=search)
        x, y = (torch.randn(5, n, dtype=torch.float64) for n in (3, 2))

        def closure():
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            return loss

        run = torch.compile(closure) if compiled else closure
        return [optimizer.step(run).item() for _ in range(STEPS)], run

    want, _ = losses(False)
    got, run = losses(True)
    assert got == pytest.approx(want, rel=1e-6)
    assert run.counts["traced"] == 1
    assert run.counts["run"] >= STEPS


class _Counting(torch.optim.SGD):
    """Its first steps are larger, and their number is kept in its state."""

    def step(self, closure=None):
        del closure
        for p in self.param_groups[0]["params"]:
            kept = self.state[p]
            kept["taken"] = kept.get("taken", 0) + 1
            with torch.no_grad():
                p -= (1.0 if kept["taken"] < 3 else 0.1) * p.grad


class _Bare:
    """The same without the class of all optimizers."""

    def __init__(self, params):
        self.param_groups, self.state = [{"params": params}], {p: {"taken": 0} for p in params}

    def step(self):
        for p, kept in self.state.items():
            kept["taken"] += 1
            with torch.no_grad():
                p -= (1.0 if kept["taken"] < 3 else 0.1) * p.grad


@pytest.mark.parametrize("way", ["subclass", "bare", "looked at"])
def test_state_that_decides_is_watched(way):
    def values(compiled):
        w = torch.ones(1, requires_grad=True)
        optimizer = _Bare([w]) if way == "bare" else _Counting([w], lr=1.0)

        def step(x):
            w.grad = None
            loss = (w * x).sum()
            loss.backward()
            if way != "looked at":
                optimizer.step()
            scale = 2 if optimizer.state.get(w, {}).get("taken", 0) > 3 else 1
            return loss * scale if way == "looked at" else loss

        run = torch.compile(step) if compiled else step
        found = []
        for _ in range(6):
            found.append(run(torch.ones(1)).item())
            if way == "looked at":
                optimizer.step()
        return found

    assert values(True) == pytest.approx(values(False))


ORDERS = {
    "before the loss": lambda net, opt, loss: (opt.zero_grad(), loss().backward(), opt.step()),
    "after the loss": lambda net, opt, loss: ((value := loss()), opt.zero_grad(), value.backward(), opt.step()),
    "by the module": lambda net, opt, loss: ((value := loss()), net.zero_grad(), value.backward(), opt.step()),
    "at the end": lambda net, opt, loss: (loss().backward(), opt.step(), opt.zero_grad()),
    "by hand": lambda net, opt, loss: (
        (value := loss()),
        [setattr(p, "grad", None) for p in net.parameters()],
        value.backward(),
        opt.step(),
    ),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_one_trace_wherever_gradients_are_dropped(order):
    """Whether there are gradients when the step begins is nothing to it."""
    weights = []
    for form in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.ones(4, 3)

        def one(x, net=net, opt=opt):
            order(net, opt, lambda: net(x).pow(2).mean())

        step = form(one)
        for _ in range(3):
            step(x)
        weights.append(net.weight.detach())
    torch.testing.assert_close(*weights)
    assert step.counts == {"traced": 1, "run": 3, "eager": 0}


def test_what_looks_at_a_gradient_before_it_is_dropped_knows_whether_there_is_one():
    w = torch.ones(2, requires_grad=True)

    @torch.compile
    def step(x):
        loss = (w * x).sum()
        there = w.grad is not None
        w.grad = None
        loss.backward()
        return there

    assert [step(torch.ones(2)) for _ in range(3)] == [False, True, True]
    w.grad = None
    assert step(torch.ones(2)) is False
    assert w.grad is not None
    assert w.grad.tolist() == [1.0, 1.0]
