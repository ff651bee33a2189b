"""torch.random: seeds and states of the default generators."""

from __future__ import annotations

from typing import Any

from ._core.random.generator import OWN as _OWN
from ._functions import random as _random

default_generator = _random.default_generator
fork_rng = _random.fork_rng
get_rng_state = _random.get_rng_state
initial_seed = _random.initial_seed
manual_seed = _random.manual_seed
seed = _random.seed
set_rng_state = _random.set_rng_state


def thread_safe_generator() -> _random.Generator | None:
    """The generator of the worker of a `DataLoader` that the caller is, where the worker is a thread; else None.

    None means the default generator, as `generator=` takes it.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.random.thread_safe_generator() is None
        True
    """
    own: Any = _OWN.generator
    return own


__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state", "thread_safe_generator"]
