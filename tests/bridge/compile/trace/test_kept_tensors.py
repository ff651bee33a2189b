"""Tensors that a compiled function keeps outside in each call: auxiliary losses, hidden states, captured features."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn

X = [torch.randn(3, 4, generator=torch.Generator().manual_seed(i)) for i in range(6)]


class Module(nn.Module):
    """One layer, and whatever a test keeps."""

    def __init__(self, **kept: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(4, 4)
        for name, value in kept.items():
            setattr(self, name, value)


class Penalty(Module):
    """A loss beside the result, with its graph."""

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        self.penalty = y.square().mean()
        return y


class Hidden(Module):
    """A state that is read before the next one is kept."""

    def forward(self, x: Any) -> Any:
        self.state = torch.tanh(self.inner(x) + self.state).detach()
        return self.state * 2


class Pair(Module):
    """A pair of states."""

    def forward(self, x: Any) -> Any:
        h, c = self.state
        c = c.sigmoid() * self.inner(x) + h
        self.state = (c.tanh().detach(), c.detach())
        return c


class Losses(Module):
    """A list that is made again in each call."""

    def forward(self, x: Any) -> Any:
        self.losses = []
        for _ in range(2):
            x = self.inner(x)
            self.losses.append(x.square().mean())
        return x + sum(self.losses)


class Filled(Module):
    """A list that is emptied and filled in each call."""

    def forward(self, x: Any) -> Any:
        self.losses.clear()
        for _ in range(2):
            x = self.inner(x)
            self.losses.append(x.square().mean())
        return x


class Average(Module):
    """A buffer that is replaced, not written to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.inner(x) - self.mean


class Queue(Module):
    """Rows of the last calls: its size changes at first."""

    def forward(self, x: Any) -> Any:
        self.queue = torch.cat([self.queue, self.inner(x).detach()])[-7:]
        return self.queue.sum(0)


class Last(Module):
    """The argument itself is kept."""

    def forward(self, x: Any) -> Any:
        self.last = x
        return self.inner(x)


class Before(Module):
    """The state of the call before is the result."""

    def forward(self, x: Any) -> Any:
        old, self.state = self.state, x * 2
        return old


class Turns(Module):
    """What was under one name goes under another."""

    def forward(self, x: Any) -> Any:
        self.older = self.state
        self.state = self.inner(x).detach()
        return self.older + self.state


class Twice(Module):
    """One tensor in two places, a view of it in a third, and returned."""

    def forward(self, x: Any) -> Any:
        self.one = self.two = y = self.inner(x)
        self.row = y[0]
        return y


class Written(Module):
    """The state is written to, and then replaced."""

    def forward(self, x: Any) -> Any:
        self.state.add_(x)
        self.state = self.state * 0.5
        return self.state + 1


class Restarted(Module):
    """The size of the state says whether it is begun again."""

    def forward(self, x: Any) -> Any:
        if self.state is None or self.state.shape != x.shape:
            self.state = torch.zeros_like(x)
        self.state = self.state * 0.5 + x
        return self.inner(self.state)


class Mixed(Module):
    """Tensors among other values in a dict."""

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        parts: Any = [y.amax(), (y.amin(), None)]
        self.facts = {"mean": y.mean().detach(), "parts": parts, "size": 4, "name": "y"}
        return y


class Captured(Module):
    """A hook keeps the result of a layer in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.features: dict[str, Any] = {}
        self.inner.register_forward_hook(self._keep)

    def _keep(self, module: Any, args: Any, out: Any) -> None:
        self.features["inner"] = out.detach()

    def forward(self, x: Any) -> Any:
        return self.inner(x).tanh()


class Normed(Module):
    """PyTorch's older `weight_norm` computes an attribute before each forward."""

    def __init__(self) -> None:
        super().__init__()
        with pytest.warns(FutureWarning):
            nn.utils.weight_norm(self.inner)

    def forward(self, x: Any) -> Any:
        return self.inner(x)


MODULES: dict[str, tuple[Callable[[], Any], int]] = {
    "penalty": (Penalty, 2),
    "penalty that is there": (lambda: Penalty(penalty=torch.zeros(())), 2),
    "hidden": (lambda: Hidden(state=torch.zeros(3, 4)), 1),
    "hidden, widened": (lambda: Hidden(state=torch.zeros(4)), 2),
    "pair": (lambda: Pair(state=(torch.zeros(3, 4), torch.ones(3, 4))), 1),
    "losses": (Losses, 2),
    "filled": (lambda: Filled(losses=[]), 2),
    "average": (Average, 1),
    "queue": (lambda: Queue(queue=torch.zeros(0, 4)), 4),
    "last": (Last, 2),
    "twice": (Twice, 2),
    "mixed": (Mixed, 2),
    "restarted": (lambda: Restarted(state=None), 2),
    "captured": (Captured, 2),
    "weight_norm": (Normed, 2),
}
"""Each module, and how often it may be traced in six calls of which the last has another size."""


def _train(net: Any, f: Any, inputs: Any) -> list[Any]:
    """Results, what is kept, and parameters after each step."""
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.1), []
    for x in inputs:
        y = f(x)
        loss = y.square().mean()
        for extra in (getattr(net, "penalty", None), *getattr(net, "losses", ())):
            loss = loss + extra if extra is not None else loss
        if loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        kept = [v for k, v in vars(net).items() if not k.startswith("_") and k != "training"]
        kept += list(net.buffers())
        seen.append([y, *torch.utils._pytree.tree_leaves(kept), *[p.detach().clone() for p in net.parameters()]])
    return seen


def _equal(found: list[Any], wanted: list[Any]) -> None:
    for step, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert len(a) == len(b), step
        for x, y in zip(a, b):
            if not isinstance(x, torch.Tensor):
                assert x is y or type(x) is type(y)
                continue
            assert x.requires_grad == y.requires_grad
            torch.testing.assert_close(x.detach(), y.detach())


@pytest.mark.parametrize("name", MODULES)
def test_what_is_kept_is_one_more_result(name: str) -> None:
    make, most = MODULES[name]
    plain, net = make(), make()
    compiled = torch.compile(net)
    _equal(_train(net, compiled, X), _train(plain, plain, X))
    assert compiled.counts["traced"] <= most
    assert compiled.counts["eager"] == 0


class First(Module):
    """The state begins as a tensor that is read in each call."""

    def forward(self, x: Any) -> Any:
        self.state = self.inner(x).detach() + self.state
        return self.state - self.first


class Counted(Module):
    """A number that differs from call to call beside a tensor."""

    def forward(self, x: Any) -> Any:
        self.facts = {"mean": self.inner(x).mean(), "calls": self.facts["calls"] + 1}
        return x * self.facts["calls"]


class Shared(Module):
    """One of two names for a list is given another list."""

    def forward(self, x: Any) -> Any:
        out = x * self.other[0]
        self.parts = [x + 1]
        return out


class Told(Module):
    """The result is an object that holds the state of the call before."""

    def forward(self, x: Any) -> Any:
        old, self.state = self.state, x * 2
        return SimpleNamespace(old=old, now=self.inner(x))


OTHERS: dict[str, Callable[[], Any]] = {
    "before": lambda: Before(state=torch.zeros(3, 4)),
    "counted": lambda: Counted(facts={"mean": torch.zeros(()), "calls": 0}),
    "turns": lambda: Turns(state=torch.zeros(3, 4), older=torch.zeros(3, 4)),
    "first": lambda: First(first=X[1], state=X[1]),
    "view of the first": lambda: First(first=X[1], state=X[1].detach()),
    "written": lambda: Written(state=torch.zeros(3, 4)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("ignore:torch.compile")
def test_what_a_program_cannot_keep_runs_as_written(name: str) -> None:
    plain, net = OTHERS[name](), OTHERS[name]()
    _equal(_train(net, torch.compile(net), X), _train(plain, plain, X))


@pytest.mark.filterwarnings("ignore:torch.compile")
def test_new_entries_of_a_dict_come_in_the_order_of_the_function() -> None:
    held: dict[str, Any] = {}

    @torch.compile
    def step(x: Any, n: int) -> Any:
        held["sum"] = x.sum()
        held["n"] = n
        held["mean"] = x.mean()
        held["twice"] = n * 2
        return x + 1

    for n in (1, 2, 2):
        step(torch.ones(2), n)
        assert list(held) == ["sum", "n", "mean", "twice"]
        assert (held["sum"].item(), held["n"], held["twice"]) == (2.0, n, 2 * n)


def test_a_list_with_two_names_is_still_looked_at() -> None:
    parts = [torch.ones(3, 4)]
    compiled = torch.compile(Shared(parts=parts, other=parts))
    for k in range(5):
        parts[0] = torch.full((3, 4), float(k))
        assert torch.equal(compiled(X[0]), X[0] * k)


def test_tensors_kept_under_parameters_as_keys() -> None:
    def run(wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        """Sharpness-aware minimization: each parameter moves, and moves back by what was kept under it."""
        torch.manual_seed(0)
        net, moved = nn.Linear(4, 1), {}
        opt = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            net(x).square().mean().backward()
            with torch.no_grad():
                for p in net.parameters():
                    assert p.grad is not None
                    moved[p] = p.grad * 0.05
                    p.add_(moved[p])
            opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p.sub_(moved[p])
            opt.step()
            opt.zero_grad()
            return loss

        step = wrap(step)
        found = [step(x).item() for x in X]
        return found + [t.tolist() for t in (*net.parameters(), *moved.values())], step

    found, fast = run(torch.compile)
    for a, b in zip(found, run(lambda f: f)[0]):
        assert torch.tensor(a).allclose(torch.tensor(b))
    assert fast.counts["eager"] == 0


@pytest.mark.filterwarnings("ignore:torch.compile")
def test_an_object_that_holds_the_state_before_holds_it_in_each_call() -> None:
    plain, net = (Told(state=torch.zeros(3, 4)) for _ in range(2))
    compiled = torch.compile(net)
    for x in X:
        found, wanted = compiled(x), plain(x)
        assert torch.equal(found.old, wanted.old)
        torch.testing.assert_close(found.now, wanted.now)


def test_an_argument_that_is_kept_and_given_again_is_one_program() -> None:
    class Difference(Module):
        def forward(self, x: Any) -> Any:
            change = x - self.last
            self.last = x
            return change.sum()

    net = Difference(last=torch.ones(3, 4))
    compiled, x = torch.compile(net), X[0].clone()
    for _ in range(4):
        before = net.last.sum().item() if net.last is not x else x.sum().item()
        torch.testing.assert_close(compiled(x).item(), x.sum().item() - before, atol=1e-5, rtol=0)
        assert net.last is x
        x.add_(1)
    assert compiled.counts["traced"] <= 2


def test_one_tensor_in_two_places_is_one_tensor() -> None:
    net = Twice()
    compiled = torch.compile(net)
    for x in X[:4]:
        y = compiled(x)
        assert net.one is net.two
        assert net.one is y
        with torch.no_grad():
            y.fill_(5)
        assert net.row.eq(5).all()
    assert compiled.counts["traced"] == 2


def test_a_state_may_be_another_one_between_calls() -> None:
    """Begun again, written to, of another size, on the memory of a parameter, with a gradient, and no tensor at all."""

    def begin(net: Any, k: int) -> None:
        net.state = [
            torch.ones(3, 4),
            torch.ones(4),
            net.inner.weight.data[:3],
            net.inner.bias.data,
            torch.ones(3, 4, requires_grad=True),
            torch.ones(4, 3).t(),
            torch.ones(3, 4).double(),
            2.0,
        ][k]

    plain, net = (Hidden(state=torch.zeros(3, 4)) for _ in range(2))
    compiled = torch.compile(net)
    for k in (0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 3):
        for each in (plain, net):
            begin(each, k)
        for x in X[:3]:
            y, want = compiled(x), plain(x)
            assert y.dtype is want.dtype
            torch.testing.assert_close(y, want)
            torch.testing.assert_close(net.state, plain.state)
            for each in (plain, net):
                each.state += 1


def test_a_whole_step_keeps_its_state_on_the_memory_of_a_parameter() -> None:
    def trained(compiles: bool) -> list[Any]:
        net, seen = Hidden(state=torch.zeros(4, 4)), []
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (net(x) * net.inner.weight).sum()
            loss.backward()
            optimizer.step()
            net.loss = loss.detach()
            return net.state.sum()

        f = torch.compile(step) if compiles else step
        for i in range(6):
            if i == 4:
                net.state = net.inner.weight.data  # which the step writes to, after it has read the state
            seen.append([f(torch.ones(4, 4) * i), net.loss, net.state.clone()])
        return seen

    _equal(trained(True), trained(False))


def test_a_call_that_raises_keeps_nothing() -> None:
    table, held = torch.arange(5.0), SimpleNamespace(last=torch.zeros(2))

    @torch.compile
    def look(i: Any) -> Any:
        held.last = table[i] * 2
        return held.last + 1

    for k in range(3):
        look(torch.tensor([k, 1]))
    then = held.last
    with pytest.raises(IndexError):
        look(torch.tensor([9, 1]))
    assert held.last is then
    look(torch.tensor([4, 1]))
    assert held.last.tolist() == [8.0, 2.0]
    assert look.counts["traced"] == 1


@pytest.mark.parametrize("kept", ["tensor", "dict", "parameter"])
@pytest.mark.parametrize("spectral", [False, True])
@pytest.mark.filterwarnings("ignore:torch.compile")
def test_second_derivatives_beside_what_is_kept(kept: str, spectral: bool) -> None:
    """A buffer that the call writes to is what the call has read, and a kept tensor cuts no gradient."""

    class Net(Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("u", torch.ones(4))

        def forward(self, x: Any) -> Any:
            w = self.inner.weight * 1.5
            if spectral:
                with torch.no_grad():
                    self.u.copy_((w @ w.t() @ self.u).div(10))
                w = w / (self.u @ self.u)
            if kept == "tensor":
                self.w = w
            elif kept == "dict":
                self.w = {"w": w, "of": self}
            else:
                self.w = nn.Parameter(w.detach())
            return torch.tanh(x @ w.t())

    plain, net = Net(), Net()
    compiled = torch.compile(net)
    for x in X[:4]:
        found = []
        for each, f in ((plain, plain), (net, compiled)):
            x = x.detach().requires_grad_()
            (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
            each.zero_grad()
            g.square().sum().backward()
            found.append((g, x.grad, each.inner.weight.grad, each.u))
        for a, b in zip(*found):
            torch.testing.assert_close(b, a)


def test_many_steps_keep_their_state_one_by_one() -> None:
    net, plain = Hidden(state=torch.zeros(3, 4)), Hidden(state=torch.zeros(3, 4))
    found = torch.compile(lambda x: net(x).sum()).many(torch.stack(X))
    torch.testing.assert_close(found, torch.stack([plain(x).sum() for x in X]))
    torch.testing.assert_close(net.state, plain.state)


def test_nothing_of_the_first_calls_stays_alive() -> None:
    import gc
    import weakref

    net = Penalty()
    compiled, refs = torch.compile(net), []
    for x in X[:5]:
        compiled(x)
        refs.append(weakref.ref(net.penalty))
    gc.collect()
    assert [ref() is None for ref in refs] == [True] * 4 + [False]


def test_a_closure_and_a_global_keep_tensors() -> None:
    seen: Any = None

    def step(x: Any) -> Any:
        nonlocal seen
        global LAST
        seen = LAST = x.exp()
        return seen.sum()

    f = torch.compile(step)
    for x in X[:4]:
        f(x)
        torch.testing.assert_close(seen, x.exp())
        assert LAST is seen
    assert f.counts["traced"] <= 2


LAST: Any = None


def test_explain_says_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = torch.compile(Penalty(penalty=torch.zeros(())))
    compiled(X[0])
    compiled.explain()
    assert "keeps outside           'penalty'\n" in capsys.readouterr().out


class Stepping(Module):
    """A loop whose steps leave a value outside of it."""

    leave: Any = None

    def forward(self, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            type(self).leave(self, h)
            return self.inner(h) + row, h

        return torch.interop.scan(step, torch.zeros(4), x)[0]


LEFT: dict[str, Callable[[Any, Any], None]] = {
    "an attribute": lambda module, h: setattr(module, "last", h),
    "a list": lambda module, h: module.seen.append(h),
    "a dict": lambda module, h: module.named.__setitem__("h", h),
    "a tuple": lambda module, h: setattr(module, "last", (h, 1)),
}


@pytest.mark.parametrize("where", LEFT)
def test_a_value_of_a_step_of_a_loop_is_not_kept(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Stepping(seen=[], named={}, last=None)
    monkeypatch.setattr(Stepping, "leave", LEFT[where])
    step = torch.compile(module)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="left a value of one of its steps outside"):
            step(X[0])
    assert (module.seen, module.named, module.last) == ([], {}, None)
    monkeypatch.setattr(Stepping, "leave", lambda module, h: None)
    torch.testing.assert_close(step(X[0]), module(X[0]))
