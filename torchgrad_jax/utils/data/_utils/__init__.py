"""How batches are put together and by whom."""

from . import collate as collate, worker as worker
