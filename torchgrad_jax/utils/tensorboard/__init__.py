"""torch.utils.tensorboard, by the package `tensorboardX`, which writes event files without TensorFlow."""

from ..._core.errors.messages import extra_missing, missing as _missing

try:
    from tensorboardX import RecordWriter as RecordWriter
except ImportError as e:
    raise extra_missing("torch.utils.tensorboard", "tensorboard") from e

from .writer import FileWriter as FileWriter, SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]

__getattr__ = _missing(__name__)
