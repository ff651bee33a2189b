"""Dictionaries of tensors with a batch shape, and modules that read and write them."""

import tempfile

import torch
from tensordict import MemoryMappedTensor, TensorDict
from tensordict.nn import TensorDictModule, TensorDictParams, TensorDictSequential

torch.manual_seed(0)
td = TensorDict({"a": torch.randn(3, 4), "b": {"c": torch.arange(3)}}, batch_size=[3])
print(td.shape, sorted(map(str, td.keys(True, True))), td[1]["b", "c"].item(), td.to(torch.float64)["a"].dtype)
print(
    torch.stack([td, td]).shape, torch.cat([td, td], 0).batch_size, td.unsqueeze(0).shape, (td + 1)["b", "c"].tolist()
)
net = TensorDictSequential(
    TensorDictModule(torch.nn.Linear(4, 2), in_keys=["a"], out_keys=["h"]),
    TensorDictModule(torch.tanh, in_keys=["h"], out_keys=["out"]),
)
out = net(td)
out["out"].sum().backward()
print(f"{out['out'].sum().item():.5f}", [f"{p.grad.norm().item():.5f}" for p in net.parameters()])
print(sorted(td.unbind(0)[0].keys()), td.apply(lambda t: t * 2)["b", "c"].tolist())
with tempfile.TemporaryDirectory() as folder:
    td.memmap(folder)
    again = TensorDict.load_memmap(folder)
    numbers = MemoryMappedTensor.from_tensor(torch.arange(6.0), filename=f"{folder}/numbers")
    numbers[2] = 9
    same = MemoryMappedTensor.from_filename(f"{folder}/numbers", dtype=torch.float32, shape=torch.Size([6]))
    print("on disk", torch.equal(again["a"], td["a"]), type(again["a"]).__name__, same.tolist(), (same + 1).sum().item())
sizes = []


def one(d, x):
    sizes.append((tuple(d.batch_size), tuple(d["b"].batch_size)))
    return TensorDict({"sum": d["a"].sum() + d["b", "c"] * x}, [])


print("vmap", torch.vmap(one)(td, torch.arange(3.0))["sum"].shape, sizes)
pairs = torch.stack([td, td], 1)
print("vmap", torch.vmap(lambda d: d, 1, 1)(pairs).batch_size, torch.vmap(torch.vmap(lambda d: d + 1))(pairs).batch_size)
line = torch.nn.Linear(4, 2)
several = TensorDictParams(torch.stack([TensorDict.from_module(line) for _ in range(3)]).clone())


def call(params, x):
    with params.to_module(line):
        return line(x)


out = torch.vmap(call, (0, None))(several, torch.ones(3, 4))
out.sum().backward()
print("ensemble", tuple(out.shape), sorted(k for k, _ in several.named_parameters()))
print("slopes", [f"{p.grad.norm().item():.4f}" for p in several.parameters()])
