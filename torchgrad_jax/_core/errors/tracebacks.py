"""Tracebacks of wrong calls, which end at the line that is wrong."""

from __future__ import annotations

import traceback
from pathlib import Path

import jax
import numpy as np

_OWN = str(Path(__file__).parents[2])
_LIBRARIES = (_OWN, str(Path(jax.__file__).parent), str(Path(np.__file__).parent))
_ON_PURPOSE = (RuntimeError, ValueError, IndexError)
"""What is raised of shapes, dtypes and values. An error of another type may be a mistake of this package."""


def end_at_call(error: Exception) -> None:
    """Take the frames of this package off the traceback of an error that it raises about a call.

    For example, ``torch.ones(3) + torch.ones(4)`` fails ten calls further down, in the trace of `add`. The traceback of
    PyTorch ends at the line with the sum, and so does this one. Nothing is taken off where a function of the program
    ran in between, or where ``JAX_TRACEBACK_FILTERING=off`` asks for all frames, JAX's included.
    """
    if not isinstance(error, _ON_PURPOSE) or jax.config.jax_traceback_filtering == "off" or not _is_ours(error):
        return
    error.__traceback__ = None
    while error.__context__ is not None and _is_look_up(error.__context__):
        error.__context__ = error.__context__.__context__
    if hasattr(error, "__notes__"):  # JAX's remark that it took frames of its own off
        error.__notes__ = [note for note in error.__notes__ if "JAX_TRACEBACK_FILTERING" not in note]


def _is_ours(error: BaseException) -> bool:
    """Return whether this package raised it, and nothing but this package and its libraries ran in between."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(files) and files[-1].startswith(_OWN) and all(file.startswith(_LIBRARIES) for file in files)


def _is_look_up(error: BaseException) -> bool:
    """Return whether an error says that a call is new. JAX may have taken its traceback off."""
    return isinstance(error, KeyError) and (
        _is_ours(error) or (not error.__traceback__ and type(error.args[0]) is tuple)
    )
