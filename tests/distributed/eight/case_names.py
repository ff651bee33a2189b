"""Meshes and placements say what PyTorch's say: names, shapes, slices, and errors."""

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import torchgrad_jax
import torchgrad_jax.distributed.device_mesh
import torchgrad_jax.distributed.tensor
from tests.programs import text_of

LIKE_TORCH: tuple[tuple[Callable[[Any], Any], str], ...] = (
    (lambda k: k.line, "DeviceMesh((8,), 'cpu', stride=(1,))"),
    (lambda k: k.grid, "DeviceMesh((dp=4, tp=2), 'cpu', stride=(2, 1))"),
    (lambda k: k.grid["tp"], "DeviceMesh((tp=2), 'cpu', stride=(1,))"),
    (lambda k: k.grid["dp"], "DeviceMesh((dp=4), 'cpu', stride=(2,))"),
    (lambda k: k.grid["dp"].mesh.tolist(), "[0, 2, 4, 6]"),
    (lambda k: k.grid.mesh.tolist(), "[[0, 1], [2, 3], [4, 5], [6, 7]]"),
    (lambda k: k.cube["dp", "cp"], "DeviceMesh((dp=2, cp=2), 'cpu', stride=(4, 2))"),
    (lambda k: k.cube["dp", "cp"]._flatten(), "DeviceMesh((dp_cp=4), 'cpu', stride=(2,))"),
    (lambda k: k.cube["dp", "tp"]._flatten(), "DeviceMesh((dp_tp=4), 'cpu', stride=((4, 1),))"),
    (lambda k: k.cube["dp", "tp"]._flatten("x").mesh.tolist(), "[0, 1, 4, 5]"),
    (lambda k: (k.grid.shape, k.grid.ndim, k.grid.size(), k.grid.size(0)), "((4, 2), 2, 8, 4)"),
    (lambda k: (k.grid.get_coordinate(), k.grid.get_local_rank("tp")), "((0, 0), 0)"),
    (lambda k: k.grid["dp", "tp"] is k.grid, "True"),
    (lambda k: (k.grid["tp"] == k.grid["tp"], k.grid["tp"] == k.grid["dp"]), "(True, False)"),
    (lambda k: hash(k.grid["tp"]) == hash(k.grid["tp"]), "True"),
    (lambda k: k.init_device_mesh("cpu", (4,)), "DeviceMesh((4,), 'cpu', stride=(1,))"),
    (lambda k: k.DeviceMesh("cpu", [[0, 1], [2, 3]]), "DeviceMesh((2, 2), 'cpu', stride=(2, 1))"),
    (lambda k: k.line["x"], "RuntimeError: Cannot slice a DeviceMesh without mesh_dim_names!"),
    (lambda k: k.grid["x"],
     "KeyError: Invalid mesh_dim_names ('x',) specified. Valid mesh_dim_names are ['dp', 'tp']."),
    (lambda k: k.grid["tp"]["dp"],
     "KeyError: Invalid mesh_dim_names ('dp',) specified. Valid mesh_dim_names are ['tp']."),
    (lambda k: k.cube["tp", "dp"],
     "KeyError: Invalid mesh_dim_names ('tp', 'dp') specified. Mesh dim indices should be in ascending order."),
    (lambda k: k.grid.get_local_rank(), "RuntimeError: Found the DeviceMesh have 2 dimensions"),
    (lambda k: k.init_device_mesh("cpu:0", (4,)),
     "RuntimeError: Device type with index is not supported but got cpu:0. "),
    (lambda k: k.init_device_mesh("cpu", (8,), mesh_dim_names=("a", "b")),
     "RuntimeError: mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): 2 and "
     "len(mesh_shape):1."),
    (lambda k: k.init_device_mesh("cpu", (4, 2), mesh_dim_names=("a", "a")),
     "RuntimeError: Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names ('a', 'a')"),
    (lambda k: [k.Shard(0), k.Replicate(), k.Partial()], "[Shard(dim=0), Replicate(), Partial(sum)]"),
    (lambda k: [str(p) for p in (k.Shard(1), k.Replicate(), k.Partial("avg"))], "['S(1)', 'R', 'P(avg)']"),
    (lambda k: (k.Shard(0) == k.Shard(0), k.Shard(0) == k.Shard(1), k.Replicate() == k.Replicate()),
     "(True, False, True)"),
    (lambda k: (k.Shard(0).is_shard(1), k.Shard(0).is_shard(), k.Replicate().is_replicate()), "(False, True, True)"),
    (lambda k: (k.Partial("max").is_partial("max"), k.Partial().is_partial("max")), "(True, False)"),
    (lambda k: k.rows.placements, "(Shard(dim=0),)"),
    (lambda k: k.distribute_tensor(k.x, k.line, [k.Shard(-2)]).placements, "(Shard(dim=0),)"),
    (lambda k: k.distribute_tensor(k.x, k.grid).placements, "(Replicate(), Replicate())"),
    (lambda k: k.distribute_tensor(k.x, k.grid, [k.Shard(0), k.Shard(1)]).placements, "(Shard(dim=0), Shard(dim=1))"),
    (lambda k: k.distribute_tensor(k.x, k.grid, [k.Shard(0), k.Shard(0)]).placements, "(Shard(dim=0), Shard(dim=0))"),
    (lambda k: k.distribute_tensor(k.x, k.grid["tp"], [k.Shard(1)]).device_mesh,
     "DeviceMesh((tp=2), 'cpu', stride=(1,))"),
    (lambda k: k.rows.shape, "torch.Size([8, 2])"),
    (lambda k: k.rows.redistribute(k.line, [k.Replicate()]).placements, "(Replicate(),)"),
    (lambda k: (isinstance(k.rows, k.DTensor), isinstance(k.x, k.DTensor)), "(True, False)"),
    (lambda k: isinstance(k.rows.to_local(), k.DTensor), "False"),
    (lambda k: [(t._local_tensor == t.to_local()).all().item() for t in [k.rows]], "[True]"),
    (lambda k: (hasattr(k.x, "_local_tensor"), hasattr(k.rows, "_local_tensor")), "(False, True)"),
    (lambda k: (hasattr(k.x, "placements"), hasattr(k.x, "full_tensor")), "(False, False)"),
    (lambda k: (k.distribute_tensor(k.leaf, k.line).requires_grad, k.distribute_tensor(k.leaf, k.line).is_leaf),
     "(True, True)"),
    (lambda k: k.zeros(8, 2, device_mesh=k.line, placements=[k.Shard(0)]).placements, "(Shard(dim=0),)"),
    (lambda k: k.full((8, 2), 3.0, device_mesh=k.line).full_tensor().sum().item(), "48.0"),
    (lambda k: k.full(size=8, fill_value=3.0, device_mesh=k.line, placements=[k.Shard(0)]).shape, "torch.Size([8])"),
    (lambda k: (k.rows * 2).placements, "(Shard(dim=0),)"),
    (lambda k: k.rows.t().placements, "(Shard(dim=1),)"),
    (lambda k: k.distribute_tensor(k.x, k.grid, [k.Shard(0)]),
     "ValueError: `placements` must have the same length as `device_mesh.ndim`! Found placements length: 1, and "
     "device_mesh.ndim: 2."),
    (lambda k: k.distribute_tensor(k.x, k.line, [k.Shard(2)]),
     "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
    (lambda k: k.distribute_tensor(k.x, None, [k.Shard(0)]), "RuntimeError: No device mesh is currently active!"),
    (lambda k: k.distribute_tensor(k.leaf * 2, k.line),
     "RuntimeError: `distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!"),
    (lambda k: k.distribute_tensor(k.distribute_tensor(k.x, k.line), k.line, [k.Shard(0)]),
     "ValueError: Cannot distribute a DTensor with placements (Replicate(),) to a different placements "
     "[Shard(dim=0)]. do you want to call `redistribute` instead?"),
    (lambda k: k.rows.redistribute(), "RuntimeError: placements is needed for redistribute!"),
    (lambda k: k.rows.redistribute(k.line, [k.Partial()]),
     "RuntimeError: Can not redistribute from S(0) to P(sum), redistributing to Partial is for internal use only!"),
    (lambda k: k.DTensor.from_local(k.x, k.line, [k.Partial()]).placements, "(Partial(sum),)"),
    (lambda k: k.DTensor.from_local(k.x, k.grid, [k.Shard(0), k.Partial("max")]).t().placements,
     "(Shard(dim=1), Partial(max))"),
    (lambda k: k.DTensor.from_local(k.x, k.line, [k.Partial()]).redistribute(k.line, [k.Shard(0)]).placements,
     "(Shard(dim=0),)"),
    (lambda k: k.DTensor.from_local(k.x, k.line, [k.Partial()]).redistribute(k.line, [k.Partial()]).placements,
     "(Partial(sum),)"),
    (lambda k: k.DTensor.from_local(k.x, k.line, [k.Partial()]).requires_grad_().to_local().requires_grad, "True"),
    (lambda k: k.DTensor.from_local(k.x, k.line, [k.Shard(3)]),
     "RuntimeError: Sharding dim 3 greater than tensor ndim 2 for placement number 0"),
)  # fmt: skip

OWN: tuple[tuple[Callable[[Any], Any], str], ...] = (
    (lambda k: k.line._unflatten(0, (2, 4), ("a", "b")), "DeviceMesh((a=2, b=4), 'cpu', stride=(4, 1))"),
    (lambda k: k.rows.full_tensor().tolist() == k.x.tolist(), "True"),
    (lambda k: k.distribute_tensor(k.x, k.line, [k.Shard(1)]).full_tensor().tolist() == k.x.tolist(), "True"),
    (lambda k: k.distribute_tensor(k.x, k.line, [k.Shard(1)]).placements, "(Shard(dim=1),)"),
    (lambda k: k.distribute_tensor(k.x[:6], k.line, [k.Shard(0)]).add_(1).sum().item(), "78.0"),
    (lambda k: k.distribute_tensor(k.x, k.line, [k.Partial()]),
     "RuntimeError: Trying to distribute tensor with unsupported placements P(sum) on device mesh dimension 0: XLA "
     "reduces where it computes, and keeps no summands"),
    (lambda k: k.init_device_mesh("cpu", (9,)),
     "RuntimeError: a mesh with 9 devices, the last of which is number 8, was asked for, and JAX has 8 of type cpu. "
     "One process may have many: virtual ones on a CPU with XLA_FLAGS=--xla_force_host_platform_device_count=8 in the "
     "environment before torchgrad_jax is imported"),
    (lambda k: k.DTensor.from_local(k.x, k.line, [k.Shard(0)]).shape, "torch.Size([8, 2])"),
    (lambda k: k.DTensor.from_local(k.x, k.line, [k.Shard(0)]).to_local().tolist() == k.x.tolist(), "True"),
    (lambda k: k.DTensor.from_local(k.x, k.line, [k.Partial()]).to_local().tolist() == k.x.tolist(), "True"),
    (lambda k: (k.DTensor.from_local(k.x, k.line, [k.Partial()]) * 2).placements, "(Replicate(),)"),
    (lambda k: k.distribute_tensor(k.x, k.grid, [k.Shard(0), k.Shard(1)]).addressable_shards[0].data.shape, "(2, 1)"),
    (lambda k: k.block((8, 2), k.grid, [k.Shard(0), k.Shard(1)]), "((8, 2), (0, 0))"),
    (lambda k: k.block((8, 2), k.line, [k.Shard(0)], skip_offset=True), "((8, 2), ())"),
    (lambda k: k.linspace(0, 7, 8, device_mesh=k.line, placements=[k.Shard(0)]).placements, "(Shard(dim=0),)"),
    (lambda k: k.linspace(0, 7, 8, device_mesh=k.line, placements=[k.Shard(0)]).full_tensor().tolist(),
     "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]"),
    (lambda k: k.logspace(0, 3, 4, 2, device_mesh=k.line, requires_grad=True).full_tensor().tolist(),
     "[1.0, 2.0, 4.0, 8.0]"),
    (lambda k: k.linspace(k.x, 1, 4, device_mesh=k.line),
     "RuntimeError: linspace only supports 0-dimensional start and end tensors"),
    (lambda k: k.rows.sum().placements, "(Replicate(),)"),
    (lambda k: (k.rows + k.x).placements, "(Shard(dim=0),)"),
    (lambda k: k.x.placements,
     "AttributeError: 'Tensor' object has no attribute 'placements': it lies on no device mesh"),
)  # fmt: skip


def names(torch: ModuleType) -> SimpleNamespace:
    """What the calls of the tables use."""
    parts = (torch.distributed.device_mesh, torch.distributed.tensor)
    k = SimpleNamespace(**{name: getattr(part, name) for part in parts for name in part.__all__})
    k.line = k.init_device_mesh("cpu", (8,))
    k.grid = k.init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))
    k.cube = k.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
    utils = importlib.import_module(f"{torch.__name__}.distributed.tensor._utils")
    k.block = utils.compute_local_shape_and_global_offset
    k.x = torch.arange(16.0).view(8, 2)
    k.rows = k.distribute_tensor(k.x, k.line, [k.Shard(0)])
    k.leaf = torch.ones(8, 2, requires_grad=True)
    return k


def answer(call: Callable[[Any], Any], known: SimpleNamespace) -> str:
    try:
        return repr(call(known))
    except (RuntimeError, ValueError, KeyError, IndexError, AttributeError) as error:
        return f"{type(error).__name__}: {error.args[0]}"


@pytest.fixture(scope="module")
def ours() -> SimpleNamespace:
    return names(torchgrad_jax)


@pytest.fixture(scope="module")
def theirs() -> Iterator[SimpleNamespace]:
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.distributed.tensor")
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield names(torch)
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("call, text", LIKE_TORCH + OWN, ids=[text_of(call) for call, _ in LIKE_TORCH + OWN])
def test_says(call: Callable[[Any], Any], text: str, ours: SimpleNamespace):
    assert answer(call, ours) == text


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call, text", LIKE_TORCH, ids=[text_of(call) for call, _ in LIKE_TORCH])
def test_torch_says_so(call: Callable[[Any], Any], text: str, theirs: SimpleNamespace):
    assert answer(call, theirs) == text
