"""torch.utils.tensorboard: what is written, as torch 2.13 writes it.

TensorBoard's own package is no part of what tests install: its messages are played by a recording one here.
"""

import importlib
import importlib.util
import sys
import types

import numpy as np
import pytest

import torchgrad_jax as torch

NAME = "torchgrad_jax.utils.tensorboard"
PARTS = {
    "tensorboard": (),
    "tensorboard.compat": (),
    "tensorboard.compat.proto": (),
    "tensorboard.compat.proto.summary_pb2": ("HistogramProto", "Summary", "SummaryMetadata"),
    "tensorboard.compat.proto.tensor_pb2": ("TensorProto",),
    "tensorboard.compat.proto.tensor_shape_pb2": ("TensorShapeProto",),
    "tensorboard.compat.proto.event_pb2": ("Event", "SessionLog"),
    "tensorboard.plugins": (),
    "tensorboard.plugins.hparams": ("api_pb2", "metadata", "plugin_data_pb2"),
    "tensorboard.plugins.text": (),
    "tensorboard.plugins.text.plugin_data_pb2": ("TextPluginData",),
    "tensorboard.summary": (),
    "tensorboard.summary.writer": (),
    "tensorboard.summary.writer.event_file_writer": ("EventFileWriter",),
    "tensorboard.summary.writer.record_writer": ("RecordWriter",),
}


class Message:
    """Keeps the fields that it is made with."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def SerializeToString(self):
        return repr(sorted(self.__dict__)).encode()


class Summary(Message):
    Value = type("Value", (Message,), {})
    Image = type("Image", (Message,), {})


class Recorder:
    """In place of the writer of files."""

    files: dict = {}

    def __init__(self, folder, *_):
        self.folder = folder
        self.files.setdefault(folder, [])

    def get_logdir(self):
        return self.folder

    def add_event(self, event):
        self.files[self.folder].append(event)

    def flush(self):
        pass

    close = reopen = flush


@pytest.fixture
def tensorboard(monkeypatch):
    """The module on top of recording messages, and the events by folder."""
    for name, members in PARTS.items():
        module = types.ModuleType(name)
        module.__path__ = []
        for member in members:
            cls = type(member, (Message,), {"Dim": Message, "PluginData": Message, "START": 1})
            setattr(module, member, {"Summary": Summary, "EventFileWriter": Recorder}.get(member, cls))  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    for name in [n for n in sys.modules if n.startswith(NAME)]:
        monkeypatch.delitem(sys.modules, name)
    Recorder.files = {}
    module = importlib.import_module(NAME)
    yield module
    for name in [n for n in sys.modules if n.startswith(NAME)]:
        del sys.modules[name]
    vars(torch.utils).pop("tensorboard", None)


def values(folder):
    """The summaries of a folder, with their steps."""
    events = [e for e in Recorder.files[folder] if hasattr(e, "summary")]
    return [(getattr(e, "step", 0), e.summary.value[0]) for e in events]


def test_it_needs_the_package():
    if importlib.util.find_spec("tensorboard") is None:
        with pytest.raises(ModuleNotFoundError, match="No module named 'tensorboard'"):
            importlib.import_module(NAME)
    else:
        assert importlib.import_module(NAME).SummaryWriter


def test_numbers(tensorboard):
    with tensorboard.SummaryWriter("run", purge_step=3) as w:
        w.add_scalar("a", torch.tensor(1.5, requires_grad=True), 1, walltime=5.0)
        w.add_scalar("a", np.float32(2), torch.tensor(2))
        w.add_scalar("a", torch.tensor([[1.5]], dtype=torch.bfloat16), 3)
        w.add_scalar("a", 0.1, 4, new_style=True, double_precision=True)
        w.add_scalars("m/x", {"p": 1, "q": torch.tensor(2.0)}, 4)
        with pytest.raises(AssertionError, match="Tensor should contain one element"):
            w.add_scalar("a", torch.ones(2))
        with pytest.raises(NotImplementedError, match="Got <class 'list'>, but numpy array or torch"):  # fmt: skip
            w.add_scalar("a", [1])
    first = [(step, v.tag, v.simple_value) for step, v in values("run")[:3]]
    assert first == [(1, "a", 1.5), (2, "a", 2.0), (3, "a", 1.5)]
    assert values("run")[3][1].tensor.double_val == [0.1]
    assert [(k, v[0].summary.value[0].simple_value) for k, v in Recorder.files.items() if k != "run"] == [
        ("run/m_x_p", 1.0), ("run/m_x_q", 2.0)
    ]  # fmt: skip
    assert [e.step for e in Recorder.files["run"][:2]] == [3, 3]
    assert Recorder.files["run"][2].wall_time == 5.0


def test_what_is_written_after_closing_goes_to_a_new_file(tensorboard):
    w = tensorboard.SummaryWriter("run")
    w.close()
    w.close()
    w.add_text("t", "é", 1)
    assert values("run")[0][1].tag == "t/text_summary"
    assert values("run")[0][1].tensor.string_val == ["é".encode()]


def test_what_there_is_not_raises(tensorboard):
    w = tensorboard.SummaryWriter("run")
    with pytest.raises(NotImplementedError, match="add_graph is not implemented"):
        w.add_graph(None)
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = w.other
    with pytest.raises(ValueError, match=r"len\(bucket_limits\) != len\(bucket_counts\)"):
        w.add_histogram_raw("r", 0, 1, 3, 2.0, 3.0, [1.0, 2.0], [1])
    with pytest.raises(TypeError, match="hparam_dict and metric_dict should be dictionary"):
        w.add_hparams([], {})


@pytest.mark.parametrize(
    ("data", "bins", "most", "limits", "counts"),
    [
        ([0.0, 0.0], [-1.0, 0.0, 1.0], None, [0.0, 1.0], [0, 2]),
        ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 5], None, [0, 1, 2, 5], [0, 1, 1, 4]),
        ([0.0, 0.5, 3.0], 6, None, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0], [0, 1, 1, 0, 0, 0, 1]),
        ([0.0, 0.5, 3.0], 6, 2, [0.0, 1.5, 3.0], [0, 2, 1]),
        ([0.0, 0.0], [1.0, 2.0], None, [2.0], [0]),
    ],
    ids=["within", "edges", "number", "joined", "none"],
)
def test_histograms(tensorboard, data, bins, most, limits, counts):
    w = tensorboard.SummaryWriter("run")
    w.add_histogram("h", torch.tensor(data), 1, bins=bins, max_bins=most)
    made = values("run")[0][1].histo
    assert made.bucket_limit == limits
    assert made.bucket == counts
    assert (made.num, made.min, made.sum) == (len(data), min(data), sum(data))
    assert made.sum_squares == sum(v * v for v in data)


def test_default_bins_and_histograms_without_values(tensorboard):
    w = tensorboard.SummaryWriter("run")
    assert len(w.default_bins) == 1549
    w.add_histogram("h", torch.tensor([1.0, 1.0, 2.0]))
    made = values("run")[0][1].histo
    np.testing.assert_allclose(
        made.bucket_limit[:2], [0.917246389039776, 1.0089710279437536], rtol=1e-7
    )
    assert sum(made.bucket) == 3
    with pytest.raises(ValueError, match="The input has no element"):
        w.add_histogram("h", torch.zeros(0))
    with pytest.raises(ValueError, match="The histogram is empty"):
        w.add_histogram("h", torch.zeros(2), bins=[1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("shape", "order", "size"),
    [
        ((3, 2, 5), "CHW", (2, 5, 3)),
        ((2, 5, 1), "HWC", (2, 5, 3)),
        ((2, 5), "HW", (2, 5, 3)),
        ((5, 2, 4), "WHC", (2, 5, 4)),
        ((11, 3, 2, 3), "NCHW", (4, 24, 3)),
        ((2, 2, 3, 1), "NHWC", (2, 6, 3)),
    ],
)  # fmt: skip
def test_pictures(tensorboard, shape, order, size):
    arrays = importlib.import_module(NAME + "._arrays")
    x = torch.linspace(-0.2, 1.2, int(np.prod(shape))).reshape(shape)
    found = arrays.picture(x, order)
    assert found.shape == size
    assert found.dtype == np.uint8
    assert (found.min(), found.max()) == (0, 255)
    first = x.numpy()[(0,) * len(shape)]
    assert found[0, 0, 0] == int(max(first, 0) * 255)
    whole = torch.full(shape, 7, dtype=torch.uint8)
    assert arrays.picture(whole, order)[0, 0, 0] == 7
    with pytest.raises(AssertionError, match="same dimension shorthand twice"):
        arrays.picture(x, "CC")
    with pytest.raises(AssertionError, match="size of input tensor and input format are different"):
        arrays.picture(x, "C")
