"""torch.utils.tensorboard: event files for TensorBoard, whose package has to be installed."""

from tensorboard.summary.writer.record_writer import RecordWriter as RecordWriter

from .writer import FileWriter as FileWriter, SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
