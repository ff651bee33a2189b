"""Steps of training on the accelerator: eager, compiled, and as on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from tests.accelerator.places import devices_of, jax_device
from tests.own_gradients import saving_input
from torchgrad_jax import nn

F = nn.functional
RS = np.random.RandomState(2)
IMAGES, LABELS = RS.randn(4, 1, 8, 8).astype(np.float32), np.array([0, 2, 1, 2])
TOKENS = RS.randint(0, 11, (2, 6))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 11)

    def forward(self, x):
        return self.head(self.block(self.table(x)))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.GELU(), nn.Linear(16, 3))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )


NETWORKS = {
    "mlp": (mlp, IMAGES, LABELS),
    "convolutions": (convolutions, IMAGES, LABELS),
    "transformer": (Attention, TOKENS, np.roll(TOKENS, -1, 1)),
}


def losses(name, dev, compiled, dtype=torch.float32, steps=4):
    make, x, y = NETWORKS[name]
    torch.manual_seed(0)
    with torch.device("cpu"):
        net = make()
    net = net.to(dev, dtype)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    x, y = torch.tensor(x, device=dev), torch.tensor(y, device=dev)
    x = x.to(dtype) if x.is_floating_point() else x

    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(net(x).float().flatten(0, -2), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss.detach()

    run = torch.compile(step) if compiled else step
    found = [run(x, y) for _ in range(steps)]
    assert {p.device for p in net.parameters()} == {found[0].device} == {x.device}
    on = set().union(*map(devices_of, [*net.parameters(), *found]))
    assert on == {jax_device(x.device)}
    return [loss.item() for loss in found]


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_as_on_the_host(dev, name):
    eager = losses(name, dev, compiled=False)
    np.testing.assert_allclose(losses(name, dev, compiled=True), eager, rtol=1e-3)
    if dev.type != "cpu":
        np.testing.assert_allclose(losses(name, "cpu", compiled=False), eager, rtol=1e-3)


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_in_bfloat16(dev, name):
    found = losses(name, dev, compiled=True, dtype=torch.bfloat16)
    np.testing.assert_allclose(found, losses(name, dev, compiled=False), rtol=0.1, atol=0.1)
    assert found[-1] < found[0]


def test_many_steps_in_one_call(dev):
    def run(many):
        w = torch.zeros(2, device=dev, requires_grad=True)
        opt = torch.optim.SGD([w], lr=0.5)

        @torch.compile
        def step(x, y):
            opt.zero_grad()
            loss = ((x @ w - y) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        xs = torch.eye(2, device=dev).expand(4, 2, 2)
        ys = torch.tensor([1.0, 2.0], device=dev).expand(4, 2)
        return step.many(xs, ys).tolist() if many else [step(*b).item() for b in zip(xs, ys)]

    assert run(True) == pytest.approx(run(False))


@pytest.mark.parametrize("how", ["eager", "compiled", "many"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
def test_a_step_takes_its_batch_from_the_host(dev, name, how):
    """Each step sends its batch, counts on the CPU, and brings a result back; all else stays on the accelerator."""

    def run(there, how):
        torch.manual_seed(0)
        with torch.device("cpu"):
            net, total = mlp().to(there), torch.zeros(3)
            xs, ys = torch.tensor(IMAGES).repeat(3, 1, 1, 1, 1), torch.tensor(LABELS).repeat(3, 1)
        opt = getattr(torch.optim, name)(net.parameters(), lr=1e-2)

        def step(x, y):
            opt.zero_grad()
            out = net(x.to(there))
            loss = F.cross_entropy(out, y.to(there, non_blocking=True))
            loss.backward()
            opt.step()
            total.add_(out.detach().sum(0).cpu())
            return loss.detach(), out.detach().cpu()

        run = step if how == "eager" else torch.compile(step)
        if how == "many":
            loss, out = run.many(xs, ys)
        else:
            loss, out = map(torch.stack, zip(*[run(x, y) for x, y in zip(xs, ys)]))
        if how != "eager":
            assert run.counts["traced"] == 1, run.reasons
        state = [s for s in opt.state[net[1].weight].values() if s is not None and s.ndim]
        kept = [*net.parameters(), *[p.grad for p in net.parameters()], *state, loss]
        assert set().union(*map(devices_of, kept)) == {jax_device(there)}
        assert {t.device for t in kept} == {there}
        here = jax_device(torch.device("cpu"))
        assert (out.device.type, total.device.type) == ("cpu", "cpu")
        assert devices_of(out) == devices_of(total) == {here}
        assert (total + out[0, 0]).shape == (3,)
        return [loss.cpu(), out, total]

    want = run(torch.device("cpu"), "eager")
    for a, b in zip(run(dev, how), want):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-4)


def test_a_backward_pass_through_a_compiled_model_reaches_the_host(dev):
    w = torch.ones(3, device=dev, requires_grad=True)
    x = torch.tensor([1.0, 2.0, 3.0], device="cpu", requires_grad=True)
    f = torch.compile(lambda x: (x.to(w.device) * w).square())
    for _ in range(2):
        f(x).sum().backward()
    assert (x.grad.device.type, w.grad.device) == ("cpu", dev)
    assert x.grad is not None
    assert (x.grad + torch.ones(3, device="cpu")).tolist() == [5, 9, 13]
    assert w.grad.tolist() == [4, 16, 36]
    assert devices_of(w.grad) == {jax_device(dev)}


def test_programs_of_the_host_run_there(elsewhere):
    shared = np.ones(3, np.float32)
    x = torch.from_numpy(shared)
    f = torch.compile(lambda x: x * 2)
    for k in (1, 2):
        shared[:] = k
        assert (f(x).tolist(), f(x).device.type) == ([2 * k] * 3, "cpu")
        assert devices_of(f(x)) == {jax_device(torch.device("cpu"))}


def test_jax_on_both_sides(dev):
    torch.manual_seed(0)
    net = mlp()
    f = torch.to_jax(net)
    g = jax.jit(jax.grad(lambda p: (f(p, IMAGES) ** 2).sum()))(f.params)
    net(torch.tensor(IMAGES)).square().sum().backward()
    for name, p in net.named_parameters():
        np.testing.assert_allclose(g[name], p.grad.cpu(), rtol=1e-3, atol=1e-4)
        assert g[name].devices() == {jax.local_devices()[0]}
    soft = torch.from_jax(lambda x: jnp.logaddexp(x, 0.0))
    x = torch.zeros(2, device=dev, requires_grad=True)
    soft(x).sum().backward()
    assert (x.grad.device, x.grad.tolist()) == (dev, [0.5, 0.5])
    stepped = jax.jit(jax.grad(lambda net: net(torch.tensor(IMAGES)).sum()))(net)
    assert stepped[1].weight.device == dev


def test_own_gradients_and_recomputing(dev):
    Twice = saving_input(torch, "Twice", lambda x: x * 2, lambda x, g: g * 2 + 0 * x)

    x = torch.ones(5, device=dev, requires_grad=True)
    seen = []
    y = torch.utils.checkpoint.checkpoint(lambda a: Twice.apply(a).sin(), x, use_reentrant=False)
    y.register_hook(lambda g: seen.append(g.device))
    y.sum().backward()
    assert seen == [dev]
    np.testing.assert_allclose(x.grad.cpu().numpy(), 2 * np.cos(2.0) * np.ones(5), rtol=1e-5)


def test_scaled_steps_in_float16(dev):
    w = torch.ones(2, device=dev, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.5)
    scaler = torch.amp.GradScaler(dev.type, init_scale=8.0)

    def step(x):
        opt.zero_grad()
        with torch.autocast(dev.type, dtype=torch.float16):
            loss = (w * x).sum()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()

    step(torch.tensor([3.0, 4.0], device=dev))
    assert w.tolist() == [-0.5, -1.0]
    step(torch.tensor([3.0, float("inf")], device=dev))
    assert (w.tolist(), scaler.get_scale()) == ([-0.5, -1.0], 4.0)
