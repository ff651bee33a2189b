"""torch.random: seeds and states of the default generators."""

from __future__ import annotations

from ._functions import random as _random

default_generator = _random.default_generator
fork_rng = _random.fork_rng
get_rng_state = _random.get_rng_state
initial_seed = _random.initial_seed
manual_seed = _random.manual_seed
seed = _random.seed
set_rng_state = _random.set_rng_state

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
