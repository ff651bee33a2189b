"""How batches are put together and by whom.

Begin with `fetch.py`, what becomes of an index; then `worker.py`, what a worker does with the indices that it gets,
and `crew.py`, where workers are: in processes, or in threads where the dataset cannot be sent to a process. The names
that begin with an underscore are PyTorch's, for packages with loaders of their own (torchdata).
"""

from __future__ import annotations

import atexit
import sys

from ...._core.errors.remote_errors import ExceptionWrapper as ExceptionWrapper

IS_WINDOWS = sys.platform == "win32"
HAS_NUMPY = True
python_exit_status = False
"""Whether the program is ending."""


def _set_python_exit_flag() -> None:
    global python_exit_status
    python_exit_status = True


atexit.register(_set_python_exit_flag)

from . import (  # noqa: E402 - they import the names above
    collate as collate,
    crew as crew,
    fetch as fetch,
    pin_memory as pin_memory,
    signal_handling as signal_handling,
    worker as worker,
)
from .signal_handling import MP_STATUS_CHECK_INTERVAL as MP_STATUS_CHECK_INTERVAL  # noqa: E402
