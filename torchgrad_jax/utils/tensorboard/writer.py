"""torch.utils.tensorboard.writer: the writer of `tensorboardX`, with tensors where it takes arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorboardX
from tensorboardX.writer import FileWriter as FileWriter

from ..._core.arrays import dtypes, tree
from ..._engine.memory.tensor import Tensor


def _array(x: Any) -> Any:
    """The values of a tensor, in a dtype that NumPy knows; anything else as it is."""
    if not isinstance(x, Tensor):
        return x
    known: Any = x.float() if x.dtype is dtypes.bfloat16 else x
    return known.detach().cpu().numpy()


def _with_tensors(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the writer that also takes tensors."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree.map_leaves(_array, (args, kwargs))
        return method(self, *args, **kwargs)

    return call


class SummaryWriter(tensorboardX.SummaryWriter):
    """Writes what TensorBoard shows to event files in a folder.

    Args:
        log_dir: the folder; `runs/` and the time by default.
        comment: goes behind the name of a folder that was made up.
        purge_step: events of this step and later ones, written before, are not shown.
        max_queue: events that wait before they are written.
        flush_secs: seconds after which they are written.
        filename_suffix: ends the names of files.

    Differs from torch: `add_scalar` has one style of records, with numbers of single precision; `add_hparams` takes
    no domains.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        super().__init__(log_dir, comment, purge_step, max_queue, flush_secs, filename_suffix)

    @property
    def log_dir(self) -> Any:
        """The folder."""
        return self.logdir

    def get_logdir(self) -> Any:
        """The folder."""
        return self.logdir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number."""
        if new_style or double_precision:
            raise NotImplementedError(
                "SummaryWriter.add_scalar: new_style=True and double_precision=True are not implemented"
            )
        super().add_scalar(tag, scalar_value, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Write hyperparameters and what came of them, as a run below this one."""
        if hparam_domain_discrete is not None:
            raise NotImplementedError("SummaryWriter.add_hparams: hparam_domain_discrete is not implemented")
        if type(hparam_dict) is dict:
            hparam_dict = {k: _number(v) for k, v in hparam_dict.items()}
        super().add_hparams(hparam_dict, metric_dict, run_name, global_step)


def _number(x: Any) -> Any:
    """The number in an array of one element; anything else as it is."""
    return x.item() if isinstance(x, np.ndarray) and x.size == 1 else x


def _refusal(name: str) -> Callable[..., Any]:
    """A method for which tensorboardX would import torch."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"SummaryWriter.{name} is not implemented")

    return refuse


for _name in [n for n in dir(SummaryWriter) if n.startswith("add_")]:
    if _name in ("add_graph", "add_embedding", "add_onnx_graph", "add_openvino_graph"):
        setattr(SummaryWriter, _name, _refusal(_name))
    else:
        setattr(SummaryWriter, _name, _with_tensors(getattr(SummaryWriter, _name)))
