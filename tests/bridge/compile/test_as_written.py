"""A function that cannot be compiled whole runs in windows, where starting a kernel takes long: with the same bits."""

import os
import subprocess
import sys
import warnings

import pytest

import torchgrad_jax as torch
from tests.expressions import exact
from torchgrad_jax._bridge.compile import as_written
from torchgrad_jax._core.host import choice
from torchgrad_jax._core.state import MODES, WINDOWS
from torchgrad_jax._engine.run import windows
from torchgrad_jax.nn import functional as F

interop = torch.interop


@pytest.fixture(autouse=True)
def as_on_an_accelerator(monkeypatch):
    """Let starts be worth saving, have NumPy's kernels put off, too, and let functions run that cannot be compiled."""
    monkeypatch.setattr(windows, "PUT_OFF", windows.PUT_OFF | {"numpy", "look"})
    monkeypatch.setattr(as_written, "saves_starts", lambda: True)
    with torch._dynamo.config.patch(suppress_errors=True), interop.eager("strict"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interop.windows(reset=True)
        yield


def weights():
    torch.manual_seed(0)
    return [torch.randn(6, 5, requires_grad=True) for _ in range(2)]


def by_a_mask(a, b, x):
    y = (a * x).sin() + b
    return (y[y > 0].exp() / 3).sum() * y.sum()


def by_a_branch(a, b, x):
    y = (a * x).sin() * 0.3
    if (y > -2).all():
        y = (y * b).tanh() / 7
    return y.sum()


def by_an_item(a, b, x):
    y = (a * x).cos() + b
    return (y / y.max().item()).square().sum() * 0.1


def by_experts(a, b, x):
    out = torch.zeros(6)
    place = (a * x).sum(1).argmax(0).item()
    for k in (b * x).argmax(1).unique().tolist():
        out = out + (a[k % 6] * b[place]).sum() * 0.3
    return out.sum()


NEED_VALUES = {f.__name__: f for f in (by_a_mask, by_a_branch, by_an_item, by_experts)}


def trained(f, compiled):
    a, b = weights()
    optimizer = torch.optim.AdamW([a, b], lr=1e-2)

    def step(x):
        optimizer.zero_grad()
        loss = f(a, b, x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = torch.compile(step) if compiled else step
    losses = [exact(step(x)) for x in torch.randn(6, 6, 5)]
    if compiled:
        assert step.counts["eager"] == 6
    return losses, exact(a), exact(b)


@pytest.mark.parametrize("name", NEED_VALUES)
def test_steps_that_need_values_have_the_bits_of_strict_ones(name):
    expected = trained(NEED_VALUES[name], False)
    assert not interop.windows().windows
    assert trained(NEED_VALUES[name], True) == expected
    assert interop.windows().windows


def test_what_comes_between_two_reads_is_one_program(monkeypatch):
    monkeypatch.setattr(choice, "BLOCKS_END", choice.LARGEST)  # NumPy does none of it block by block
    torch.clear_caches()
    w = torch.linspace(0.1, 1, 40_000)

    @torch.compile
    def f(x):
        y = ((x * w).sin() + x).exp() * 0.3 + w
        if y.mean().item() > 100:
            return y
        z = ((y - 1).tanh() * w).cos() + y * 2
        return z.sqrt() + 1

    xs = [torch.linspace(0, 1, 40_000) + k for k in range(4)]
    f(xs[0])
    interop.windows(reset=True)
    for x in xs:
        f(x)
    counts = interop.windows()
    assert (counts.windows, counts.starts) == (8, 8)
    assert {(c.cause, c.count) for c in counts.cuts} == {("a value is read by `item`", 4), (as_written.CAUSE, 4)}


def test_the_thread_runs_strictly_before_and_after():
    @torch.compile
    def f(x, fails=False):
        assert MODES.bits & WINDOWS or x.sum().item() >= 0  # a trace needs a value here
        if fails:
            raise KeyError("mine")
        return x * x.sum().item() + x

    f(torch.ones(3))
    assert not MODES.bits & WINDOWS
    with pytest.raises(KeyError, match="mine"):
        f(torch.ones(3), fails=True)
    assert not MODES.bits & WINDOWS
    with interop.eager("windows"):
        mine = MODES.windows
        y = f(torch.ones(3))
        assert MODES.windows is mine
    assert y.tolist() == [4.0, 4.0, 4.0]


def test_errors_name_their_operators():
    @torch.compile
    def f(x):
        assert x.sum().item()
        return x[torch.tensor([7])]

    with pytest.raises(IndexError, match="out of bounds"):
        f(torch.ones(3))


def test_explain_says_it(capsys):
    f = torch.compile(lambda x: x * x.sum().item())
    f(torch.ones(2))
    f.explain()
    assert "runs in windows" in capsys.readouterr().out


def test_what_is_asked_to_run_as_it_is_written_runs_strictly():
    f = torch.compile(lambda x: (x * 2 + 1).sin())
    with torch.compiler.set_stance("force_eager"):
        f(torch.ones(3))

    @torch.compile
    def values(x):
        yield x * 2
        yield x.sum().item()

    assert [*values(torch.ones(2))][1] == 2.0
    assert not interop.windows().windows


def test_a_function_that_must_be_compiled_whole_raises():
    f = torch.compile(lambda x: x * x.sum().item(), fullgraph=True)
    with pytest.raises(RuntimeError, match="values of a tensor are needed"):
        f(torch.ones(2))
    assert not interop.windows().windows


PROGRAM = """
import torchgrad_jax as torch
torch._dynamo.config.suppress_errors = True
w = torch.linspace(0, 1, 8)
f = torch.compile(lambda x: ((x * w).sin() + x).exp()[: int(w.sum().item())] * x.sum().item() + 1)
for k in range(3):
    f(torch.ones(8))
print(torch.interop.windows().windows > 0)
"""


@pytest.mark.parametrize(("executor", "expected"), [("xla", "True"), ("", "False")])
def test_a_cpu_whose_kernels_are_numpy_s_runs_them_at_once(executor, expected):
    env = {**os.environ, "TORCHGRAD_JAX_EXECUTOR": executor, "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300)
    assert ran.stdout.strip() == expected, ran.stderr


def test_a_model_with_dropout_draws_the_same_numbers():
    def run(compiled):
        torch.manual_seed(1)

        def f(x):
            return F.dropout(x, 0.5) * (x.sum().item() + torch.rand(3))

        f = torch.compile(f) if compiled else f
        return [exact(f(torch.ones(4, 3))) for _ in range(3)]

    assert run(True) == run(False)
