"""Checkpoints as files of safetensors: names, headers and values as torch's, and read by either package."""

import importlib
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchgrad_jax as tg
import torchgrad_jax.distributed.checkpoint as own

from .processes import Together, environment
from .test_checkpoint import saving, shared_folder

together = Together(2)
test_same_as_torch = together.test()


def header(path):
    """What a file says of its tensors, with offsets as lists and without those of their bytes."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    found = json.loads(raw[8 : 8 + length])
    said = {name: [x["dtype"], x["shape"]] for name, x in found.items() if name != "__metadata__"}
    parts = json.loads(found.get("__metadata__", {}).get("DCP_SHARDING_INFO", "null"))
    return sorted(said.items()), sorted((parts or {}).items())


def contents(folder):
    """Every file of a folder: headers, and the index as it is."""
    files = sorted(p for p in Path(folder).rglob("*") if p.is_file())
    return [
        (str(p.relative_to(folder)), json.loads(p.read_text()) if p.suffix == ".json" else header(p)) for p in files
    ]


def parts(m, mesh):
    """Tensors in parts by rows, by columns and whole."""
    t = importlib.import_module(m.__name__ + ".distributed.tensor")
    w = m.arange(24.0).reshape(4, 6)
    return {
        "rows": t.distribute_tensor(w, mesh, [t.Shard(0)]),
        "cols": t.distribute_tensor(w.to(m.bfloat16), mesh, [t.Shard(1)]),
        "whole": m.arange(3.0),  # torch joins no integers
    }


def zeros(m):
    return {"rows": m.zeros(4, 6), "cols": m.zeros(4, 6, dtype=m.bfloat16), "whole": m.zeros(3)}


@together
def joined_at_the_end(m, d):
    dcp, folder = saving(m), shared_folder(d)
    mesh = m.distributed.device_mesh.init_device_mesh("cpu", (2,))
    numbers = {"rows": 1, "cols": 2, "whole": 2}
    writer = dcp.HuggingFaceStorageWriter(folder, numbers, save_distributed=True, enable_consolidation=True)
    dcp.save(parts(m, mesh), storage_writer=writer)
    d.barrier()
    found = zeros(m)
    dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(folder))
    return found, contents(folder)


@together
def joined_by_all(m, d):
    dcp, folder = saving(m), shared_folder(d)
    target = shared_folder(d)
    mesh = m.distributed.device_mesh.init_device_mesh("cpu", (2,))
    dcp.save(parts(m, mesh), storage_writer=dcp.HuggingFaceStorageWriter(folder, save_distributed=True))
    d.barrier()
    found = parts(m, mesh)
    for x in found.values():
        x.zero_()
    dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(folder))
    whole = [x.full_tensor() for x in (found["rows"], found["cols"])]
    joining = importlib.import_module(dcp.__name__ + "._consolidate_hf_safetensors")
    joining.consolidate_safetensors_files_on_every_rank(folder, target, {"rows": 1, "cols": 2, "whole": 2})
    again = zeros(m)
    dcp.load(again, storage_reader=dcp.HuggingFaceStorageReader(target, thread_count=2))
    return whole, found["whole"], contents(folder), again, contents(target)


# --- one process ----------------------------------------------------------------------------------


def state(m):
    return {"a": m.arange(6.0).reshape(2, 3), "b": m.ones(2, 3).to(m.bfloat16), "c": m.tensor(7), "d": m.zeros(0, 2)}


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("writes", ["torch", "torchgrad_jax"])
def test_either_package_reads_what_the_other_one_writes(tmp_path, writes):
    torch = pytest.importorskip("torch")
    theirs = importlib.import_module("torch.distributed.checkpoint")
    (m, dcp), (n, other) = ((torch, theirs), (tg, own))[:: 1 if writes == "torch" else -1]
    dcp.save(state(m), storage_writer=dcp.HuggingFaceStorageWriter(tmp_path, {"a": 1, "b": 1, "c": 2, "d": 2}))
    found = {name: n.zeros_like(x) for name, x in state(n).items()}
    other.load(found, storage_reader=other.HuggingFaceStorageReader(str(tmp_path)))
    assert repr(found) == repr(state(n))


@pytest.mark.filterwarnings("ignore")
def test_rows_of_a_file_and_what_hugging_face_would_read(tmp_path):
    from torchgrad_jax.serialization import safetensors

    net = tg.nn.Linear(3, 3)  # and one name has a matrix that is not contiguous, which torch refuses
    tied = {"in": net.weight, "out": net.weight, "bias": net.bias[:2], "t": tg.arange(6.0).view(2, 3).t()}
    own.save(tied, storage_writer=own.HuggingFaceStorageWriter(tmp_path))
    assert [p.name for p in sorted(tmp_path.iterdir())] == [
        "model-00001-of-00001.safetensors",
        "model.safetensors.index.json",
    ]
    found = safetensors.load_file(tmp_path / "model-00001-of-00001.safetensors")
    assert all(tg.equal(found[name], x) for name, x in tied.items())
    metadata = own.HuggingFaceStorageReader(tmp_path).read_metadata()
    described: Any = metadata.state_dict_metadata["in"]
    assert (described.size, described.properties.dtype) == ((3, 3), tg.float32)


ON_DEVICES = """
import sys
import torchgrad_jax as torch, torchgrad_jax.distributed.checkpoint as dcp
from torchgrad_jax.distributed.tensor import Shard, distribute_tensor, init_device_mesh
folder, split = sys.argv[1], sys.argv[2] == "split"
mesh = init_device_mesh("cpu", (4,))
w = torch.arange(24.0).reshape(8, 3)
held = {"w": distribute_tensor(w, mesh, [Shard(0)]), "b": torch.arange(2)}
dcp.save(held, storage_writer=dcp.HuggingFaceStorageWriter(folder, save_distributed=split), no_dist=True)
found = {"w": distribute_tensor(torch.zeros(8, 3), mesh, [Shard(0)]), "b": torch.zeros(2, dtype=torch.int64)}
dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(folder), no_dist=True)
assert torch.equal(found["w"], w) and found["w"].placements == (Shard(0),), found
"""


@pytest.mark.parametrize("way", ["whole", "split"])
def test_a_tensor_on_several_devices_of_one_process(tmp_path, way):
    env = environment(XLA_FLAGS="--xla_force_host_platform_device_count=4")
    command = [sys.executable, "-W", "ignore", "-c", ON_DEVICES, str(tmp_path), way]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    files = [p.name for p in sorted(tmp_path.glob("*.safetensors"))]
    if way == "whole":
        assert files == ["model-00001-of-00001.safetensors"]
    else:
        assert files == [f"shard-0000{n}-model-00001-of-00001.safetensors" for n in (1, 2, 3, 4)]
        from torchgrad_jax.distributed.checkpoint import _consolidate_hf_safetensors as joining

        joining.consolidate_safetensors_files(str(tmp_path), str(tmp_path / "whole"), {"w": 1, "b": 1})
        assert header(tmp_path / "whole" / "model-00001-of-00001.safetensors")[0] == [
            ("b", ["I64", [2]]),
            ("w", ["F32", [8, 3]]),
        ]


def scaled(m, folder):
    """A folder as published models have it, and what is read of it."""
    dcp = saving(m)
    files = importlib.import_module("torchgrad_jax.serialization.safetensors")
    scales = tg.arange(1.0, 7.0).reshape(3, 2)
    blocks = tg.arange(0, 240).to(tg.uint8).reshape(2, 3, 4, 10)
    exponents = tg.arange(116, 140).to(tg.uint8).reshape(2, 3, 4)
    weight = (tg.arange(55.0).reshape(11, 5) - 20).to(tg.float8_e4m3fn)
    files.save_file({"w.weight": weight, "e_blocks": blocks, "plain": tg.ones(2)}, folder / "a.safetensors")
    files.save_file({"w.weight_scale_inv": scales, "e_scales": exponents}, folder / "b.safetensors")
    where = dict.fromkeys(("w.weight", "e_blocks", "plain"), "a.safetensors")
    where |= dict.fromkeys(("w.weight_scale_inv", "e_scales"), "b.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    reader = dcp.QuantizedHuggingFaceStorageReader(str(folder), block_size=4)
    found = {"w.weight": m.zeros(11, 5), "e_blocks": m.zeros(2, 3, 80), "plain": m.zeros(2)}
    dcp.load(found, storage_reader=reader, no_dist=True)
    return {name: x.tolist() for name, x in found.items()}


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_scaled_blocks_become_plain_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    found, theirs = scaled(tg, tmp_path), scaled(torch, tmp_path)
    # torch 2.13 takes the groups of the blocks for their elements, and leaves the rest of each row as it was.
    of_groups = [[row[:4] for row in rows] for rows in found["e_blocks"]]
    assert of_groups == [[row[:4] for row in rows] for rows in theirs["e_blocks"]]
    assert {**found, "e_blocks": 0} == {**theirs, "e_blocks": 0}
    # The last bytes are 0xEE and 0xEF in a group of exponent 139 - 127.
    assert found["e_blocks"][1][2][-4:] == [2.0**12 * x for x in (-4.0, -4.0, -6.0, -4.0)]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_what_such_files_cannot_have_is_refused_before_anything_is_written(tmp_path):
    def saved(state, *args):
        own.save(state, storage_writer=own.HuggingFaceStorageWriter(tmp_path, *args))

    saved({"w": tg.ones(2)})
    before = contents(tmp_path)
    with pytest.raises(own.CheckpointException, match="has tensors alone, and step is none"):
        saved({"w": tg.zeros(2), "step": 3})
    with pytest.raises(own.CheckpointException, match="fqn_to_index_mapping says no file for v"):
        saved({"w": tg.zeros(2), "v": tg.zeros(2)}, {"w": 1})
    with pytest.raises(own.CheckpointException, match="complex128"):
        saved({"w": tg.zeros(2, dtype=tg.complex128)})
    assert contents(tmp_path) == before


def test_several_processes_do_not_write_one_file(tmp_path):
    from torchgrad_jax.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType

    item = WriteItem(own.metadata.MetadataIndex("w"), WriteItemType.TENSOR)
    with pytest.raises(ValueError, match=r"2 processes have something to write\. Use save_distributed=True"):
        own.HuggingFaceStorageWriter(tmp_path).prepare_global_plan([SavePlan([item]), SavePlan([item])])


@pytest.mark.filterwarnings("ignore")
def test_parts_of_two_checkpoints_are_not_mixed(tmp_path):
    from torchgrad_jax.serialization import safetensors

    def saved(number):
        own.save(
            {"w": tg.full((2,), number)}, storage_writer=own.HuggingFaceStorageWriter(tmp_path, save_distributed=True)
        )

    old = tmp_path / "shard-00007-model-00001-of-00001.safetensors"
    safetensors.save_file({"w": tg.zeros(2)}, old)
    saved(1.0)
    assert not old.exists()
    safetensors.save_file({"w": tg.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(own.CheckpointException, match="parts of w that overlap"):
        own.load({"w": tg.zeros(2)}, storage_reader=own.HuggingFaceStorageReader(tmp_path))


def test_what_cannot_be_joined_says_why(tmp_path):
    from torchgrad_jax.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
    from torchgrad_jax.distributed.checkpoint._hf_utils import parts_metadata
    from torchgrad_jax.serialization import safetensors

    file = tmp_path / "shard.safetensors"
    safetensors.save_file({"w": tg.zeros(2)}, file)
    with pytest.raises(ValueError, match="must be saved with DCP"):
        consolidate_safetensors_files(str(tmp_path), str(tmp_path), {"w": 1})
    safetensors.save_file({"w": tg.zeros(2)}, file, parts_metadata({"w": [3]}))
    with pytest.raises(ValueError, match="parts of w do not make up all of it"):
        consolidate_safetensors_files(str(tmp_path), str(tmp_path / "whole"), {"w": 1})
    with pytest.raises(ValueError, match="has a part of v"):
        consolidate_safetensors_files(str(tmp_path), str(tmp_path / "whole"), {"v": 1})
    assert not list((tmp_path / "whole").glob("*"))
    assert np.all(safetensors.load_file(file)["w"].numpy() == 0)
