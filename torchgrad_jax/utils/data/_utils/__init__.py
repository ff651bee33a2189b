"""How batches are put together and by whom."""

from . import collate as collate, crew as crew, fetch as fetch, worker as worker
