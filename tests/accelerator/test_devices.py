"""Names of devices, copies between them, and results that stay on their device."""

import copy
import io
from typing import Any

import jax
import numpy as np
import pytest

import torchgrad_jax as torch
from tests.accelerator.places import devices_of
from torchgrad_jax import nn

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_tensors_are_made_on_the_cpu_unless_something_says_otherwise(dev):
    torch.set_default_device(None)
    first = jax.local_devices()[0]
    assert (torch.ones(2).device.type, torch.get_default_device().type) == ("cpu", "cpu")
    assert devices_of(torch.ones(2)) == {jax.local_devices(backend="cpu")[0]}
    assert nn.Linear(2, 2).weight.device.type == "cpu"
    torch.manual_seed(0)
    numbers = torch.rand(2)  # those of PyTorch, on every machine
    assert numbers.tolist() == [0.49625658988952637, 0.7682217955589294]
    with jax.default_device(first):
        assert torch.ones(2).device == dev
        assert devices_of(torch.ones(2)) == {first}
    with torch.device("xla"):
        assert torch.ones(2).device == dev
    assert torch.ones(2, device="xla").device == dev
    torch.set_default_device(dev)
    assert torch.ones(2).device == dev


def test_an_array_that_nobody_put_somewhere_goes_to_the_tensor_that_it_meets(dev):
    free: Any = jax.numpy.ones(3, "float32")
    for where in ("cpu", dev):
        x = torch.ones(3, device=where)
        for out in (x + free, free * x, x @ free, torch.from_jax(jax.numpy.add)(x, free)):
            assert out.device == torch.device(where)
        x[:2] = free[:2]
        assert torch.compile(lambda x, a: x * a)(x, free).device == torch.device(where)


def test_the_accelerator_answers(elsewhere):
    a = torch.accelerator
    assert (a.is_available(), a.current_accelerator().type) == (True, elsewhere.type)
    assert (a.device_count(), a.current_device_index()) == (len(jax.local_devices()), 0)
    a.synchronize()


def test_tensors_are_made_on_the_first_device_of_jax(dev):
    x = torch.zeros(3)
    (there,) = jax.jit(lambda: x.__jax_array__())().devices()
    assert there == jax.local_devices()[0]
    assert dev.type in ("cpu", "cuda", "tpu", "mps", "xla")
    assert torch.ones(2, device="xla").device == dev
    assert torch.ones(2, device="cpu").device == torch.device("cpu")
    with torch.device("cpu"):
        assert torch.rand(2).device.type == "cpu"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "uint8", "bool", "complex64"])
def test_there_and_back(dev, dtype):
    x = torch.tensor(X, device="cpu").to(getattr(torch, dtype))
    there = x.to(dev, non_blocking=True)
    back = there.cpu()
    assert (there.device, back.device.type, back.dtype) == (dev, "cpu", x.dtype)
    assert torch.equal(back, x)
    assert torch.equal(there.t().contiguous().cpu(), x.t())


def test_what_is_sent_is_a_copy(elsewhere):
    host = X.copy()
    shared = torch.from_numpy(host) if torch.from_numpy(host).device.type == "cpu" else None
    x = torch.tensor(host, device="cpu")
    there = x.to(elsewhere)
    x.zero_()
    host[:] = -1
    if shared is not None:
        assert shared.sum() == -12
    assert there.sum().item() == X.sum()


def test_numpy_shares_with_the_host_alone(elsewhere):
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu"):
        torch.zeros(2).numpy()
    n = np.zeros(3, np.float32)
    t = torch.from_numpy(n)
    assert t.device.type == "cpu"
    t += 1
    assert n.tolist() == [1, 1, 1]


def test_operands_on_two_devices(elsewhere):
    x, y = torch.ones(3), torch.ones(3, device="cpu")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + y
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.compile(lambda x, y: x @ y)(x, y)
    one = torch.tensor(2.0, device="cpu", requires_grad=True)
    out = x * one  # a tensor of no dimensions is a number
    assert out.device == elsewhere
    out.sum().backward()
    assert (one.grad.device.type, one.grad.item()) == ("cpu", 3.0)


def test_gradients_cross(dev):
    x = torch.tensor(X, device="cpu", requires_grad=True)
    w = torch.ones(4, 2, device=dev, requires_grad=True)
    ((x.to(dev) @ w).cpu() ** 2).sum().backward()
    assert (x.grad.device.type, w.grad.device) == ("cpu", dev)
    rows = X.sum(1, keepdims=True)
    np.testing.assert_allclose(x.grad.numpy(), np.repeat(4 * rows, 4, 1))
    np.testing.assert_allclose(w.grad.cpu().numpy(), np.repeat(X.T @ (2 * rows), 2, 1))


def test_copies_into_a_tensor_of_another_device(dev):
    x, y = torch.zeros(3, 4, device=dev), torch.tensor(X, device="cpu")
    x.copy_(y)
    x[0] = y[1]
    y[2].copy_(x[0])
    assert (x.device, y.device.type) == (dev, "cpu")
    np.testing.assert_array_equal(x.cpu().numpy(), X[[1, 1, 2]])
    np.testing.assert_array_equal(y.numpy(), X[[0, 1, 1]])


def test_modules_move_with_their_parameters(dev):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).to("cpu")
    weight = net[0].weight
    net(torch.tensor(X, device="cpu")).sum().backward()
    net.to(dev)
    assert net[0].weight is weight
    assert {t.device for t in [*net.parameters(), *net.buffers(), weight.grad]} == {dev}
    assert net.cpu()[1].running_mean.device.type == "cpu"
    assert copy.deepcopy(net.to(dev))[0].bias.device == dev


def test_checkpoints_move(dev):
    net, file = nn.Linear(2, 2, device=dev), io.BytesIO()
    torch.save(net.state_dict(), file)
    for place in ("cpu", dev):
        file.seek(0)
        state = torch.load(file, map_location=place)
        assert state["weight"].device == torch.device(place)
        assert torch.equal(state["weight"].to(dev), net.weight)


def test_optimizers_load_the_state_of_another_device(dev):
    def trained(net):
        opt = torch.optim.Adam(net.parameters(), lr=0.1)
        net(torch.ones(1, 2, device=net.weight.device)).sum().backward()
        opt.step()
        return opt

    net = nn.Linear(2, 2, device="cpu")
    state = trained(net).state_dict()
    net.to(dev)
    opt = torch.optim.Adam(net.parameters())
    opt.load_state_dict(state)
    assert opt.state[net.weight]["exp_avg"].device == dev
    opt.step()
    assert net.weight.device == dev


def test_pinned_memory_is_memory_of_the_host(elsewhere):
    x = torch.ones(3, pin_memory=True)
    assert x.device.type == "cpu"
    assert x.pin_memory() is x
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(3, device=elsewhere).pin_memory()
    data = torch.utils.data.TensorDataset(torch.arange(6, device="cpu"))
    loader = torch.utils.data.DataLoader(data, batch_size=3, pin_memory=True)
    assert [batch.to(elsewhere).sum().item() for (batch,) in loader] == [3, 12]


def kinds_of_memory():
    return [m.kind for m in jax.local_devices()[0].addressable_memories()]


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_arrays_of_jax_in_memory_of_the_host(kind, dev):
    """`memory_kind` of a sharding is part of where a tensor is, and what is offloaded comes back."""
    if kind not in kinds_of_memory():
        pytest.skip(f"no memory of this kind: {kinds_of_memory()}")
    there = jax.sharding.SingleDeviceSharding(jax.local_devices()[0], memory_kind=kind)
    x = torch.tensor(X, device=dev, requires_grad=True)
    away = torch.as_tensor(jax.device_put(x.detach().__jax_array__(), there))
    home = torch.as_tensor(jax.device_put(away.__jax_array__(), x.detach().__jax_array__().sharding))
    (home * x).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.tensor(X, device="cpu"))


def test_saved_values_wait_on_the_host(dev):
    x = torch.tensor(X, device=dev, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=dev.type != "cpu"):
        y = (x.sin() * x).sum()
    y.backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.cos(X) * X + np.sin(X), rtol=1e-4, atol=1e-5)
    assert x.grad.device == dev


def test_torch_cuda_answers(cuda):
    c = torch.cuda
    assert (c.is_available(), c.current_device()) == (True, 0)
    assert isinstance(c.get_device_name(0), str)
    assert (torch.zeros(2).is_cuda, torch.zeros(2, device="cuda").get_device()) == (True, 0)
    assert torch.accelerator.current_accelerator().type == "cuda"
    assert torch.zeros(2, device="cpu").cuda().device == torch.device("cuda:0")
    assert torch.device("cuda") == torch.zeros(1, device="cuda").device or cuda.index == 0
    with c.device(0):
        assert torch.zeros(1).device == cuda
    with pytest.raises(RuntimeError, match=r"Invalid device id|no device|No CUDA GPUs"):
        torch.zeros(1, device="cuda:99")
    c.synchronize()
    c.empty_cache()


def test_random_numbers_of_a_device(dev):
    torch.manual_seed(3)
    a = torch.rand(5), torch.randn(3), torch.randperm(9)
    torch.manual_seed(3)
    b = torch.rand(5), torch.randn(3), torch.randperm(9)
    assert all(torch.equal(x, y) and x.device == dev for x, y in zip(a, b))
    g = torch.Generator(device=dev).manual_seed(1)
    first = torch.rand(4, generator=g, device=dev)
    assert torch.equal(torch.rand(4, generator=g.manual_seed(1), device=dev), first)
    F = nn.functional
    with torch.random.fork_rng():
        kept = F.dropout(torch.ones(100, device=dev))
    assert torch.equal(F.dropout(torch.ones(100, device=dev)), kept)
