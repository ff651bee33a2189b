"""torch.distributed.checkpoint: state dictionaries by name; files of several processes are not written here."""

from __future__ import annotations

from typing import Any

from ..._core.errors import no_such_name as _no_such_name


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.checkpoint.{name}"))
