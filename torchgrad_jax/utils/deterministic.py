"""torch.utils.deterministic: a setting that goes with `use_deterministic_algorithms`."""

from __future__ import annotations

fill_uninitialized_memory = True
"""Whether new memory is filled: always, since XLA has no uninitialised memory."""
