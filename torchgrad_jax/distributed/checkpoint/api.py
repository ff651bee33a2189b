"""The error of a checkpoint that could not be written or read."""

from __future__ import annotations

import traceback
from typing import Any

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """Something went wrong in some processes, and all of them raise.

    Args:
        msg: what was done.
        failures: by rank, the exception and where it was raised.
    """

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Any]:
        """By rank, the exception and where it was raised."""
        return self._failures

    def __str__(self) -> str:
        said = f"CheckpointException ranks:{self._failures.keys()}\n"
        for rank, (error, where) in self._failures.items():
            said += f"Traceback (most recent call last): (RANK {rank})\n"
            said += "".join(traceback.format_list(where or []))
            said += "".join(traceback.format_exception_only(type(error), error))
        return said
