"""torch.cuda.random: the default generators of GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._core.arrays import devices
from .._engine.memory.tensor import Tensor
from .._functions import random as _random
from ._gpus import gpu as _gpu, gpus as _gpus, index as _index

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def _generator(device: Any = None) -> Any:
    index = _index(device)
    _gpu(index)
    return _random.default_for(devices.device("cuda", index))


def manual_seed(seed: int) -> None:
    """Restart the default generator of the current GPU; without a GPU nothing happens."""
    if bool(_gpus()):
        _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Restart the default generators of all GPUs; without a GPU nothing happens."""
    for i in range(len(_gpus())):
        _generator(i).manual_seed(int(seed))


def seed() -> None:
    """Restart the default generator of the current GPU at an unpredictable seed."""
    if bool(_gpus()):
        _generator().seed()


def seed_all() -> None:
    """Restart the default generators of all GPUs at one unpredictable seed."""
    if bool(_gpus()):
        manual_seed_all(_generator().seed())


def initial_seed() -> int:
    """The seed that the current GPU's default generator started at."""
    return _generator().initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's default generator."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' default generators."""
    return [get_rng_state(i) for i in range(len(_gpus()))]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Restore the state of a GPU's default generator."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore the states of all GPUs' default generators."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
