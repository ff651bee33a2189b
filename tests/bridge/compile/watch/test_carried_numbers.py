"""Python numbers that a compiled step changes (learning rates, schedules, counters) are those of the eager step."""

import copy
import functools
import math
import types
import warnings

import pytest

import torchgrad_jax as torch
from tests.bridge import trainings
from torchgrad_jax._core.arrays.python_numbers import Number
from torchgrad_jax.optim import lr_scheduler as schedules

RUNS = 7


def training(optimizer, schedule, order):
    """A step with a schedule inside, and what there is to see after each call."""
    w = torch.tensor([1.0, -2.0], requires_grad=True)
    opt = optimizer(w)
    sched = schedule(opt)

    def step(x):
        opt.zero_grad()
        loss = ((w * x - 1) ** 2).sum()
        loss.backward()
        for what in order:
            (opt if what == "o" else sched).step()
        return loss

    def seen():
        options = [{k: v for k, v in g.items() if k != "params"} for g in opt.param_groups]
        state = getattr(sched, "state_dict", lambda: vars(sched))()
        return plain([w, options, {k: v for k, v in state.items() if not callable(v)}])

    return step, seen


def plain(x):
    """Values without tensors and functions."""
    if isinstance(x, torch.Tensor):
        return x.tolist()
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    return None if callable(x) or isinstance(x, torch.optim.Optimizer) else x


def assert_same(make, traced=3, runs=RUNS):
    """The compiled step does what the eager one does in each call, and is traced at most so often."""
    x = torch.tensor([0.5, 2.0])
    eager, seen = make()
    expected = [(plain(eager(x)), seen()) for _ in range(runs)]
    step, seen = make()
    fast = torch.compile(step)
    for i, want in enumerate(expected):
        found = plain(fast(x)), seen()
        assert same(found, want), f"call {i}: {found} is not {want}"
    assert fast.counts["traced"] <= traced
    assert fast.counts["eager"] == 0
    return fast


def same(a, b):
    """Equal to rounding of floats, exactly otherwise, with the same types."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-7) if isinstance(a, float) else a == b


def warmup(epoch):
    """A rate as programs write one: Python that cannot be traced."""
    return (epoch + 1) / 3 if epoch < 3 else 0.5 * (1 + math.cos(math.pi * epoch / 10))


class Own(schedules.LRScheduler):
    """A schedule of the user's."""

    def get_lr(self):
        return [base / (1 + self.last_epoch) for base in self.base_lrs]


class Noam:
    """A schedule that is no `LRScheduler`."""

    def __init__(self, opt):
        self.opt, self.n = opt, 0

    def step(self):
        self.n += 1
        for group in self.opt.param_groups:
            group["lr"] = 0.1 * min(self.n**-0.5, self.n * 3**-1.5)
            group["weight_decay"] = 0.01 * math.sqrt(self.n)


SCHEDULES = {
    **{name: functools.partial(make, schedules) for name, make in trainings.SCHEDULES.items()},
    "lambda": lambda o: schedules.LambdaLR(o, warmup),
    "sequential": lambda o: schedules.SequentialLR(
        o, [schedules.LinearLR(o, 0.1, total_iters=3), schedules.CosineAnnealingLR(o, 5)], [3]
    ),
    "averaging": lambda o: torch.optim.swa_utils.SWALR(o, 0.02, anneal_epochs=4),
    "own": Own,
    "no scheduler": Noam,
}


def momentum(w):
    return torch.optim.SGD([w], lr=0.1, momentum=0.9)


ORDERS = [(name, "os") for name in SCHEDULES]
ORDERS += [(name, order) for name in ("one cycle", "sequential", "by hand") for order in ("so", "oso")]


@pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step")
@pytest.mark.parametrize(("name", "order"), ORDERS)
def test_a_schedule_inside_of_the_step(name, order):
    assert_same(lambda: training(momentum, SCHEDULES[name], order))


OPTIMIZERS = {
    "sgd": lambda w: torch.optim.SGD([w], lr=0.1),
    "adam": lambda w: torch.optim.Adam([w], lr=0.05),
    "adamw foreach": lambda w: torch.optim.AdamW([w], lr=0.05, foreach=True),
    "rmsprop": lambda w: torch.optim.RMSprop([w], lr=0.01, momentum=0.5),
    "adagrad": lambda w: torch.optim.Adagrad([w], lr=0.1),
    "nadam": lambda w: torch.optim.NAdam([w], lr=0.05),
    "rprop": lambda w: torch.optim.Rprop([w], lr=0.05),
    "groups": lambda w: torch.optim.SGD(
        [{"params": [w], "lr": 0.2}, {"params": [torch.ones(1, requires_grad=True)]}], lr=0.1
    ),
    "tensor lr": lambda w: torch.optim.Adam([w], lr=torch.tensor(0.05)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_read_the_rate_of_their_time(name):
    assert_same(lambda: training(OPTIMIZERS[name], SCHEDULES["lambda"], "oso"))


def test_a_long_schedule_is_traced_once():
    fast = assert_same(lambda: training(momentum, SCHEDULES["cosine"], "os"), traced=1, runs=20)
    assert fast.counts == {"traced": 1, "run": 20, "eager": 0}


@pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step")
def test_numbers_in_tensors_and_results():
    def make():
        w = torch.tensor([1.0], requires_grad=True)
        opt = torch.optim.SGD([w], lr=0.1)
        sched = schedules.ExponentialLR(opt, 0.9)
        group = opt.param_groups[0]

        def step(x):
            before = group["lr"] * x, torch.arange(3) * sched.last_epoch
            sched.step()
            with torch.no_grad():
                w.sub_(group["lr"] * x[:1]).add_(x[:1], alpha=-group["lr"])
            after = x - group["lr"], torch.arange(3) / sched.last_epoch
            return before, after, group["lr"], sched.last_epoch, sched.get_last_lr()

        return step, lambda: (w.tolist(), sched.last_epoch)

    assert_same(make, traced=2)


def test_a_counter_in_every_place():
    class Attribute:
        n = 0

    def make():
        holder, table, listed, count = Attribute(), {"n": 0}, [0, 1.5], 0
        Attribute.n, holder.k = 0, 0.0

        def step(x):
            nonlocal count
            count += 1
            Attribute.n += 2
            holder.k += 0.5
            table["n"] -= 1
            listed[0] += 3
            return x * count + listed[0], Attribute.n * x, holder.k, -table["n"]

        return step, lambda: (count, Attribute.n, holder.k, dict(table), list(listed))

    assert_same(make)


def count_in_list(held, key=0):
    held[key] += 1
    return held[key]


def count_and_remove(held):
    n = held.pop("n", 0)
    if n < 4:
        held["n"] = n + 1
    return n


def count_where_nothing_is(held):
    held["n"] = held.get("n", 0) + 1
    return held["n"]


class Counter:
    n = 0


def count_in_attribute(held):
    held.n = getattr(held, "n", 0) + 1
    return held.n


REMOVED = {
    "entry of a dict": (dict, count_where_nothing_is, lambda held: held.clear()),
    "another entry comes": (
        dict,
        count_where_nothing_is,
        lambda held: held.pop("n", 0) and held.update(m=held.get("m", 0)),
    ),
    "attribute": (Counter, count_in_attribute, lambda held: vars(held).clear()),
    "attribute of a class": (
        lambda: type("Own", (Counter,), {"k": 1}),
        count_in_attribute,
        lambda cls: "n" in vars(cls) and delattr(cls, "n"),
    ),
    "item of a list": (
        lambda: [0, 5],
        lambda held: count_in_list(held, -1),
        lambda held: held.__setitem__(slice(None), held[:1]),
    ),
    "by the function": (dict, count_and_remove, lambda held: None),
    "by a cache beside it": (
        lambda: {"n": [0], "cached": 1},
        lambda held: count_in_list(held["n"]) + held.setdefault("cached", 1),
        lambda held: held.pop("cached", None),
    ),
}


@pytest.mark.parametrize("where", REMOVED)
def test_a_number_that_is_removed_between_calls(where):
    make, count, remove = REMOVED[where]

    def run(wrap):
        held = make()
        step, found = wrap(lambda x: x * count(held)), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i in range(12):
                found.append(step(torch.ones(1)).item())
                if i % 4 == 3:
                    remove(held)
        return found

    assert run(torch.compile) == run(lambda f: f)


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held.append(7),
        lambda held: held.insert(0, 7),
        lambda held: held.pop(),
        lambda held: held.clear(),
        lambda held: held.reverse(),
    ],
    ids=["append", "insert", "pop", "clear", "reverse"],
)
def test_a_list_with_a_counter_is_as_before_a_call_that_fails(change):
    held = [0, 1, 2]

    def step(x, fails):
        held[0] += 1
        if fails:
            change(held)
            raise ValueError("no more")
        return x * held[0]

    fast = torch.compile(step)
    for i in range(8):
        before = list(held)
        if i in (3, 5, 6):
            with pytest.raises(ValueError, match="no more"):
                fast(torch.ones(1), True)
            assert held == before
        else:
            assert fast(torch.ones(1), False).item() == before[0] + 1
    assert held == [5, 1, 2]


GLOBAL = 0


def test_a_global_counter():
    def make():
        global GLOBAL
        GLOBAL = 0

        def step(x):
            global GLOBAL
            GLOBAL += 1
            return x * 0.9**GLOBAL

        return step, lambda: GLOBAL

    assert_same(make, traced=2)


def test_branches_on_a_counter():
    def make():
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        opt = torch.optim.SGD([w], lr=0.1)
        held = {"n": 0}

        def step(x):
            (w * x).sum().backward()
            held["n"] += 1
            if held["n"] % 2 == 0:
                opt.step()
                opt.zero_grad()
            return w * 1

        return step, lambda: (held["n"], w.tolist(), plain(w.grad))

    assert_same(make, traced=4, runs=9)


def test_a_number_of_another_type_makes_another_program():
    opt = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=2)
    step = torch.compile(lambda x: x * opt.param_groups[0]["lr"])
    x = torch.ones(1, dtype=torch.int32)
    found = []
    for lr in (2, 3, 2.5, 4):
        opt.param_groups[0]["lr"] = lr
        found.append(step(x))
    assert [t.item() for t in found] == [2, 3, 2.5, 4]
    assert [t.dtype for t in found] == [torch.int32, torch.int32, torch.float32, torch.int32]
    assert step.counts["traced"] == 2
    assert step.reasons == ["'lr' was a int"]


def test_numbers_that_leave_are_plain():
    held, history = {"n": 0}, []

    def step(x):
        held["n"] += 1
        history.append((held["n"], [held["n"] * 0.5]))
        return x

    fast = torch.compile(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(RUNS):
            fast(torch.ones(1))
    assert history == [(i, [i * 0.5]) for i in range(1, RUNS + 1)]
    assert {type(n) for n, _ in history} | {type(h[0]) for _, h in history} == {int, float}


def test_what_ends_in_text_runs_as_written_with_a_warning():
    held = {"n": 0}

    def step(x):
        held["n"] += 1
        return x, f"step {held['n']}"

    fast = torch.compile(step)
    with pytest.warns(UserWarning, match=r"(?s)step .*not compiled from now on.*text.*test_carried"):
        found = [fast(torch.ones(1))[1] for _ in range(RUNS)]
    assert found == [f"step {i}" for i in range(1, RUNS + 1)]
    assert held["n"] == RUNS


def test_a_failed_call_takes_no_step():
    w = torch.tensor([1.0], requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.1)
    sched = schedules.StepLR(opt, 1, 0.5)

    def step(x):
        (w * x).sum().backward()
        opt.step()
        sched.step()
        if x.sum() > 0:
            return w
        return x

    before = copy.deepcopy(sched.state_dict())
    with pytest.raises(RuntimeError, match="values of a tensor"):
        torch.compile(step)(torch.ones(1))
    assert sched.state_dict() == before
    assert opt.param_groups[0]["lr"] == 0.1
    assert w.tolist() == [1.0]
    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(UserWarning, match="runs eagerly"):
        torch.compile(step)(torch.ones(1))
    assert (sched.last_epoch, opt.param_groups[0]["lr"]) == (1, 0.05)


def test_rates_that_are_tensors():
    def make(read):
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        opt = torch.optim.Adam([w], lr=torch.tensor(0.1))
        sched = schedules.ExponentialLR(opt, 0.9)
        rate = opt.param_groups[0]["lr"]

        def step(x):
            opt.zero_grad()
            (w * x).sum().backward()
            before = rate * 1
            opt.step()
            sched.step()
            return before, rate * 1, read(sched)

        return step, lambda: (w.tolist(), rate.item(), rate._version, sched.last_epoch)

    assert_same(lambda: make(lambda sched: sched.last_epoch), traced=2)
    step, _ = make(lambda sched: sched.get_last_lr()[0] * 1)
    with pytest.raises(RuntimeError, match="get_last_lr"):
        torch.compile(step)(torch.ones(2))


GRADIENTS_WITH_A_NUMBER = {
    "factor": lambda x, k: x**3 * k,
    "divided": lambda x, k: k / x,
    "exponent": lambda x, k: x**k,
    "base": lambda x, k: k**x,
    "bound": lambda x, k: x.clamp(max=k) ** 2,
    "weight": lambda x, k: torch.lerp(x * x, x, k),
    "alpha": lambda x, k: torch.sub(x * x, x, alpha=k),
}


@pytest.mark.parametrize("numbers", [(2.0, 3.0, 4.0, 5.0), (2, 3, 4, 5)], ids=["float", "int"])
@pytest.mark.parametrize("f", GRADIENTS_WITH_A_NUMBER.values(), ids=GRADIENTS_WITH_A_NUMBER)
def test_a_number_that_changes_is_part_of_gradients_of_gradients(f, numbers):
    found = []
    for form in (lambda f: f, torch.compile):
        held, w = types.SimpleNamespace(k=2.0), torch.ones(3, requires_grad=True)

        @form
        def slope(x):
            y = (f(x, held.k) * w).sum()  # noqa: B023 - called before the next round
            return torch.autograd.grad(y, x, create_graph=True)[0]

        for held.k in numbers:
            x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            slope(x).sum().backward()
            assert x.grad is not None
            assert w.grad is not None
            found.append(torch.stack([x.grad, w.grad]))
        found.append(getattr(slope, "counts", {}).get("traced"))
    assert found[-1] < len(numbers)
    n = len(numbers)
    torch.testing.assert_close(found[n + 1 : 2 * n + 1], found[:n])


def _added(part):
    part.add_(1)


WRITTEN_AT = {
    "an index": lambda y, n: _added(y[n]),
    "an index of a column": lambda y, n: _added(y[:, n % 3]),
    "a range": lambda y, n: _added(y[n : n + 2]),
    "select": lambda y, n: _added(y.select(0, n)),
    "narrow": lambda y, n: _added(y.narrow(0, n, 1)),
    "a view of a view": lambda y, n: _added(y[n].view(3, 1)[n % 3]),
    "both parts of divmod": lambda y, n: _added(y[divmod(n, 3)[1]][divmod(7, n + 1)[0] % 3]),
}


@pytest.mark.parametrize("name", WRITTEN_AT)
def test_a_part_that_a_counter_chooses_is_written_to(name):
    """As a ring buffer does, whose place is a number that the step counts up."""

    def made():
        buffer, state = torch.zeros(4, 3), {"n": 0}

        def step():
            WRITTEN_AT[name](buffer, state["n"] % 4)
            state["n"] += 1
            return buffer.clone()

        return step

    one, other = made(), torch.compile(made())
    for _ in range(6):
        assert other().tolist() == one().tolist()


VIEWS_AT = {
    "an index": lambda y, n: y[n],
    "an index of a column": lambda y, n: y[:, n % 3],
    "a range": lambda y, n: y[n:],
    "select": lambda y, n: y.select(0, n),
    "narrow": lambda y, n: y.narrow(0, n, 1),
    "a range of columns": lambda y, n: y[:, n % 3 :],
    "transposed dimensions": lambda y, n: y.transpose(0, n % 2),
    "flattened from a dimension on": lambda y, n: y.flatten(n % 2),
    "a diagonal": lambda y, n: y.diagonal(n % 3),
}


@pytest.mark.parametrize("name", VIEWS_AT)
def test_eager_code_gets_no_number_of_a_compiled_function(name):
    """What is kept of a call is kept for the numbers that its arguments are equal to."""
    view = VIEWS_AT[name]
    buffer, state = torch.zeros(5, 3), {"n": 0}

    @torch.compile
    def step():
        view(buffer, state["n"] % 4).add_(1)
        state["n"] += 1

    for _ in range(5):
        step()
    for n in range(4):
        x = torch.ones(5, 3, requires_grad=True)
        y = view(x, n)
        node = y.grad_fn
        saved = [getattr(node, a) for a in dir(node) if a.startswith("_saved_")]
        assert not any(type(v) is Number for v in saved)
        (y**2).sum().backward()
        expected = torch.zeros(5, 3)
        view(expected, n).fill_(2)
        assert x.grad.tolist() == expected.tolist()
