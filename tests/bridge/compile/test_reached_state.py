"""What a compiled step changes in optimizers, on tensors, behind wrappers is seen: each call does what eager does."""

import collections
import contextlib
import contextvars
import csv
import functools
import io
import os
import threading
import types
import warnings
import weakref

import pytest

import torchgrad_jax as torch
from tests.differential import agree

STEPS = 5


class Holder:
    n = 0


def counted(holder, key):
    """A step that counts up under a key."""

    def step(x):
        holder[key] += 1
        return x + holder[key]

    return step, lambda: holder[key]


def context_variable():
    variable = contextvars.ContextVar("variable", default=0)

    def step(x):
        variable.set(variable.get() + 1)
        return x + variable.get()

    return step, variable.get


def weak_key():
    key = Holder()
    step, seen = counted(weakref.WeakKeyDictionary({key: 0}), key)
    return step, lambda: (seen(), key.n)


def weak_reference():
    held = Holder()
    ref, proxy = weakref.ref(held), weakref.proxy(held)

    def step(x):
        ref().n += 1
        proxy.n *= 2
        return x + proxy.n

    return step, lambda: held.n


def weak_only():
    held = Holder()
    step = (lambda ref: lambda x: x + add_one(ref()))(weakref.ref(held))
    return step, lambda: held.n


def add_one(held):
    held.n += 1
    return held.n


def thread_local():
    local = threading.local()
    local.n = 0
    return (lambda x: x + add_one(local)), lambda: local.n


def event():
    happened = threading.Event()

    def step(x):
        happened.clear() if happened.is_set() else happened.set()
        return x + happened.is_set()

    return step, happened.is_set


def proxy_of_a_dict():
    held = {"n": 0}
    shown = types.MappingProxyType(held)

    def step(x):
        return x + shown["n"]

    return step, lambda: held.update(n=held["n"] + 1)


def writer_in_c():
    text = io.StringIO()
    writer = csv.writer(text)

    def step(x):
        writer.writerow([1, 2])
        return x

    return step, text.getvalue


def environment():
    os.environ["TORCHGRAD_TEST_COUNT"] = "0"

    def step(x):
        os.environ["TORCHGRAD_TEST_COUNT"] = str(int(os.environ["TORCHGRAD_TEST_COUNT"]) + 1)
        return x + int(os.environ["TORCHGRAD_TEST_COUNT"])

    return step, lambda: os.environ["TORCHGRAD_TEST_COUNT"]


def decorated():
    calls = collections.Counter(n=0)

    def counts(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            calls["n"] += 1
            return fn(*args)

        return wrapper

    return counts(lambda x: x + 1), lambda: calls["n"]


def decorating_object():
    class Counts:
        def __init__(self, fn):
            functools.update_wrapper(self, fn)
            self.fn, self.n = fn, 0

        def __call__(self, x):
            self.n += 1
            return self.fn(x) * self.n

    step = Counts(lambda x: x + 1)
    return step, lambda: step.n


def attribute_of_a_tensor():
    t = torch.zeros(2)
    t.n = 0
    return (lambda x: x + add_one(t)), lambda: t.n


def new_attribute_of_a_tensor():
    t = torch.zeros(2)

    def step(x):
        t.calls = getattr(t, "calls", 0) + 1
        return x + t

    return step, lambda: t.calls


def hook_of_a_tensor():
    w, calls = torch.ones(2, requires_grad=True), [0]
    w.register_hook(lambda g: calls.__setitem__(0, calls[0] + 1))

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad.clone()

    return step, lambda: calls[0]


def hook_after_accumulation():
    w, calls = torch.ones(2, requires_grad=True), []
    w.register_post_accumulate_grad_hook(lambda p: calls.append(len(calls)))

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad.clone()

    return step, lambda: list(calls)


PLACES = [
    context_variable,
    weak_key,
    weak_reference,
    weak_only,
    thread_local,
    event,
    proxy_of_a_dict,
    writer_in_c,
    environment,
    decorated,
    decorating_object,
    attribute_of_a_tensor,
    new_attribute_of_a_tensor,
    hook_of_a_tensor,
    hook_after_accumulation,
]


@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__)
@pytest.mark.filterwarnings("ignore:torch.compile:UserWarning")
def test_what_a_step_changes_where_it_can_reach(make, monkeypatch):
    """Each kind of place is written to in each call, compiled or not."""
    monkeypatch.setenv("TORCHGRAD_TEST_COUNT", "0")

    def run(compiled):
        step, seen = make()
        call = torch.compile(step) if compiled else step
        return [(call(torch.full((2,), float(i))).tolist(), seen()) for i in range(STEPS)]

    assert run(True) == run(False)


def test_a_hook_that_comes_later_is_part_of_the_step():
    w = torch.ones(2, requires_grad=True)

    @torch.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    step(torch.ones(2))
    w.register_hook(lambda g: g * 3)
    step(torch.ones(2))
    assert w.grad.tolist() == [3.0, 3.0]


# --- optimizers


class Counting(torch.optim.SGD):
    """Keeps numbers and a list as attributes."""

    def __init__(self, params):
        super().__init__(params, lr=0.1)
        self.k, self.rates = 0, []

    def step(self, closure=None):
        self.k += 1
        for group in self.param_groups:
            group["lr"] = 0.1 / self.k
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


class Lookahead:
    """Holds another optimizer, and looks like one."""

    def __init__(self, params):
        self.inner, self.params, self.k = torch.optim.Adam(params, lr=0.05), params, 0
        self.slow = [p.detach().clone() for p in params]
        self.param_groups, self.state = self.inner.param_groups, self.inner.state

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        self.inner.step()
        self.k += 1
        if self.k % 3 == 0:
            with torch.no_grad():
                for p, q in zip(self.params, self.slow):
                    q.add_(p - q, alpha=0.5)
                    p.copy_(q)


def adam(params):
    return torch.optim.Adam(params, lr=0.05)


def rate_is_a_tensor(cls):
    return lambda params: cls(params, lr=torch.tensor(0.05))


def nothing(opt):
    pass


def new_option(opt):
    for group in opt.param_groups:
        group["mine"] = group.get("mine", 0) + 1


def initial_rate(opt):
    for group in opt.param_groups:
        group.setdefault("initial_lr", group["lr"])
        group["calls"] = group.get("calls", 0) + 1
        group["lr"] = group["initial_lr"] / group["calls"]


def decayed_state(opt):
    for state in opt.state.values():
        for value in state.values():
            if value.ndim:
                value.mul_(0.9)


def new_entry_of_state(opt):
    for state in opt.state.values():
        state["mine"] = state.get("mine", 0) + 1


def by_how_much_state_there_is(opt):
    if len(opt.state) == 0:
        opt.param_groups[0]["lr"] = 1.0
    else:
        opt.param_groups[0]["lr"] = 0.05


def saved_state(opt):
    opt.tag = len(opt.state_dict()["state"])


def new_attribute(opt):
    opt.calls = getattr(opt, "calls", 0) + 1


def smaller_rate(opt):
    for group in opt.param_groups:
        group["lr"] = group["lr"] * 0.8


PROGRAMS = [
    (Counting, nothing),
    (Lookahead, nothing),
    (adam, new_option),
    (adam, initial_rate),
    (adam, decayed_state),
    (adam, new_entry_of_state),
    (adam, by_how_much_state_there_is),
    (adam, saved_state),
    (adam, new_attribute),
    (rate_is_a_tensor(torch.optim.Adam), smaller_rate),
]


def everything(params, opt):
    """Parameters, options, state and attributes, with the types of numbers."""
    found = [p.detach().clone() for p in params]
    for group in opt.param_groups:
        found += [(k, type(v), v) for k, v in group.items() if k != "params"]
    for state in opt.state.values():
        found += [(k, type(v), v) for k, v in state.items()]
    own = {k: v for k, v in vars(opt).items() if not k.startswith("_")}
    return [*found, [(k, v) for k, v in own.items() if isinstance(v, int | float)], own.get("rates")]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: f"{p[0].__name__}-{p[1].__name__}")
@pytest.mark.filterwarnings("ignore:torch.compile:UserWarning")
def test_what_code_of_the_users_does_to_an_optimizer(program, after):
    make, user = program

    def run(compiled):
        params = [torch.tensor([1.0, -2.0]).requires_grad_(), torch.tensor([0.5]).requires_grad_()]
        opt = make(params)

        def step(x):
            opt.zero_grad()
            loss = ((params[0] * x).sum() + params[1]).square().sum()
            loss.backward()
            if not after:
                user(opt)
            opt.step()
            if after:
                user(opt)
            return loss.detach()

        call = torch.compile(step) if compiled else step
        return [(call(torch.tensor([0.1 * i, 0.2])), everything(params, opt)) for i in range(STEPS)]

    agree(run(True), run(False))


@pytest.mark.parametrize("name", ["ASGD", "Rprop"])
def test_state_that_begins_with_a_rate_that_the_program_computes_is_refused(name):
    """Such a rate has no value yet; the state is as before the call."""
    w = torch.ones(2, requires_grad=True)
    opt = getattr(torch.optim, name)([w], lr=torch.tensor(0.05))

    @torch.compile
    def step():
        w.sum().backward()
        opt.param_groups[0]["lr"].mul_(0.5)
        opt.step()

    with pytest.raises(RuntimeError, match="values of a tensor are needed"):
        step()
    assert (w.tolist(), w.grad, len(opt.state)) == ([1.0, 1.0], None, 0)
    assert opt.param_groups[0]["lr"].item() == pytest.approx(0.05)


def test_an_error_leaves_numbers_that_are_carried():
    """Also in a dict to which a call that failed would have added something."""
    held = {"n": 0}
    table = torch.eye(3)

    @torch.compile
    def step(i):
        held["n"] += 1
        if i.shape[0] > 1:
            held["new"] = 1
        return table[i]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            step(torch.tensor([1]))
    assert step.counts["eager"] == 0
    with pytest.raises(IndexError):
        step(torch.tensor([1, 7]))
    assert held == {"n": 3}
    for i in (1, 7):
        with contextlib.nullcontext() if i == 1 else pytest.raises(IndexError):
            step(torch.tensor([1, i]))
        assert held == {"n": 4, "new": 1}
    assert step.counts["eager"] == 0
