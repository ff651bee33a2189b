"""torch.distributed.fsdp.api: what FSDP may be told, under its older name."""

from __future__ import annotations

from ._policies import *  # noqa: F403 - the classes of that module
