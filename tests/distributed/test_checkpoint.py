"""Checkpoints of several processes: in torch's format, read by another number of processes, whole whatever happens."""

import importlib
import io
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest

from .processes import Together, complaint, environment
from .test_run import start

together = Together(2)
test_same_as_torch = together.test()
HERE = Path(__file__).parent


def saving(m):
    return importlib.import_module(m.__name__ + ".distributed.checkpoint")


def shared_folder(d):
    """A new folder that all processes know."""
    box = [tempfile.mkdtemp() if d.get_rank() == 0 else None]
    d.broadcast_object_list(box, 0)
    return str(box[0])


def without_files(metadata):
    """What the metadata say, but in which file each part lies."""
    found = {}
    for name, entry in sorted(metadata.state_dict_metadata.items()):
        found[name] = [type(entry).__name__]
        if hasattr(entry, "chunks"):
            parts = [[list(c.offsets), list(c.sizes)] for c in entry.chunks]
            found[name] += [list(entry.size), str(entry.properties.dtype), parts]
    return found, metadata.planner_data, metadata.version


def state(m, rank, zero=False):
    """A state of every kind of value; with `zero`, the same without the values."""

    def filled(*shape):
        return (m.zeros(shape) if zero else m.arange(1.0, 1 + m.ones(shape).numel())).reshape(shape)

    return {
        "model": {"w": filled(3, 2), "half": filled(2).to(m.bfloat16), "scalar": filled(1)[0], "none": m.zeros(0, 2)},
        "list": [0 if zero else 1, filled(2), {"deep": filled(1) > 0}],
        "step": 0 if zero else 7,
        "text": None if zero else "text",
        "numbers": None if zero else [1, 2, 3],
        "complex": filled(2).to(m.complex64),
        "transposed": filled(2, 3).t(),
        f"own {rank}": filled(2) * (rank + 1),
    }


@together
def saved_and_loaded(m, d):
    dcp, folder, rank = saving(m), shared_folder(d), d.get_rank()
    metadata = dcp.save(state(m, rank), checkpoint_id=folder)
    found = state(m, rank, zero=True)
    dcp.load(found, checkpoint_id=folder)
    meta = {"model": {"w": m.zeros(3, 2, device="meta")}}
    dcp.load(meta, checkpoint_id=folder)
    return without_files(metadata), found, meta["model"]["w"], sorted(f.name for f in Path(folder).iterdir())


@together
def modules_and_optimizers(m, d):
    dcp, folder = saving(m), shared_folder(d)
    m.manual_seed(3)
    net = m.nn.Linear(3, 2)
    sgd = m.optim.Adam(net.parameters(), lr=0.1)
    net(m.ones(4, 3)).square().sum().backward()
    sgd.step()
    dcp.save({"net": net, "optim": sgd, "epoch": 3}, checkpoint_id=folder)
    other = m.nn.Linear(3, 2)
    again = m.optim.Adam(other.parameters(), lr=0.5)
    other(m.ones(1, 3)).sum().backward()
    again.step()
    held = {"net": other, "optim": again, "epoch": 0}
    dcp.load(held, checkpoint_id=folder)
    rate = again.param_groups[0]["lr"]
    averages = [again.state[p]["exp_avg"] for p in other.parameters()]
    return list(other.parameters()), averages, rate, held["epoch"], held["net"] is other


@together
def all_names(m, d):
    dcp, folder, rank = saving(m), shared_folder(d), d.get_rank()
    dcp.save(state(m, rank), checkpoint_id=folder)
    utils, found = importlib.import_module(dcp.__name__ + ".format_utils"), {}
    reader, planner = dcp.FileSystemReader(folder), utils._EmptyStateDictLoadPlanner()
    utils._load_state_dict(found, storage_reader=reader, planner=planner, no_dist=True)
    d.barrier()
    return found


@together
def wrong_ones(m, d):
    dcp, folder, rank = saving(m), shared_folder(d), d.get_rank()
    dcp.save({"x": m.ones(2), "n": 1}, checkpoint_id=folder)

    def said(fn):
        try:
            fn()
        except BaseException as e:
            causes = getattr(e, "failures", {})
            kinds = {r: [type(c[0]).__name__, str(c[0])] for r, c in causes.items()}
            return [type(e).__name__, kinds or str(e)]
        return None

    shape = m.ones(3) if rank else m.ones(2)  # one rank alone is wrong, and both raise
    found = [said(lambda: dcp.load({"x": shape}, checkpoint_id=folder))]
    found += [said(lambda: dcp.load({"y": m.ones(2)}, checkpoint_id=folder))]
    found += [said(lambda: dcp.load({"x": m.ones(2)}))]
    keep = dcp.FileSystemWriter(folder, overwrite=False)
    found += [said(lambda: dcp.save({"x": m.zeros(2)}, storage_writer=keep))]
    found += [said(lambda: dcp.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=folder + "/new"))]
    x = m.zeros(2)
    partial = {"x": x, "more": 5}
    allowed = importlib.import_module(dcp.__name__ + ".default_planner").DefaultLoadPlanner
    dcp.load(partial, checkpoint_id=folder, planner=allowed(allow_partial_load=True))
    return found, partial, partial["x"] is x


@together
def in_a_thread_while_training_goes_on(m, d):
    dcp, folder = saving(m), shared_folder(d)
    pair = d.new_group([0, 1])
    x = m.ones(3)
    future = dcp.async_save({"x": x, "step": 1}, checkpoint_id=folder, process_group=pair)
    x.add_(1)
    for _ in range(3):
        d.all_reduce(x)
    future.result()
    found = {"x": m.zeros(3), "step": 0}
    dcp.load(found, checkpoint_id=folder)
    return x, found


@together
def replaced(m, d):
    dcp, folder = saving(m), shared_folder(d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(3):
            dcp.save({"x": m.full((2,), float(step)), "y": m.ones(4)}, checkpoint_id=folder)
    found = {"x": m.zeros(2)}
    dcp.load(found, checkpoint_id=folder)
    return found, len(list(Path(folder).glob("*.distcp")))


@together
def some_threads_and_a_planner(m, d):
    dcp, folder = saving(m), shared_folder(d)

    class Renamed(dcp.DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            renamed = {"new " + k: v for k, v in state_dict.items()}
            super().set_up_planner(renamed, storage_meta, is_coordinator)

    class Doubled(dcp.DefaultLoadPlanner):
        def commit_tensor(self, read_item, tensor):
            tensor.mul_(2)

    writer = dcp.FileSystemWriter(folder, single_file_per_rank=False, thread_count=2)
    dcp.save({"x": m.ones(2), "y": m.ones(2, 2)}, storage_writer=writer, planner=Renamed())
    found = {"new x": m.zeros(2), "new y": m.zeros(2, 2)}
    dcp.load(found, storage_reader=dcp.FileSystemReader(folder), planner=Doubled())
    return found, len(list(Path(folder).glob("*.distcp")))


@together
def whole_dictionaries(m, d):
    by_name = importlib.import_module(m.__name__ + ".distributed.checkpoint.state_dict")
    rank = d.get_rank()
    m.manual_seed(rank)
    net = m.nn.Linear(2, 2)
    whole = by_name.StateDictOptions(full_state_dict=True, cpu_offload=True)
    found = by_name.get_model_state_dict(net, options=whole)
    sent = by_name.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    given = dict(found) if rank == 0 else {}
    by_name.set_model_state_dict(net, given, options=sent)
    return sorted(found), net.weight, net.bias


# --- files of the other package -------------------------------------------------------------------

# Written by torch in two processes: DTensors in two parts by rows, by columns, by elements (3 and 2), and whole.
OF_TORCH = HERE / "recorded" / "checkpoint_of_torch"


def test_a_checkpoint_that_torch_has_written_in_parts():
    import torchgrad_jax as torch
    import torchgrad_jax.distributed.checkpoint as dcp

    w = torch.arange(24.0).reshape(4, 6)
    found = {
        "rows": torch.zeros(4, 6),
        "cols": torch.zeros(4, 6),
        "whole": torch.zeros(4, 6),
        "uneven": torch.zeros(5),
        "plain": torch.zeros(3),
        "step": 0,
        "own0": torch.ones(2),
        "own1": torch.zeros(2),
    }
    with pytest.warns(UserWarning, match="assuming the intent is to load in a single process"):
        dcp.load(found, checkpoint_id=OF_TORCH)
    for name in ("rows", "cols", "whole"):
        assert torch.equal(found[name], w), name
    assert torch.equal(found["uneven"], torch.arange(5.0))
    assert [found["plain"].tolist(), found["step"]] == [[1.0] * 3, 7]
    assert [found["own0"].tolist(), found["own1"].tolist()] == [[0.0, 0.0], [1.0, 1.0]]


def test_parts_on_other_numbers_of_devices():
    """A process of its own, with 8 virtual devices."""
    env = environment(XLA_FLAGS="--xla_force_host_platform_device_count=8")
    command = [sys.executable, "-W", "ignore", str(HERE / "checkpoint_of_parts.py"), str(OF_TORCH)]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_one_file_and_back(tmp_path):
    import torchgrad_jax as torch
    from torchgrad_jax.distributed.checkpoint import format_utils

    format_utils.dcp_to_torch_save(OF_TORCH, tmp_path / "one.pt")
    before = torch.load(tmp_path / "one.pt")
    format_utils.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "folder")
    format_utils.dcp_to_torch_save(tmp_path / "folder", tmp_path / "two.pt")
    after = torch.load(tmp_path / "two.pt")
    assert before.keys() == after.keys()
    assert all(torch.equal(torch.as_tensor(v), torch.as_tensor(after[k])) for k, v in before.items())


def test_metadata_of_every_python(monkeypatch):
    """Python 3.11.0 to 3.11.3 pickles members of an enumeration as `getattr` of the class and a name."""
    from torchgrad_jax.distributed.checkpoint import filesystem, metadata

    kind = metadata._MEM_FORMAT_ENCODING
    of_tensor: Any = metadata.TensorProperties()
    here = filesystem.pickled(of_tensor)
    assert b"getattr" not in here
    monkeypatch.setattr(kind, "__reduce_ex__", lambda self, protocol: (getattr, (kind, self.name)))
    there = filesystem.pickled(of_tensor)
    assert b"getattr" in there
    assert filesystem.unpickled(io.BytesIO(here)) == filesystem.unpickled(io.BytesIO(there)) == of_tensor
    monkeypatch.setattr(kind, "__reduce_ex__", lambda self, protocol: (getattr, (metadata.Metadata, "__init__")))
    with pytest.raises(pickle.UnpicklingError, match="damaged"):
        filesystem.unpickled(io.BytesIO(filesystem.pickled(of_tensor)))


@pytest.mark.oracle
def test_torch_reads_the_files(tmp_path):
    torch = pytest.importorskip("torch")
    dcp = importlib.import_module("torch.distributed.checkpoint")
    import torchgrad_jax
    import torchgrad_jax.distributed.checkpoint as own

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own.save(state(torchgrad_jax, 0), checkpoint_id=tmp_path)
        found = state(torch, 0, zero=True)
        dcp.load(found, checkpoint_id=tmp_path)
    assert repr(found) == repr(state(torch, 0))


# --- faults ---------------------------------------------------------------------------------------


def test_killed_in_the_middle_the_previous_checkpoint_is_whole(tmp_path):
    text = """
import os, warnings
import torchgrad_jax as torch, torchgrad_jax.distributed as d, torchgrad_jax.distributed.checkpoint as dcp
warnings.simplefilter("ignore")
d.init_process_group("gloo")
dcp.save({"x": torch.ones(2), "y": torch.ones(3)}, checkpoint_id="folder")
class Deadly(dcp.FileSystemWriter):
    def write_data(self, plan, planner):
        done = super().write_data(plan, planner)
        if d.get_rank() == 1:
            os.kill(os.getpid(), 9)
        return done
dcp.save({"x": torch.zeros(2), "y": torch.zeros(3)}, storage_writer=Deadly("folder"))
"""
    started = start(tmp_path, text)
    errors = started.communicate(timeout=60)[1]
    assert started.returncode == 1
    assert "rank 1 has closed its connection" in errors or "rank      : 1" in errors
    import torchgrad_jax as torch
    import torchgrad_jax.distributed.checkpoint as dcp

    found = {"x": torch.zeros(2), "y": torch.zeros(3)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(found, checkpoint_id=tmp_path / "folder")
        assert [found["x"].tolist(), found["y"].tolist()] == [[1.0] * 2, [1.0] * 3]
        dcp.save({"x": torch.zeros(2)}, checkpoint_id=tmp_path / "folder")
    assert len(list((tmp_path / "folder").glob("*.distcp"))) == 1


def test_a_future_raises_what_went_wrong(tmp_path):
    import torchgrad_jax as torch
    import torchgrad_jax.distributed.checkpoint as dcp

    class Broken(dcp.FileSystemWriter):
        def write_data(self, plan, planner):
            raise OSError("no space")

    future = dcp.async_save({"x": torch.ones(2)}, storage_writer=Broken(tmp_path))
    with pytest.raises(dcp.CheckpointException, match="OSError: no space"):
        future.result()
    kinds = importlib.import_module(dcp.__name__ + ".state_dict_saver").AsyncCheckpointerType
    refused = complaint(lambda: dcp.async_save({}, async_checkpointer_type=kinds.PROCESS))
    assert refused[0] == "NotImplementedError"


class _Harmful:
    def __reduce__(self):
        return print, ("a checkpoint's metadata ran this",)


def test_metadata_that_name_a_function_are_refused(tmp_path, capsys):
    """As by `torch.load`."""
    torch = importlib.import_module("torchgrad_jax")
    dcp = importlib.import_module("torchgrad_jax.distributed.checkpoint")
    with pytest.warns(UserWarning, match="in a single process"):
        dcp.save({"w": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    (tmp_path / ".metadata").write_bytes(pickle.dumps(_Harmful()))
    reader = dcp.FileSystemReader(tmp_path)
    with pytest.raises(pickle.UnpicklingError, match="print was not an allowed global"):
        reader.read_metadata()
    assert not capsys.readouterr().out
