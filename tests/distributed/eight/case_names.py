"""Meshes and placements say what PyTorch's say: names, shapes, slices, and errors."""

import importlib
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import torchgrad_jax
import torchgrad_jax.distributed.device_mesh
import torchgrad_jax.distributed.tensor

LIKE_TORCH: dict[str, str] = {
    "line": "DeviceMesh((8,), 'cpu', stride=(1,))",
    "grid": "DeviceMesh((dp=4, tp=2), 'cpu', stride=(2, 1))",
    "grid['tp']": "DeviceMesh((tp=2), 'cpu', stride=(1,))",
    "grid['dp']": "DeviceMesh((dp=4), 'cpu', stride=(2,))",
    "grid['dp'].mesh.tolist()": "[0, 2, 4, 6]",
    "grid.mesh.tolist()": "[[0, 1], [2, 3], [4, 5], [6, 7]]",
    "cube['dp', 'cp']": "DeviceMesh((dp=2, cp=2), 'cpu', stride=(4, 2))",
    "cube['dp', 'cp']._flatten()": "DeviceMesh((dp_cp=4), 'cpu', stride=(2,))",
    "cube['dp', 'tp']._flatten()": "DeviceMesh((dp_tp=4), 'cpu', stride=((4, 1),))",
    "cube['dp', 'tp']._flatten('x').mesh.tolist()": "[0, 1, 4, 5]",
    "grid.shape, grid.ndim, grid.size(), grid.size(0)": "((4, 2), 2, 8, 4)",
    "grid.get_coordinate(), grid.get_local_rank('tp')": "((0, 0), 0)",
    "grid['dp', 'tp'] is grid": "True",
    "grid['tp'] == grid['tp'], grid['tp'] == grid['dp']": "(True, False)",
    "hash(grid['tp']) == hash(grid['tp'])": "True",
    "init_device_mesh('cpu', (4,))": "DeviceMesh((4,), 'cpu', stride=(1,))",
    "DeviceMesh('cpu', [[0, 1], [2, 3]])": "DeviceMesh((2, 2), 'cpu', stride=(2, 1))",
    "line['x']": "RuntimeError: Cannot slice a DeviceMesh without mesh_dim_names!",
    "grid['x']": "KeyError: Invalid mesh_dim_names ('x',) specified. Valid mesh_dim_names are ['dp', 'tp'].",
    "grid['tp']['dp']": "KeyError: Invalid mesh_dim_names ('dp',) specified. Valid mesh_dim_names are ['tp'].",
    "cube['tp', 'dp']": "KeyError: Invalid mesh_dim_names ('tp', 'dp') specified. Mesh dim indices should be in "
    "ascending order.",
    "grid.get_local_rank()": "RuntimeError: Found the DeviceMesh have 2 dimensions",
    "init_device_mesh('cpu:0', (4,))": "RuntimeError: Device type with index is not supported but got cpu:0. ",
    "init_device_mesh('cpu', (8,), mesh_dim_names=('a', 'b'))": "RuntimeError: mesh_shape and mesh_dim_names "
    "should have "
    "same length! Found len(mesh_dim_names): 2 and len(mesh_shape):1.",
    "init_device_mesh('cpu', (4, 2), mesh_dim_names=('a', 'a'))": "RuntimeError: Each mesh_dim_name must be "
    "unique. Found "
    "repeated mesh_dim_name in mesh_dim_names ('a', 'a')",
    "[Shard(0), Replicate(), Partial()]": "[Shard(dim=0), Replicate(), Partial(sum)]",
    "[str(p) for p in (Shard(1), Replicate(), Partial('avg'))]": "['S(1)', 'R', 'P(avg)']",
    "Shard(0) == Shard(0), Shard(0) == Shard(1), Replicate() == Replicate()": "(True, False, True)",
    "Shard(0).is_shard(1), Shard(0).is_shard(), Replicate().is_replicate()": "(False, True, True)",
    "Partial('max').is_partial('max'), Partial().is_partial('max')": "(True, False)",
    "distribute_tensor(x, line, [Shard(0)]).placements": "(Shard(dim=0),)",
    "distribute_tensor(x, line, [Shard(-2)]).placements": "(Shard(dim=0),)",
    "distribute_tensor(x, grid).placements": "(Replicate(), Replicate())",
    "distribute_tensor(x, grid, [Shard(0), Shard(1)]).placements": "(Shard(dim=0), Shard(dim=1))",
    "distribute_tensor(x, grid, [Shard(0), Shard(0)]).placements": "(Shard(dim=0), Shard(dim=0))",
    "distribute_tensor(x, grid['tp'], [Shard(1)]).device_mesh": "DeviceMesh((tp=2), 'cpu', stride=(1,))",
    "distribute_tensor(x, line, [Shard(0)]).shape": "torch.Size([8, 2])",
    "distribute_tensor(x, line, [Shard(0)]).redistribute(line, [Replicate()]).placements": "(Replicate(),)",
    "isinstance(distribute_tensor(x, line, [Shard(0)]), DTensor), isinstance(x, DTensor)": "(True, False)",
    "isinstance(distribute_tensor(x, line, [Shard(0)]).to_local(), DTensor)": "False",
    "[(t._local_tensor == t.to_local()).all().item() for t in [distribute_tensor(x, line, [Shard(0)])]]": "[True]",
    "hasattr(x, '_local_tensor'), hasattr(distribute_tensor(x, line, [Shard(0)]), '_local_tensor')": "(False, True)",
    "hasattr(x, 'placements'), hasattr(x, 'full_tensor')": "(False, False)",
    "distribute_tensor(leaf, line).requires_grad, distribute_tensor(leaf, line).is_leaf": "(True, True)",
    "zeros(8, 2, device_mesh=line, placements=[Shard(0)]).placements": "(Shard(dim=0),)",
    "full((8, 2), 3.0, device_mesh=line).full_tensor().sum().item()": "48.0",
    "full(size=8, fill_value=3.0, device_mesh=line, placements=[Shard(0)]).shape": "torch.Size([8])",
    "(distribute_tensor(x, line, [Shard(0)]) * 2).placements": "(Shard(dim=0),)",
    "distribute_tensor(x, line, [Shard(0)]).t().placements": "(Shard(dim=1),)",
    "distribute_tensor(x, grid, [Shard(0)])": "ValueError: `placements` must have the same length as "
    "`device_mesh.ndim`! "
    "Found placements length: 1, and device_mesh.ndim: 2.",
    "distribute_tensor(x, line, [Shard(2)])": "IndexError: Dimension out of range (expected to be in range of [-2, 1], "
    "but got 2)",
    "distribute_tensor(x, None, [Shard(0)])": "RuntimeError: No device mesh is currently active!",
    "distribute_tensor(leaf * 2, line)": "RuntimeError: `distribute_tensor` should be used to distribute leaf "
    "tensors! but "
    "found non-leaf tensor!",
    "distribute_tensor(distribute_tensor(x, line), line, [Shard(0)])": "ValueError: Cannot distribute a DTensor with "
    "placements (Replicate(),) to a different placements [Shard(dim=0)]. do you want to call `redistribute` instead?",
    "distribute_tensor(x, line, [Shard(0)]).redistribute()": "RuntimeError: placements is needed for redistribute!",
    "distribute_tensor(x, line, [Shard(0)]).redistribute(line, [Partial()])": "RuntimeError: Can not "
    "redistribute from S(0) "
    "to P(sum), redistributing to Partial is for internal use only!",
    "DTensor.from_local(x, line, [Partial()]).placements": "(Partial(sum),)",
    "DTensor.from_local(x, grid, [Shard(0), Partial('max')]).t().placements": "(Shard(dim=1), Partial(max))",
    "DTensor.from_local(x, line, [Partial()]).redistribute(line, [Shard(0)]).placements": "(Shard(dim=0),)",
    "DTensor.from_local(x, line, [Partial()]).redistribute(line, [Partial()]).placements": "(Partial(sum),)",
    "DTensor.from_local(x, line, [Partial()]).requires_grad_().to_local().requires_grad": "True",
    "DTensor.from_local(x, line, [Shard(3)])": "RuntimeError: Sharding dim 3 greater than tensor ndim 2 for placement "
    "number 0",
}

OWN: dict[str, str] = {
    "line._unflatten(0, (2, 4), ('a', 'b'))": "DeviceMesh((a=2, b=4), 'cpu', stride=(4, 1))",
    "distribute_tensor(x, line, [Shard(0)]).full_tensor().tolist() == x.tolist()": "True",
    "distribute_tensor(x, line, [Shard(1)]).full_tensor().tolist() == x.tolist()": "True",
    "distribute_tensor(x, line, [Shard(1)]).placements": "(Shard(dim=1),)",
    "distribute_tensor(x[:6], line, [Shard(0)]).add_(1).sum().item()": "78.0",
    "distribute_tensor(x, line, [Partial()])": "RuntimeError: Trying to distribute tensor with unsupported "
    "placements P(sum) "
    "on device mesh dimension 0: XLA reduces where it computes, and keeps no summands",
    "init_device_mesh('cpu', (9,))": "RuntimeError: a mesh with 9 devices, the last of which is number 8, was "
    "asked for, and "
    "JAX has 8 of type cpu. One process may have many: virtual ones on a CPU with "
    "XLA_FLAGS=--xla_force_host_platform_device_count=8 in the environment before torchgrad_jax is imported",
    "DTensor.from_local(x, line, [Shard(0)]).shape": "torch.Size([8, 2])",
    "DTensor.from_local(x, line, [Shard(0)]).to_local().tolist() == x.tolist()": "True",
    "DTensor.from_local(x, line, [Partial()]).to_local().tolist() == x.tolist()": "True",  # the only summand
    "(DTensor.from_local(x, line, [Partial()]) * 2).placements": "(Replicate(),)",
    "[s.data.shape for s in distribute_tensor(x, grid, [Shard(0), Shard(1)]).addressable_shards][0]": "(2, 1)",
    "block((8, 2), grid, [Shard(0), Shard(1)])": "((8, 2), (0, 0))",
    "block((8, 2), line, [Shard(0)], skip_offset=True)": "((8, 2), ())",
    "distribute_tensor(x, line, [Shard(0)]).sum().placements": "(Replicate(),)",
    "(distribute_tensor(x, line, [Shard(0)]) + x).placements": "(Shard(dim=0),)",
    "x.placements": "AttributeError: 'Tensor' object has no attribute 'placements': it lies on no device mesh",
}


def names(torch: ModuleType) -> dict[str, Any]:
    """What the expressions of the tables may name."""
    parts = (torch.distributed.device_mesh, torch.distributed.tensor)
    known = {k: getattr(part, k) for part in parts for k in part.__all__}
    mesh = known["init_device_mesh"]
    known |= SimpleNamespace(
        line=mesh("cpu", (8,)),
        grid=mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp")),
        cube=mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp")),
        block=importlib.import_module(
            f"{torch.__name__}.distributed.tensor._utils"
        ).compute_local_shape_and_global_offset,
        x=torch.arange(16.0).view(8, 2),
        leaf=torch.ones(8, 2, requires_grad=True),
    ).__dict__
    return known


def answer(expression: str, known: dict[str, Any]) -> str:
    try:
        return repr(eval(expression, known))
    except (RuntimeError, ValueError, KeyError, IndexError, AttributeError) as error:
        return f"{type(error).__name__}: {error.args[0]}"


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    return names(torchgrad_jax)


@pytest.fixture(scope="module")
def theirs() -> Iterator[dict[str, Any]]:
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.distributed.tensor")
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield names(torch)
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("expression", [*LIKE_TORCH, *OWN])
def test_says(expression: str, ours: dict[str, Any]):
    assert answer(expression, ours) == {**LIKE_TORCH, **OWN}[expression]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", list(LIKE_TORCH))
def test_torch_says_so(expression: str, theirs: dict[str, Any]):
    assert answer(expression, theirs) == LIKE_TORCH[expression]
