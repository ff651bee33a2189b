"""CommDebugMode counts what XLA exchanges between devices for the operators of a block, by module."""

import json

import pytest

import torchgrad_jax as torch
from torchgrad_jax import nn, ops
from torchgrad_jax.distributed.device_mesh import init_device_mesh
from torchgrad_jax.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torchgrad_jax.distributed.tensor.debug import CommDebugMode
from torchgrad_jax.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

FUNCTIONAL = ops.c10d_functional


@pytest.fixture
def mesh():
    return init_device_mesh("cpu", (8,))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return self.down(self.up(x).relu())


MOVES = [
    (Shard(0), Replicate(), {"all_gather_into_tensor": 1}),
    (Shard(0), Shard(1), {"all_to_all_single": 1}),
    (Replicate(), Shard(0), {}),
    (Shard(0), Shard(0), {}),
]


@pytest.mark.parametrize(("before", "after", "expected"), MOVES)
@pytest.mark.parametrize("grad", [False, True])
def test_redistribute(mesh, before, after, expected, grad):
    x = distribute_tensor(torch.ones(8, 16), mesh, [before]).requires_grad_(grad)
    with CommDebugMode() as mode:
        x.redistribute(placements=[after])
    assert mode.get_comm_counts() == {getattr(FUNCTIONAL, name): n for name, n in expected.items()}


def test_a_split_inner_dimension_and_gradients(mesh):
    x = distribute_tensor(torch.ones(8, 16), mesh, [Shard(0)])
    w = distribute_tensor(torch.ones(16, 4), mesh, [Replicate()]).requires_grad_()
    with CommDebugMode() as mode:
        y = x @ w
        assert mode.get_total_counts() == 0
        y.backward(torch.ones_like(y))
    assert mode.get_comm_counts() == {FUNCTIONAL.all_reduce: 1}
    assert mode.comm_module_counts["Global"] == {"forward": {}, "backward": {FUNCTIONAL.all_reduce: 1}}
    with mode:
        assert mode.get_total_counts() == 0


def test_modules_of_tensor_parallelism(mesh, tmp_path):
    net = parallelize_module(Net(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    with CommDebugMode() as mode:
        net(torch.ones(4, 8)).sum().backward()
    assert (mode.get_total_counts(), repr(mode)) == (1, "CommDebugMode(get_total_counts()=1)")
    assert sorted(mode.comm_module_counts) == ["Global", "Net", "Net.down"]
    assert all(v["forward"] == {FUNCTIONAL.all_reduce: 1} for v in mode.comm_module_counts.values())
    assert mode.get_sharding_info()["Net.up.weight"] == (Shard(0),)
    assert list(mode.get_parameter_info()["Net.down"]) == ["weight", "bias"]
    assert isinstance(mode.get_parameter_info()["Net.down"]["weight"], DTensor)

    short, long = (mode.generate_comm_debug_tracing_table(level) for level in (0, 3))
    assert "        Net.down\n          FORWARD PASS\n            *c10d_functional.all_reduce: 1\n" in short
    assert "aten" not in short
    assert "**aten.addmm" in long
    assert "*weight: (Shard(dim=0),)" in long
    mode.log_comm_debug_tracing_table_to_file(tmp_path / "log.txt", 1)
    assert (tmp_path / "log.txt").read_text() == mode.generate_comm_debug_tracing_table(1)
    mode.generate_json_dump(tmp_path / "log.json")
    root = json.loads((tmp_path / "log.json").read_text())
    (inner,) = root["children"]
    assert [root["fqn"], inner["fqn"], [c["fqn"] for c in inner["children"]]] == [
        "Global",
        "Net",
        ["Net.up", "Net.down"],
    ]
    assert inner["children"][1]["collectives_forward"] == [["c10d_functional.all_reduce", 1]]


def test_a_block_that_raises_leaves_nothing_behind(mesh):
    mode = CommDebugMode()
    with pytest.raises(ZeroDivisionError), mode:
        raise ZeroDivisionError
    distribute_tensor(torch.ones(8), mesh, [Shard(0)]).full_tensor()
    nn.Linear(1, 1)(torch.ones(1))
    assert mode.get_total_counts() == 0
    assert list(mode.advanced_module_tracker.known) == ["Global"]
