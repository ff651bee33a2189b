"""`torch.compile(step, mode="exact")`: a compiled step has the bits of the eager one, whatever computes its kernels."""

import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import torchgrad_jax as torch
from tests.expressions import exact
from torchgrad_jax import nn
from torchgrad_jax._core.arrays import placement
from torchgrad_jax._core.state import SETTINGS
from torchgrad_jax._engine.run import kept_calls
from torchgrad_jax.nn import functional as F
from torchgrad_jax.utils.checkpoint import checkpoint

STEPS = 3


@pytest.fixture(autouse=True)
def equal_bits(monkeypatch):
    """Have backward passes give the bits of their nodes one by one, also where they come often."""
    monkeypatch.setattr(SETTINGS, "equal_bits", True)


# --- programs: each makes a step, batches for it, and what is compared afterwards ------------------


class Training:
    """A model and an optimizer; a step is forward, backward and the optimizer's."""

    def __init__(self, model, optimizer, loss, *batch, clip=False):
        self.model, self.optimizer, self.loss, self.batch, self.clip = model, optimizer, loss, batch, clip

    def step(self, *batch):
        self.optimizer.zero_grad()
        loss = self.loss(self.model, *batch)
        loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        return loss.detach()

    def state(self):
        state = [x for s in self.optimizer.state.values() for x in s.values() if isinstance(x, torch.Tensor)]
        return [*self.model.state_dict().values(), *[p.grad for p in self.model.parameters()], *state]


def mlp(n, optimizer: Any = torch.optim.SGD, dtype=None, **options):
    model = nn.Sequential(nn.Linear(n, 3 * n), nn.Tanh(), nn.LayerNorm(3 * n), nn.Linear(3 * n, n), nn.GELU())
    x, y = torch.randn(STEPS, 16, n), torch.randn(STEPS, 16, n)
    if dtype is not None:
        model, x, y = model.to(dtype), x.to(dtype), y.to(dtype)
    given = {"lr": 1e-2, **options}
    return Training(model, optimizer(model.parameters(), **given), lambda m, x, y: F.mse_loss(m(x), y), x, y)


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).split(width, 2)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(x.shape)), self.dropout, self.training)
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    """A small language model."""

    def __init__(self, width=16, heads=2, layers=2, words=19, dropout=0.1):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(12, width)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        return self.head(self.norm(self.blocks(self.words(x) + self.places(places))))


def gpt(width=16):
    model = GPT(width)
    words = torch.randint(0, 19, (STEPS, 4, 13))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)

    def loss(m, w):
        return F.cross_entropy(m(w[:, :-1]).flatten(0, 1), w[:, 1:].flatten())

    return Training(model, optimizer, loss, words, clip=True)


def conv_net(size=8):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2),
        nn.Conv2d(8, 16, 3), nn.GroupNorm(4, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip
    x, y = torch.randn(STEPS, 4, 3, size, size), torch.randint(0, 5, (STEPS, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)
    return Training(model, optimizer, lambda m, x, y: F.cross_entropy(m(x), y), x, y)


def recurrent(n=6):
    model = nn.LSTM(n, 2 * n, num_layers=2, batch_first=True)
    x = torch.randn(STEPS, 3, 7, n)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    return Training(model, optimizer, lambda m, x: m(x)[0].square().mean(), x)


class Formula:
    """A step that changes one tensor by the gradient of a formula."""

    def __init__(self, formula, *shape, dtype=None):
        self.formula = formula
        self.w: Any = torch.randn(*shape, dtype=dtype).requires_grad_()
        self.batch = (torch.randn(STEPS, *shape, dtype=dtype),)

    def step(self, x):
        self.w.grad = None
        y = self.formula(self.w, x)
        y.sum().backward()
        with torch.no_grad():
            self.w.sub_(self.w.grad, alpha=0.1)
        return y.detach()

    def state(self):
        return [self.w, self.w.grad]


def places(x):
    return torch.arange(x.numel()).reshape(x.shape) * 7 % x.shape[0]


def written(w, x):
    y = (w * x).clone()
    y[1:, ::2] += x[1:, ::2]
    y[0] = y[-1] * 2.5
    y.t().mul_(0.3)
    return y


def halves(w, x):
    y = (w * 1.1 + x).softmax(-1) * x.sigmoid()
    return (y - y.mean(0)).div(3).exp()


class Swish(torch.autograd.Function):
    """`x * sigmoid(x)` with a derivative by hand."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s * (1 + x * (1 - s)))


def in_autocast(w, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.linear((w @ x.t()).relu(), x.t()).softmax(-1)


FORMULAS = {
    "a chain": lambda w, x: ((w * x + w).tanh() * 0.3 + x).exp() * w,
    "sums": lambda w, x: (w * x).sum(0) + (w + x).mean(0) * w.var(0) + (w * w).cumsum(0)[-1],
    "extremes": lambda w, x: (w * x).amax(0) + (w + x).sort(0)[0][0] + w.topk(2, 0)[0].sum(0) + w.logsumexp(0),
    "norms": lambda w, x: F.normalize(w + x, dim=0) * (w * x).norm() / (1 + torch.linalg.vector_norm(w, 3, 0)),
    "gather": lambda w, x: w.gather(0, places(w)) * x + w[places(w)[:, 0]] * 0.5,
    "scatter": lambda w, x: torch.zeros_like(w).scatter_add(0, places(w), w * x) + w.index_add(0, places(w)[:, 0], x),
    "writes to views": written,
    "masks": lambda w, x: torch.where(x > 0, w * x, w / 3).masked_fill(x > 1, 0.25) * (x < 2),
    "products": lambda w, x: (w @ x.t() @ w).mul(0.01) + torch.einsum("ij,kj->ij", w, x),
    "dropout": lambda w, x: F.dropout(w * x, 0.3) + torch.rand_like(x) * w,
    "powers": lambda w, x: w.abs().pow(1.7) * x.atan() + (w * w + 1).sqrt().log() + w.sin() * x.cos() / 7,
    "losses with numbers": lambda w, x: F.huber_loss(w, x, delta=0.7, reduction="none") * 1.3 + F.elu(w * x, 0.3),
    "a custom Function": lambda w, x: Swish.apply(w * 1.3 + x) * x,
    "a checkpoint": lambda w, x: checkpoint(lambda a: (a * x).tanh() * 1.1 + a, w, use_reentrant=False),
    "autocast": in_autocast,
    "vmap": lambda w, x: torch.vmap(lambda a, b: (a * b).softmax(0) * 0.3 + a)(w, x),
    "a second derivative": lambda w, x: torch.autograd.grad((w.sin() * x).sum(), w, create_graph=True)[0] * w,
}
CASES = {
    "an MLP with SGD": lambda: mlp(8),
    "an MLP with SGD, whose kernels are XLA's": lambda: mlp(64),
    "a GPT with AdamW": gpt,
    "a GPT with AdamW, whose kernels are XLA's": lambda: gpt(64),
    "a conv net with momentum": conv_net,
    "a conv net, whose kernels are XLA's": lambda: conv_net(24),
    "an LSTM": recurrent,
    "an MLP of bfloat16": lambda: mlp(16, dtype=torch.bfloat16),
    "an MLP of float16, whose kernels are XLA's": lambda: mlp(64, dtype=torch.float16),
    "an MLP of float64": lambda: mlp(16, dtype=torch.float64),
    **{f"{name}, small": lambda f=f: Formula(f, 6, 5) for name, f in FORMULAS.items()},
    **{f"{name}, large": lambda f=f: Formula(f, 96, 384) for name, f in FORMULAS.items()},
    "halves, small": lambda: Formula(halves, 6, 5, dtype=torch.bfloat16),
    "halves, large": lambda: Formula(halves, 96, 384, dtype=torch.bfloat16),
    "half precision": lambda: Formula(halves, 96, 384, dtype=torch.float16),
    "complex numbers": lambda: Formula(lambda w, x: (w * x.conj() + w).abs() ** 2, 96, 384, dtype=torch.complex64),
}
OPTIMIZERS = {
    "Adam": {}, "Adadelta": {}, "Adagrad": {}, "Adamax": {}, "NAdam": {}, "RAdam": {}, "Rprop": {},
    "RMSprop": {"momentum": 0.9, "centered": True}, "AdamW": {"amsgrad": True}, "SGD": {"momentum": 0.9},
}  # fmt: skip


def trained(make, **how):
    """What a program has computed after some steps, to the last bit."""
    torch.manual_seed(3)
    program = make()
    step = torch.compile(program.step, **how) if how else program.step
    losses = [exact(step(*[x[i] for x in program.batch])) for i in range(STEPS)]
    if how:
        assert step.counts == {"traced": step.counts["traced"], "run": STEPS, "eager": 0}, step.reasons
    return losses, [None if x is None else exact(x) for x in program.state()]


def differs(make):
    return trained(make, mode="exact") != trained(make)


@pytest.mark.parametrize("name", CASES)
def test_steps_have_the_bits_of_eager_ones(name):
    assert not differs(CASES[name])


@pytest.mark.parametrize("size", [8, 64])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_optimizers_have_the_bits_of_eager_ones(name, size):
    assert not differs(lambda: mlp(size, getattr(torch.optim, name), **OPTIMIZERS[name]))


@pytest.fixture(scope="module")
def by_xla():
    """What a process says of programs whose kernels are all XLA's: which have other bits."""
    code = f"from {__name__} import *; print(*[n for n in {BY_XLA} if differs(CASES[n])], sep=', ')"
    env = {**os.environ, "TORCHGRAD_JAX_EXECUTOR": "xla", "TORCHGRAD_JAX_EQUAL_BITS": "1"}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=600)


BY_XLA = ["an MLP with SGD", "a GPT with AdamW", "sums, small", "writes to views, small", "halves, small"]


def test_steps_whose_kernels_are_all_xla_s_have_the_bits_of_eager_ones(by_xla):
    assert (by_xla.stdout.strip(), by_xla.returncode) == ("", 0), by_xla.stderr


def test_a_model_whose_backward_pass_comes_from_outside():
    def train(**how):
        torch.manual_seed(0)
        model = GPT(64)
        optimizer = torch.optim.AdamW(model.parameters())
        call, words = torch.compile(model, **how) if how else model, torch.randint(0, 19, (STEPS, 4, 12))
        for batch in words:
            optimizer.zero_grad()
            logits = call(batch)
            logits[:, ::2].square().mean().backward()
            optimizer.step()
        return exact(logits.detach()), [exact(p) for p in model.parameters()]

    assert train(mode="exact") == train()


def test_only_some_of_the_results_get_a_gradient():
    w = torch.randn(64, 640, requires_grad=True)

    def f(x):
        y = (w * x).sin()
        return y * 0.3 + x, (y.exp() / 3).sum(), y.cumsum(0) * w

    def gradients(call):
        found = []
        for k in ((0,), (1,), (0, 2), (0, 1, 2)):
            outs = call(x)
            w.grad = None
            sum(outs[i].sum() for i in k).backward()
            found.append(exact(w.grad))
        return found

    x = torch.randn(64, 640)
    assert gradients(torch.compile(f, mode="exact")) == gradients(f)


def test_a_second_derivative_from_outside_is_that_of_the_program():
    f = torch.compile(lambda x: (x.sin() * x).sum(), mode="exact")
    x = torch.randn(5, requires_grad=True)
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (slope,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(slope, 2 * x.cos() - x * x.sin())


def test_rates_of_a_schedule_and_numbers_are_those_of_the_call():
    def train(**how):
        torch.manual_seed(0)
        program = mlp(64, torch.optim.AdamW)
        rates = torch.optim.lr_scheduler.ExponentialLR(program.optimizer, 0.7)

        def step(x, y, scale):
            loss = program.step(x * scale, y)
            rates.step()
            return loss

        step = torch.compile(step, **how) if how else step
        return [exact(step(x, y, 0.1 * k)) for k, (x, y) in enumerate(zip(*program.batch))], [
            *map(exact, program.state())
        ]

    assert train(mode="exact") == train()


def test_a_failing_check_raises_and_nothing_is_lost():
    w, places = torch.arange(5.0), torch.tensor([0, 7])

    def f(i):
        w.mul_(2.0)
        return w.log()[i.abs() + 0]

    step = torch.compile(f, mode="exact")
    step(torch.tensor([0, 1]))
    before = exact(w)
    with pytest.raises(IndexError, match="out of bounds"):
        step(places)
    assert exact(w) == before


def test_an_interrupted_step_has_done_nothing(monkeypatch):
    program = mlp(8)
    step = torch.compile(program.step, mode="exact")
    batch = [x[0] for x in program.batch]
    step(*batch)
    before = [exact(x) for x in program.state()]
    (entry,) = next(iter(step.entries.values()))

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(entry.program.kernel, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(*batch)
    assert [exact(x) for x in program.state()] == before
    step(*batch)
    assert [exact(x) for x in program.state()] != before


def test_what_others_hold_stays_as_it_is():
    w = torch.randn(64, 640)
    held = w.detach().numpy().copy(), w._st.array
    torch.compile(lambda: w.mul_(1.5), mode="exact")()
    assert (held[0] == held[1]).all()


def test_programs_are_checked_and_steps_are_taken_one_by_one():
    def run(step, **how):
        total = torch.zeros(4)

        def add(x):
            total.add_(x.sin() / 3)
            return total * 0.1

        return (torch.compile(add, **how).many if how else lambda xs: torch.stack([add(x) for x in xs]))(step)

    xs = torch.randn(4, 4)
    assert exact(run(xs, mode="exact", verify=1)) == exact(run(xs))


def test_a_program_of_several_kernels_that_fails_runs_kernel_by_kernel(monkeypatch):
    def fails(*args, **options):
        def run(*xs):
            return jnp.zeros(3).reshape(7)

        return run

    def f(x):
        return (x * 1.1 + x).tanh() * 0.3

    x = torch.randn(64, 640)
    monkeypatch.setattr(kept_calls, "jit", fails)
    exactly = torch.compile(f, mode="exact")
    assert [exact(exactly(x)) for _ in range(2)] == [exact(f(x))] * 2


def test_there_is_no_program_to_look_at():
    f = torch.compile(lambda x: x * 2, mode="exact")
    for ask in (lambda: f.lower(torch.ones(3)), lambda: f.save("nowhere", torch.ones(3))):
        with pytest.raises(RuntimeError, match="mode='exact'"):
            ask()
    assert f.counts == {"traced": 0, "run": 0, "eager": 0}


def test_explain_says_whose_kernels_run(capsys):
    f = torch.compile(lambda x: x * 2, mode="exact")
    f(torch.ones(3))
    f.explain()
    assert "those of eager code" in capsys.readouterr().out


def test_modes_have_names():
    with pytest.raises(RuntimeError, match="Unrecognized mode=exakt, should be one of: default, lite, reduce-overhead"):
        torch.compile(lambda x: x, mode="exakt")
    for mode in ("default", "max-autotune"):
        assert torch.equal(torch.compile(lambda x: x * 2, mode=mode)(torch.ones(2)), torch.full((2,), 2.0))


def test_tensors_over_several_devices_are_refused_and_others_are_not():
    def f(x):
        return x * 2 + weight

    before, weight = [*placement.MANY], torch.ones(4)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))
    spread = torch.as_tensor(jax.device_put(np.ones(4, np.float32), jax.sharding.NamedSharding(mesh, P("rows"))))
    try:
        assert placement.MANY
        with pytest.raises(RuntimeError, match="for one device and one process"):
            torch.compile(f, mode="exact")(spread)
        assert torch.compile(f, mode="exact")(torch.ones(4)).tolist() == [3.0] * 4
        weight = spread
        with pytest.raises(RuntimeError, match="for one device and one process"):
            torch.compile(f, mode="exact")(torch.ones(4))
    finally:
        placement.MANY[:] = before
