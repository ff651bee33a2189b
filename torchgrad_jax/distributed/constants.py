"""torch.distributed.constants: how long processes wait for each other unless told otherwise."""

from ._groups import default_pg_timeout as default_pg_timeout

__all__ = ["default_pg_timeout"]
