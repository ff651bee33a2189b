"""Writers of event files."""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from . import summary as _summary
from ._arrays import default_bins


class FileWriter:
    """Writes events to one file.

    Args:
        log_dir: the folder of the file.
        max_queue: how many events wait to be written.
        flush_secs: after how many seconds they are written at the latest.
        filename_suffix: the end of the file's name.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""
    ) -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event, at a step and a time."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a summary, at a step and a time."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and no more."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Write again after `close`, to another file."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes numbers, histograms, pictures and texts for TensorBoard, whose package has to be installed.

    Args:
        log_dir: the folder; by default one of its own below `runs`, by time and name of the machine.
        comment: the end of that folder's name.
        purge_step: from here on, what was written before is to be forgotten.
        max_queue: how many events wait to be written.
        flush_secs: after how many seconds they are written at the latest.
        filename_suffix: the end of the file's name.
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: float = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = (
            max_queue,
            flush_secs,
            filename_suffix,
        )
        self.file_writer: Any = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()
        self.default_bins = default_bins()

    def _get_file_writer(self) -> FileWriter:
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = self._writer(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                step, self.purge_step = self.purge_step, None
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                log = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=step, session_log=log))
        return self.file_writer

    def _writer(self, folder: Any) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _add(self, summary: Any, step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def get_logdir(self) -> Any:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Write a number."""
        made = _summary.scalar(
            tag, scalar_value, new_style=new_style, double_precision=double_precision
        )
        self._add(made, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:  # fmt: skip
        """Write numbers to be shown together, each to a file of its own."""
        when = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        writers = self.all_writers
        assert writers is not None, "self.all_writers is None"
        for tag, value in tag_scalar_dict.items():
            place = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if place not in writers:
                writers[place] = self._writer(place)
            writers[place].add_summary(_summary.scalar(main_tag, value), global_step, when)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow", walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Write a histogram of values; the bins are those of `numpy.histogram`, or TensorFlow's."""
        edges = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(_summary.histogram(tag, values, edges, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: Any, max: Any, num: Any, sum: Any, sum_squares: Any, bucket_limits: Any,
        bucket_counts: Any, global_step: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Write a histogram that the caller made."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = _summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(made, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Write a picture."""
        self._add(_summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Write pictures side by side."""
        self._add(_summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:  # fmt: skip
        """Write a matplotlib figure, or a list of them, as a picture."""
        order = "NCHW" if isinstance(figure, list) else "CHW"
        pixels = _summary.figure_to_image(figure, close)
        self.add_image(tag, pixels, global_step, walltime, dataformats=order)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a text."""
        self._add(_summary.text(tag, text_string), global_step, walltime)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any], hparam_domain_discrete: Any = None,
        run_name: str | None = None, global_step: Any = None,
    ) -> None:  # fmt: skip
        """Write hyperparameters and what came of them, as a run below this one."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        made = _summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as run:
            for part in made:
                run.file_writer.add_summary(part, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("add_"):
            raise NotImplementedError(
                f"SummaryWriter.{name} is not implemented: numbers, histograms, pictures, figures, texts and "
                "hyperparameters are"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def flush(self) -> None:
        """Write what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits; a later call opens another file."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
