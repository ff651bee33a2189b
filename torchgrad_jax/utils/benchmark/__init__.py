"""torch.utils.benchmark: how long statements take, told with how sure one can be of it."""

from __future__ import annotations

from typing import Any

from ..._core.errors.messages import no_such_name as _no_such_name
from .utils.common import (
    Measurement as Measurement,
    TaskSpec as TaskSpec,
    ordered_unique as ordered_unique,
    select_unit as select_unit,
    set_torch_threads as set_torch_threads,
    trim_sigfig as trim_sigfig,
    unit_to_english as unit_to_english,
)
from .utils.compare import Colorize as Colorize, Compare as Compare, Table as Table
from .utils.timer import Language as Language, Timer as Timer, timer as timer


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.utils.benchmark.{name}"))
