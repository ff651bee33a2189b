"""What ordinary training programs keep around a compiled step does not trace it again, and changes no number."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn

log: list[float] = []
"""A global list with the name of a method that the step calls; each test may make it longer."""


def _net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_compiled_model_under_autocast_is_a_program(dtype: str) -> None:
    nets = _net(), _net()
    model = torch.compile(nets[0])

    @torch.compile
    def with_autocast_inside(x: Any) -> Any:
        with torch.autocast("cpu", dtype=getattr(torch, dtype)):
            return nets[1](x)

    for i in range(3):
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(i))
        with torch.autocast("cpu", dtype=getattr(torch, dtype)):
            out = model(x)
            assert torch.is_autocast_enabled("cpu")
        want = with_autocast_inside(x)
        for y in (out, want):
            y.float().square().sum().backward()
        assert out.dtype is getattr(torch, dtype)
        # Two programs, and XLA chooses in each what it keeps more precise than half precision.
        torch.testing.assert_close(out, want, rtol=2e-2, atol=1e-2)
        for p, q in zip(nets[0].parameters(), nets[1].parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=2e-2, atol=1e-2)
    assert model.counts == {"traced": 1, "run": 3, "eager": 0}


def test_what_autocast_casts_is_part_of_what_a_program_is_made_for() -> None:
    net = _net()
    model, x = torch.compile(net), torch.ones(5, 3)
    kinds = []
    for dtype in (torch.bfloat16, None, torch.float16, torch.bfloat16, None):
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            before = net(x)  # casts of the weights that eager code keeps
            kinds.append((model(x).dtype, net(x).dtype, before.requires_grad))
    assert [a for a, _, _ in kinds] == [b for _, b, _ in kinds]
    assert model.counts["traced"] == 3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "bf16" in model.lower(x).as_text()


def test_a_program_asks_for_autocast_as_eager_code_does() -> None:
    def told(x: torch.Tensor) -> torch.Tensor:
        return x @ x if torch.is_autocast_enabled("cpu") else x + 5

    compiled, x = torch.compile(told), torch.eye(2)
    for _ in range(2):
        assert torch.equal(compiled(x), x + 5)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert compiled(x).dtype is torch.bfloat16
    assert compiled.counts == {"traced": 2, "run": 4, "eager": 0}


def test_a_method_does_not_name_the_global_of_its_name() -> None:
    step = torch.compile(lambda x: x.exp().log())
    log.extend(step(torch.tensor([float(i)])).item() for i in range(4))
    assert log[-4:] == pytest.approx([0, 1, 2, 3])
    assert step.counts["traced"] == 1


def test_a_global_that_is_named_is_looked_at() -> None:
    step = torch.compile(lambda x: x * len(log))
    for _ in range(3):
        log.append(0.0)
        assert step(torch.ones(())).item() == len(log)


class _Inner(torch.autograd.Function):
    """Takes its gradient by a pass of its own over copies that share memory, as adjoint methods do."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return torch.tanh(x @ w)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        with torch.enable_grad():
            x, w = (t.detach().requires_grad_() for t in ctx.saved_tensors)
            return torch.autograd.grad(torch.tanh(x @ w), (x, w), g)


@pytest.mark.parametrize("whole", [True, False], ids=["step", "model"])
def test_a_backward_over_detached_weights_is_part_of_the_program(whole: bool) -> None:
    def losses(compile: Any) -> list[float]:
        torch.manual_seed(0)
        w = nn.Parameter(torch.randn(3, 2))
        opt = torch.optim.SGD([w], lr=0.1)

        def model(x: Any) -> Any:
            return _Inner.apply(x, w)

        if not whole:
            model = compile(model)

        def step(x: Any) -> Any:
            opt.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            opt.step()
            return loss.detach()

        taken = compile(step) if whole else step
        found = [taken(torch.full((2, 3), 0.1 * i)).item() for i in range(4)]
        if compile is not _as_it_is:
            assert (taken if whole else model).counts == {"traced": 1, "run": 4, "eager": 0}
            assert w.requires_grad
        return found

    assert losses(torch.compile) == pytest.approx(losses(_as_it_is))


def _as_it_is(f: Any) -> Any:
    return f


def test_a_detached_weight_that_is_kept_has_its_gradient() -> None:
    w = torch.ones(2, requires_grad=True)
    kept: list[Any] = [None]

    @torch.compile
    def step(x: Any) -> Any:
        kept[0] = w.detach().requires_grad_()
        (x * kept[0]).sum().backward()
        return x.sum()

    for i in range(3):
        step(torch.full((2,), float(i)))
        assert kept[0].requires_grad
        assert kept[0].grad.tolist() == [i, i]
    assert w.grad is None


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor | None = None
    name: str = ""


@dataclasses.dataclass(frozen=True)
class Output:
    loss: torch.Tensor
    parts: tuple[torch.Tensor, ...]
    batch: Any = None


@pytest.mark.parametrize("leaf_first", [False, True])
def test_a_backward_pass_inside_goes_on_into_the_graph_of_an_argument(leaf_first: bool) -> None:
    @torch.compile
    def step(logits: Any) -> Any:
        loss = (logits * 3).sum()
        loss.backward()
        return loss.detach()

    if leaf_first:
        leaf = torch.ones(2, requires_grad=True)
        assert [step(leaf).item() for _ in range(2)] == [6.0, 6.0]
        assert leaf.grad is not None
        assert (leaf.grad.tolist(), step.counts["run"]) == ([6.0, 6.0], 2)
    w = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="into the graph of an argument"):
        assert step(w * 2).item() == 12.0
    step({"logits": w * 2}["logits"])
    assert w.grad is not None
    assert w.grad.tolist() == [12.0, 12.0]
    whole = torch.compile(lambda x: (x * 3).sum().backward(), fullgraph=True)
    with pytest.raises(RuntimeError, match="into the graph of an argument"):
        whole(w * 2)
    assert w.grad.tolist() == [12.0, 12.0]


def _by_grad(y: Any, t: Any) -> Any:
    return torch.autograd.grad(y.sum(), t, allow_unused=True)[0] * 1


def _to_inputs(y: Any, t: Any) -> Any:
    (y * 3).sum().backward(inputs=[t])
    return t.grad * 1


def _with_hook(y: Any, t: Any) -> Any:
    y.register_hook(lambda g: g * 10)
    return y * 3


def _with_gradient_kept(y: Any, t: Any) -> Any:
    y.retain_grad()
    return y * 3


def _written_to(y: Any, t: Any) -> Any:
    return y.mul_(3)


def _by_flag(y: Any, t: Any) -> Any:
    return y * (2 if y.is_leaf else 5)


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("fn", [_by_grad, _to_inputs, _with_hook, _with_gradient_kept, _written_to, _by_flag])
def test_what_depends_on_the_graph_of_an_argument(fn: Any) -> None:
    def run(wrap: Any) -> list[Any]:
        step, found = wrap(fn), []
        for _ in range(3):
            t = torch.ones(2, requires_grad=True)
            y = t * 2
            out = step(y, t)
            if out.requires_grad:
                out.sum().backward()
            assert t.grad is not None or fn is _by_grad
            kept = y.grad if y.retains_grad else None
            found.append([x if x is None else x.tolist() for x in (out, t.grad, kept)])
        return found

    assert run(torch.compile) == run(_as_it_is)


def test_a_gradient_with_respect_to_an_argument_is_part_of_the_program() -> None:
    slope = torch.compile(lambda y: torch.autograd.grad((y * y).sum(), y)[0])
    for _ in range(2):
        assert slope(torch.ones(2, requires_grad=True) * 2).tolist() == [4.0, 4.0]
    assert slope.counts == {"traced": 1, "run": 2, "eager": 0}


def test_a_batch_may_be_a_dataclass() -> None:
    w = torch.ones(2, requires_grad=True)

    @torch.compile
    def step(batch: Batch) -> Output:
        out = batch.x * w if batch.y is None else batch.x * w - batch.y
        return Output(out.sum(), (out.detach(), out.detach() + len(batch.name)))

    for i in range(6):
        w.grad = None
        batch = Batch(torch.full((2,), float(i)), torch.ones(2) if i % 2 else None, "ab")
        out = step(batch)
        assert type(out) is Output
        out.loss.backward()
        assert w.grad is not None
        assert w.grad.tolist() == [i, i]
        assert out.loss.item() == 2 * (i - i % 2)
        assert out.parts[1].tolist() == [i - i % 2 + 2.0] * 2
    assert step.counts["traced"] <= 4


def test_other_fields_of_a_batch_make_another_program() -> None:
    named = torch.compile(lambda batch: batch.x * len(batch.name))
    assert [named(Batch(torch.ones(()), None, "a" * n)).item() for n in (1, 2, 3, 1)] == [1, 2, 3, 1]


def test_a_batch_that_is_given_back_is_the_one_that_was_given() -> None:
    same = torch.compile(lambda batch: Output(batch.x * 2, (), batch))
    batches = [Batch(torch.full((), float(i))) for i in range(4)]
    outs = [same(batch) for batch in batches]
    assert [a.batch is b for a, b in zip(outs, batches)] == [True] * 4
    assert [a.loss.item() for a in outs] == [0, 2, 4, 6]
    assert same.counts["run"] == 4


def test_a_batch_that_is_written_to_is_written_to_in_each_call() -> None:
    def center(batch: Batch) -> torch.Tensor:
        batch.x = batch.x - 1
        batch.y = batch.x * 2
        return batch.x.sum()

    centered = torch.compile(center)
    batches = [Batch(torch.full((2,), float(i))) for i in range(6)]
    with pytest.warns(UserWarning, match="runs eagerly"):
        sums = [centered(batch).item() for batch in batches]
    assert sums == [2 * (i - 1) for i in range(6)]
    for i, batch in enumerate(batches):
        assert batch.y is not None
        assert (batch.x.tolist(), batch.y.tolist()) == ([i - 1] * 2, [2 * (i - 1)] * 2)


def test_rows_of_a_batch_that_is_a_dataclass() -> None:
    total = torch.zeros(())

    @torch.compile
    def add(batch: Batch) -> torch.Tensor:
        total.add_(batch.x)
        return total * 1

    assert add.many(Batch(torch.tensor([1.0, 2.0, 3.0]))).tolist() == [1, 3, 6]


@dataclasses.dataclass
class State:
    """A dataclass that comes again, and counts."""

    net: Any
    n: int = 0

    def step(self, x: Any) -> Any:
        self.n += 1
        return self.net(x).sum() * self.n


def test_a_dataclass_that_comes_again_counts_on() -> None:
    states = State(nn.Linear(2, 1)), State(nn.Linear(2, 1))
    step = torch.compile(State.step)
    for i in range(1, 7):
        for state in states:
            x = torch.full((2,), float(i))
            torch.testing.assert_close(step(state, x), state.net(x).sum() * i)
            assert state.n == i


def test_modes_that_a_step_sets_are_set_in_each_run() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))

    @torch.compile
    def train(x: Any) -> Any:
        net.train()
        return net(x).detach()

    @torch.compile
    def evaluate(x: Any) -> Any:
        net.eval()
        return net(x).detach()

    x = torch.ones(50, 2)
    for _ in range(6):
        assert (train(x) == 0).any()
        assert net.training
        assert net[1].training
        assert (train(x) == 0).any()
        assert not (evaluate(x) == 0).any()
        assert not net.training
    assert (train.counts["traced"], evaluate.counts["traced"]) == (2, 1)
    assert train.counts["eager"] == evaluate.counts["eager"] == 0


def test_a_mode_that_a_failed_call_sets_is_what_it_was() -> None:
    held = {"mode": "first", "on": False}

    @torch.compile
    def look_up(i: Any) -> Any:
        held.update(mode="second", on=True)
        return torch.ones(3)[i]

    look_up(torch.tensor([0]))
    assert held == {"mode": "second", "on": True}
    held.update(mode="first", on=False)
    with pytest.raises(IndexError):
        look_up(torch.tensor([3]))
    assert held == {"mode": "first", "on": False}


def test_steps_that_switch_a_flag_in_turn_taken_in_one_call() -> None:
    class Turns:
        on = False

        def __init__(self) -> None:
            self.on = False

        def step(self, x: Any) -> Any:
            self.on = not self.on
            return x * 2 if self.on else x * 3

    turns = Turns()
    step = torch.compile(turns.step)
    assert step.many(torch.ones(5)).tolist() == [2, 3, 2, 3, 2]
    assert turns.on


class Trainer:
    """Keeps what trainers keep."""

    def __init__(self) -> None:
        self.net = nn.Linear(2, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.history: list[float] = []
        self.best: dict[str, Any] | None = None
        self.last: Any = None
        self.scales = [1.0]
        self.step = torch.compile(self._step)

    def _step(self, x: Any) -> Any:
        self.opt.zero_grad()
        loss = self.net(x).square().mean() * len(self.scales)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def train(self, n: int) -> None:
        for i in range(n):
            self.last = self.step(torch.ones(3, 2))
            self.history.append(self.last.item())
            self.best = {k: v.clone() for k, v in self.net.state_dict().items()}
            self.epoch = i


def test_what_a_trainer_keeps_and_its_step_does_not_read_traces_nothing() -> None:
    trainer = Trainer()
    trainer.train(5)
    assert trainer.step.counts == {"traced": 1, "run": 5, "eager": 0}
    assert trainer.history == sorted(trainer.history, reverse=True)


def test_what_the_step_of_a_trainer_reads_is_looked_at() -> None:
    trainer = Trainer()
    first = trainer.step(torch.zeros(3, 2)) / trainer.net.bias.detach().square()
    trainer.scales.append(2.0)
    before = trainer.net.bias.detach().clone()
    torch.testing.assert_close(trainer.step(torch.zeros(3, 2)), 2 * before.square().sum())
    assert trainer.step.counts["traced"] == 2
    assert first.shape == (1,)


class Reader:
    """Reads attributes in several ways."""

    limit: Any

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.other = self.kept
        self.config = {"a": {"scale": 1}}

    def by_name(self) -> Any:
        return self.kept

    def by_another_name(self) -> Any:
        return self.other

    def by_getattr(self) -> Any:
        return getattr(self, "ke" + "pt")

    def by_dict(self) -> Any:
        return self.__dict__["ke" + "pt"]

    def by_vars(self) -> Any:
        return next(v for k, v in vars(self).items() if k[0] == "k")

    def by_copy(self) -> Any:
        import copy

        return copy.copy(self).other

    def in_a_lambda(self) -> Any:
        return (lambda me: me.kept)(self)


@pytest.mark.parametrize("way", [k for k in vars(Reader) if k.startswith(("by_", "in_"))])
def test_a_list_is_looked_at_however_it_is_read(way: str) -> None:
    reader = Reader()
    method = getattr(reader, way)
    count = torch.compile(lambda x: x * len(method()))
    for n in range(4):
        assert count(torch.ones(())).item() == n
        reader.kept.append(n)


def test_an_attribute_that_comes_later_is_looked_at() -> None:
    reader = Reader()

    @torch.compile
    def limited(x: Any) -> Any:
        try:
            return x.clamp(max=reader.limit)
        except AttributeError:
            return x * 1

    assert limited(torch.tensor(3.0)).item() == 3
    vars(reader)["unread"] = 1
    assert limited(torch.tensor(3.0)).item() == 3
    reader.limit = 2.0
    assert limited(torch.tensor(3.0)).item() == 2
    assert limited.counts["traced"] == 2


def test_a_dict_in_a_dict_is_looked_at() -> None:
    reader = Reader()
    scaled = torch.compile(lambda x: x * reader.config["a"]["scale"])
    found = []
    for scale in (1, 2, 3):
        reader.config["a"]["scale"] = scale
        reader.kept.append(scale)
        found.append(scaled(torch.ones(())).item())
    assert found == [1, 2, 3]


def test_a_model_is_not_traced_again_because_gradients_are_there() -> None:
    net = _net()
    model = torch.compile(net)
    for _ in range(3):
        model(torch.ones(2, 3)).sum().backward()
    assert model.counts == {"traced": 1, "run": 3, "eager": 0}
    assert model.reasons == []
    torch.testing.assert_close(net[2].bias.grad, torch.full((2,), 6.0))


def test_gradients_that_a_function_looks_at_are_looked_at() -> None:
    w = torch.ones(2, requires_grad=True)
    seen = torch.compile(lambda x: x * (w.grad is None))
    assert seen(torch.ones(())).item() == 1
    w.grad = torch.ones(2)
    assert seen(torch.ones(())).item() == 0
