"""Several accelerators in one process: by their numbers, and as a mesh."""

import jax
import numpy as np
import pytest

import torchgrad_jax as torch
from tests.accelerator.places import devices_of
from torchgrad_jax import nn
from torchgrad_jax.distributed.device_mesh import init_device_mesh
from torchgrad_jax.distributed.fsdp import fully_shard
from torchgrad_jax.distributed.tensor import Shard, distribute_tensor
from torchgrad_jax.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

COUNT = 4


@pytest.fixture(autouse=True)
def kind(elsewhere):
    """The type of the accelerators; tensors are made on the CPU unless a test says otherwise."""
    if len(jax.local_devices()) < COUNT:
        pytest.skip(f"about {COUNT} accelerators")
    torch.set_default_device(None)
    return elsewhere.type


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def losses(net, there, how, name):
    """Three steps, of which each takes its batch from the CPU."""
    opt = getattr(torch.optim, name)(net.parameters(), 1e-2)

    def step(x):
        opt.zero_grad()
        loss = net(x.to(there)).square().mean()
        loss.backward()
        opt.step()
        return loss.detach(), loss.detach().cpu()

    run = torch.compile(step) if how == "compiled" else step
    x = torch.arange(64.0).sin().reshape(8, 8)
    found = [run(x) for _ in range(3)]
    if how == "compiled":
        assert run.counts["traced"] == 1, run.reasons
    assert all((on_cpu + torch.ones(())).device.type == "cpu" for _, on_cpu in found)
    return [loss.item() for loss, _ in found]


HOW = pytest.mark.parametrize("how", ["eager", "compiled"])
OPTIMIZER = pytest.mark.parametrize("name", ["SGD", "AdamW"])


@HOW
@OPTIMIZER
def test_a_network_on_the_second_one(kind, name, how):
    there = torch.device(kind, 1)
    net = network().to(there)
    assert losses(net, there, how, name) == pytest.approx(losses(network(), "cpu", how, name))
    kept = [*net.parameters(), *[p.grad for p in net.parameters()]]
    assert set().union(*map(devices_of, kept)) == {jax.local_devices()[1]}


@HOW
@OPTIMIZER
def test_a_network_split_over_all(kind, name, how):
    net, mesh = network(), init_device_mesh(kind, (COUNT,))
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    found = losses(net, torch.device(kind, 0), how, name)
    assert found == pytest.approx(losses(network(), "cpu", how, name), rel=1e-4)
    w = net[0].weight
    assert (w.device, w.placements) == (torch.device(kind, 0), (Shard(0),))
    assert devices_of(w) == set(jax.local_devices()[:COUNT])


@HOW
def test_tensor_parallelism(kind, how):
    net, mesh = network(), init_device_mesh(kind, (COUNT,))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    found = losses(net, torch.device(kind, 0), how, "AdamW")
    assert found == pytest.approx(losses(network(), "cpu", how, "AdamW"), rel=1e-4)


def test_tensors_of_the_cpu_go_to_the_mesh(kind):
    mesh = init_device_mesh(kind, (2, 2))
    x = torch.arange(16.0).reshape(4, 4)
    d = distribute_tensor(x, mesh, [Shard(0), Shard(1)])
    assert (d.device, x.device.type) == (torch.device(kind, 0), "cpu")
    assert devices_of(d) == set(jax.local_devices()[:COUNT])
    assert torch.equal((d @ d).full_tensor().cpu(), x @ x)
    w = x.clone().requires_grad_()
    (w * 2).to(d.sharding).sum().backward()
    assert (w.grad.device.type, w.grad.sum().item()) == ("cpu", 32)


def test_a_program_runs_where_its_result_is(kind):
    x = torch.from_numpy(np.ones(3, np.float32))
    f = torch.compile(lambda x: x.to(f"{kind}:1") * 2)
    for _ in range(2):
        out = f(x)
        assert (out.device.index, out.tolist()) == (1, [2, 2, 2])
        assert devices_of(out) == {jax.local_devices()[1]}


def test_between_two(kind):
    a = torch.ones(3, device=f"{kind}:1", requires_grad=True)
    b = a.to(f"{kind}:2") * 2
    b.sum().backward()
    assert (b.device.index, a.grad.device.index) == (2, 1)
    assert devices_of(a.grad) == {jax.local_devices()[1]}
    with pytest.raises(RuntimeError, match="same device"):
        torch.compile(lambda x, y: x + y)(a, b)
    assert (a * torch.tensor(2.0)).device == a.device
    assert nn.Dropout()(a).device == a.device


def test_the_current_gpu(kind):
    if kind != "cuda":
        pytest.skip("about torch.cuda")
    assert torch.ones(1, device="cuda").device.index == 0
    try:
        torch.cuda.set_device(2)
        assert (torch.cuda.current_device(), torch.ones(1).cuda().device.index) == (2, 2)
        with torch.cuda.device(1):
            assert torch.ones(1, device="cuda").device.index == torch.cuda.current_device() == 1
        assert torch.device("cuda") == torch.device("cuda")
        assert nn.Linear(1, 1).to("cuda").weight.device.index == 2
        with pytest.raises(RuntimeError, match="Invalid device id"):
            torch.cuda.set_device(99)
        assert torch.cuda.current_device() == 2
    finally:
        torch.cuda.set_device(0)
