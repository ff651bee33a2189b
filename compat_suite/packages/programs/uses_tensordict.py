"""Dictionaries of tensors with a batch shape, and modules that read and write them."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

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
