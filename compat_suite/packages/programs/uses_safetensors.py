"""Tensors written and read by safetensors."""

import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

torch.manual_seed(0)
kinds = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
)
tensors = {str(k): (torch.arange(6).view(2, 3) - 2).to(k) for k in kinds}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.safetensors")
    save_file(tensors, path, metadata={"who": "me"})
    back = load_file(path)
    print(all(torch.equal(back[k], v) and back[k].dtype == v.dtype for k, v in tensors.items()), sorted(back))
    with safe_open(path, framework="pt", device="cpu") as f:
        print(f.metadata(), f.get_slice("torch.int32")[:, 1:].tolist(), f.get_tensor("torch.bfloat16").tolist())
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
    net[1].weight = torch.nn.Parameter(net[1].weight.detach())
    save_model(net, path)
    other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
    print(load_model(other, path), torch.equal(other[0].weight, net[0].weight))
print(load(save({"x": torch.ones(2)})), len(save(tensors)))
shared = torch.ones(4)
try:
    save({"a": shared, "b": shared[1:]})
except RuntimeError as e:
    print(str(e)[:60])
