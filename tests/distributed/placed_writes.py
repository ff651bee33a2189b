"""Run in a process with 8 virtual devices: what is written to a tensor over several devices is spread as before."""

import copy
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

import torchgrad_jax as torch

nn = torch.nn
GRID = np.array(jax.devices()).reshape(4, 2)
MESH = Mesh(GRID, ("a", "b"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = Mesh(GRID, ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
SPREAD: Any = NamedSharding(MESH, P("a", "b"))
VALUES = torch.arange(32.0).reshape(8, 4) / 32
ONES = torch.ones(8, 4)


def loaded(x: Any) -> Any:
    m = nn.Module()
    m.w = nn.Parameter(x)
    m.load_state_dict({"w": ONES})
    return m.w


def assigned(x: Any, place: Any, value: Any) -> Any:
    x[place] = value
    return x


def trained(x: Any, kind: Any, compiled: bool = False, **options: Any) -> Any:
    w = nn.Parameter(x)
    made = kind([w], lr=0.1, **options)

    def step() -> None:
        made.zero_grad()
        (w @ torch.ones(4, 3)).square().sum().backward()
        made.step()

    run = torch.compile(step) if compiled else step
    for _ in range(3):
        run()
    if x._st.__class__.__name__ == "PlacedStorage":
        for t in (w.grad, *made.state[w].values()):
            assert not t.ndim or t.sharding.is_equivalent_to(SPREAD, 2), t.sharding
    return w


def clipped(x: Any) -> Any:
    w = nn.Parameter(x)
    (w**2).sum().backward()
    nn.utils.clip_grad_norm_([w], 1.0)
    return w.grad


def compiled_write(x: Any) -> Any:
    f = torch.compile(lambda: x.mul_(2).add_(1))
    f()
    f()
    return x


def mapped(x: Any) -> Any:
    torch.func.vmap(lambda row: row.mul_(2))(x)
    return x


def module(x: Any) -> Any:
    m = nn.Linear(4, 8, bias=False)
    m.load_state_dict({"weight": VALUES})
    return copy.deepcopy(m.to(x.sharding)).to(torch.float64).weight


def from_vector(x: Any) -> Any:
    w = nn.Parameter(x)
    nn.utils.vector_to_parameters(torch.arange(32.0), [w])
    return w


def materialised(x: Any) -> Any:
    m = nn.Linear(4, 8, bias=False, device="meta").to_empty(device=x.sharding)
    m.reset_parameters()
    return m.weight


CASES: dict[str, Any] = {
    "copy_": lambda x: x.copy_(ONES),
    "fill_": lambda x: x.fill_(3),
    "zero_": lambda x: x.zero_(),
    "mul_": lambda x: x.mul_(ONES),
    "exp_": lambda x: x.exp_(),
    "rows": lambda x: assigned(x, slice(1, 3), 7),
    "mask": lambda x: assigned(x, x > 0.3, torch.tensor(0.0)),
    "column": lambda x: x.t()[0].fill_(3) is None or x,
    "masked_fill_": lambda x: x.masked_fill_(x > 0.5, 0),
    "index_add_": lambda x: x.index_add_(0, torch.tensor([1]), torch.ones(1, 4)),
    "foreach": lambda x: (torch._foreach_add_([x], [ONES]), x)[1],
    "out": lambda x: torch.add(ONES, ONES, out=x),
    "vmap": mapped,
    "compiled": compiled_write,
    "normal_": lambda x: x.normal_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5),
    "kaiming": lambda x: nn.init.kaiming_uniform_(x),
    "xavier": lambda x: nn.init.xavier_normal_(x),
    "orthogonal": lambda x: nn.init.orthogonal_(x),
    "trunc_normal": lambda x: nn.init.trunc_normal_(x),
    "constant": lambda x: nn.init.constant_(x, 2),
    "load_state_dict": loaded,
    "zeros_like": torch.zeros_like,
    "full_like": lambda x: torch.full_like(x, 3.0),
    "randn_like": torch.randn_like,
    "randint_like": lambda x: torch.randint_like(x, 3),
    "dtype": lambda x: x.to(torch.bfloat16),
    "double": lambda x: x.double(),
    "deepcopy": copy.deepcopy,
    "deepcopy-parameter": lambda x: copy.deepcopy(nn.Parameter(x)),
    "requires_grad_": lambda x: x.requires_grad_(),
    "randn": lambda x: torch.randn(8, 4, device=x.sharding),
    "zeros": lambda x: torch.zeros(8, 4, device=x.sharding),
    "new_zeros": lambda x: torch.ones(2).new_zeros(8, 4, device=x.sharding),
    "new_full": lambda x: torch.ones(2).new_full((8, 4), 3.0, device=x.sharding),
    "new_tensor": lambda x: torch.ones(2).new_tensor([[1.0] * 4] * 8, device=x.sharding),
    "new_empty_strided": lambda x: ONES.new_empty_strided((8, 4), (4, 1), device=x.sharding).fill_(1),
    "sgd": lambda x: trained(x, torch.optim.SGD, momentum=0.9),
    "adamw": lambda x: trained(x, torch.optim.AdamW),
    "adamw-compiled": lambda x: trained(x, torch.optim.AdamW, compiled=True),
    "clip": clipped,
    "from_vector": from_vector,
    "module": module,
    "materialised": materialised,
}


def check(name: str, given: Any) -> None:
    found = []
    for x in (VALUES.clone(), VALUES.to(given)):
        torch.manual_seed(0)
        found.append(CASES[name](x))
    assert found[1].sharding.is_equivalent_to(SPREAD, 2), (name, found[1].sharding)
    assert len(found[1].addressable_shards) == 8
    plain, spread = (np.asarray(t.detach().double().numpy()) for t in found)
    np.testing.assert_allclose(spread, plain, rtol=1e-5, atol=1e-6, err_msg=name)


def raises(kind: Any, said: str, f: Any) -> None:
    with pytest.raises(kind, match=said):
        f()


for name in CASES:
    check(name, SPREAD)
    check(name, NamedSharding(EXPLICIT, P("a", "b")))

x = torch.as_tensor(jax.device_put(np.ones((8, 4), np.float32), NamedSharding(EXPLICIT, P("a"))))
assert ((x + ONES) @ torch.ones(4, 3)).sum().item() == 192.0
w = VALUES.clone().requires_grad_()
(w.to(SPREAD) * 3).sum().backward()
assert w.grad is not None
assert w.grad.tolist() == (ONES * 3).tolist()
net = nn.Linear(4, 8)
weight = net.weight.clone()
raises(ValueError, "bias", lambda: net.to(SPREAD))
assert len(net.weight.sharding.device_set) == 1
uneven = VALUES[:6].to(SPREAD)  # the devices do not divide six rows
uneven.mul_(2)
assert uneven.tolist() == (VALUES[:6] * 2).tolist()
raises(RuntimeError, "no sharding", lambda: torch.ones(2, device="meta").sharding)

leaf = ONES.new_ones((8, 4), device=SPREAD, requires_grad=True)
assert leaf.is_leaf
assert leaf.requires_grad

page = (Path(__file__).parents[2] / "docs/many_devices.md").read_text(encoding="utf-8")
for program in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
    exec(program, {})
