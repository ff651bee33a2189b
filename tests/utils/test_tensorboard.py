"""torch.utils.tensorboard: what programs write can be read from the files that tensorboardX makes."""

import importlib
import importlib.util
import struct

import numpy as np
import pytest

import torchgrad_jax as torch

NAME = "torchgrad_jax.utils.tensorboard"
INSTALLED = importlib.util.find_spec("tensorboardX") is not None
needed = pytest.mark.skipif(not INSTALLED, reason="needs tensorboardX")


def values(folder):
    """The records of all files of a folder, with their steps."""
    event = importlib.import_module("tensorboardX.proto.event_pb2").Event
    found = []
    for path in sorted(folder.glob("events*")):
        raw, at = path.read_bytes(), 0
        while at < len(raw):
            (n,) = struct.unpack_from("<Q", raw, at)
            read = event.FromString(raw[at + 12 : at + 12 + n])
            at += n + 16
            found += [(read.step, value) for value in read.summary.value]
    return found


def test_without_the_package_the_error_names_what_to_install():
    if INSTALLED:
        assert importlib.import_module(NAME).SummaryWriter
    else:
        with pytest.raises(ImportError, match=r"torchgrad-jax\[tensorboard\]"):
            importlib.import_module(NAME)


@needed
def test_numbers(tmp_path):
    with importlib.import_module(NAME).SummaryWriter(tmp_path) as w:
        assert w.log_dir == w.get_logdir() == tmp_path
        w.add_scalar("a", torch.tensor(1.5, requires_grad=True), 1, walltime=5.0)
        w.add_scalar("a", np.float32(2), torch.tensor(2))
        w.add_scalar("a", torch.tensor([[1.5]], dtype=torch.bfloat16), global_step=3)
        w.add_scalars("m", {"p": 1, "q": torch.tensor(2.0)}, 4)
        with pytest.raises(NotImplementedError, match="double_precision"):
            w.add_scalar("a", 0.1, 4, double_precision=True)
    assert [(step, v.tag, v.simple_value) for step, v in values(tmp_path)] == [
        (1, "a", 1.5),
        (2, "a", 2.0),
        (3, "a", 1.5),
    ]
    assert [v.simple_value for _, v in values(tmp_path / "m" / "q")] == [2.0]


@needed
def test_what_is_written_after_closing_goes_to_a_new_file(tmp_path):
    w = importlib.import_module(NAME).SummaryWriter(str(tmp_path))
    w.close()
    w.add_text("t", "é", 1)
    w.close()
    ((step, value),) = values(tmp_path)
    assert (step, value.tag, value.tensor.string_val) == (1, "t/text_summary", ["é".encode()])


@needed
def test_histograms_of_tensors(tmp_path):
    with importlib.import_module(NAME).SummaryWriter(tmp_path) as w:
        w.add_histogram("h", torch.tensor([0.0, 0.5, 3.0]), 1, bins=6)
        w.add_histogram("h", values=torch.ones(3, dtype=torch.bfloat16), global_step=2)
    (_, first), (_, second) = values(tmp_path)
    assert (first.histo.num, first.histo.max, first.histo.sum) == (3, 3, 3.5)
    assert (sum(first.histo.bucket), sum(second.histo.bucket)) == (3, 3)


@needed
def test_hyperparameters(tmp_path):
    with importlib.import_module(NAME).SummaryWriter(tmp_path) as w:
        w.add_hparams({"lr": torch.tensor([0.5]), "kind": "a"}, {"m": torch.tensor(2.0)}, run_name="r")
        with pytest.raises(NotImplementedError, match="hparam_domain_discrete"):
            w.add_hparams({"lr": 0.5}, {}, {"lr": [0.5]})
    start = importlib.import_module("tensorboardX.proto.plugin_hparams_pb2").HParamsPluginData
    found = {v.tag: v for _, v in values(tmp_path / "r")}
    data = found["_hparams_/session_start_info"].metadata.plugin_data.content
    given = start.FromString(data).session_start_info.hparams
    assert (given["lr"].number_value, given["kind"].string_value) == (0.5, "a")
    assert found["m"].simple_value == 2.0


@needed
def test_what_would_need_torch_is_refused(tmp_path):
    with importlib.import_module(NAME).SummaryWriter(tmp_path) as w:
        for name in ("add_graph", "add_embedding"):
            with pytest.raises(NotImplementedError, match=f"{name} is not implemented"):
                getattr(w, name)(None)
