"""What a call leaves behind: written inputs, modules, optimizers, shared memory, random numbers, modes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ._described import describe
from ._paths import walk

_HOOKS = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
"""Those of a module, which work in its next call."""


def _classes(lib: Any) -> list[type]:
    """The classes whose objects are watched; schedulers one by one, since some do not call their base's `__init__`."""
    found = [lib.nn.Module, lib.optim.Optimizer, lib.amp.GradScaler]
    classes = [c for c in vars(lib.optim.lr_scheduler).values() if isinstance(c, type)]
    found += [c for c in classes if issubclass(c, lib.optim.lr_scheduler.LRScheduler)]
    return [c for c in dict.fromkeys(found) if "__init__" in vars(c)]


@contextlib.contextmanager
def objects_made(lib: Any) -> Iterator[list[Any]]:
    """The modules, optimizers, schedulers and scalers that are made meanwhile, in their order."""
    made: list[Any] = []

    def watch(plain_init: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            if not any(m is self for m in made):
                made.append(self)
            plain_init(self, *args, **kwargs)

        return init

    inits = {c: vars(c)["__init__"] for c in _classes(lib)}
    for c, plain_init in inits.items():
        setattr(c, "__init__", watch(plain_init))  # noqa: B010
    try:
        yield made
    finally:
        for c, plain_init in inits.items():
            setattr(c, "__init__", plain_init)  # noqa: B010


@contextlib.contextmanager
def seeded(lib: Any, seed: int) -> Iterator[None]:
    """Random numbers of a seed; afterwards those of before, and the modes of before."""
    # What runs in between may use NumPy's global generator, which only its old interface reaches.
    states = lib.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    modes = lib.is_grad_enabled(), lib.get_default_dtype()
    lib.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        lib.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])
        lib.set_grad_enabled(modes[0])
        lib.set_default_dtype(modes[1])


def surroundings(lib: Any) -> dict[str, Any]:
    """The next random numbers of each generator, and the modes, as a call left them."""
    return {
        "the state of the random generator": describe(lib.get_rng_state(), lib),
        "the next random number of NumPy": float(np.random.random()),  # noqa: NPY002
        "the next random number of Python": random.random(),
        "grad mode": lib.is_grad_enabled(),
        "the default dtype": str(lib.get_default_dtype()),
    }


def memory_owner(t: Any, lib: Any, known: Iterable[tuple[str, Any]]) -> str:
    """The name of the first of the known tensors that is `t` or has its memory; otherwise "its own"."""
    for name, other in known:
        if other is t:
            return f"{name} itself"
        if t.numel() and _has_memory(t) and _has_memory(other) and _memory(t, lib) == _memory(other, lib):
            return f"the memory of {name}, from {t.storage_offset()}"
    return "its own"


def _has_memory(t: Any) -> bool:
    return "strided" in str(t.layout) and not t.is_meta


def _memory(t: Any, lib: Any) -> Any:
    storage = t.untyped_storage()
    return storage._cdata if lib.__name__ == "torch" else storage.data_ptr()


def named_tensors(module: Any) -> list[tuple[str, Any]]:
    """Parameters and buffers of a module."""
    named = [(f"parameter {k!r}", p) for k, p in module.named_parameters()]
    return named + [(f"buffer {k!r}", b) for k, b in module.named_buffers()]


def state_of_module(module: Any, lib: Any) -> dict[str, Any]:
    """All that a program can have changed in a module, by name."""
    found = {k: describe(t, lib) for k, t in named_tensors(module)}
    found["order of the parameters"] = tuple(k for k, _ in module.named_parameters())
    found["keys of the state_dict"] = tuple(sorted(module.state_dict()))
    for path, part in module.named_modules():
        where = f" of {path}" if path else ""
        found[f"training{where}"] = part.training
        found |= {f"number of {k}{where}": len(vars(part)[f"_{k}"]) for k in _HOOKS}
        if not type(part).__module__.startswith(f"{lib.__name__}."):
            found |= {f"{k}{where}": v for k, v in _attributes(part, lib)}
    return found


def _attributes(module: Any, lib: Any) -> Iterator[tuple[str, Any]]:
    """Numbers, texts and tensors among the attributes of a user's module, in containers if need be."""
    for name, value in vars(module).items():
        if name.startswith("_") or name == "training":
            continue
        for path, leaf in walk(value, f"attribute {name!r}"):
            if isinstance(leaf, lib.Tensor | np.ndarray | int | float | complex | str | None):
                yield path, describe(leaf, lib)


def state_of(made: Any, lib: Any) -> dict[str, Any]:
    """Return what an object that has a state says of it."""
    if isinstance(made, lib.nn.Module):
        return state_of_module(made, lib)
    state = made.state_dict()
    return {k: describe(v, lib) for k, v in walk(state, "state_dict")}


def after_call(
    leaves: Mapping[str, Any], inputs: list[Any], objects: Iterable[tuple[str, Any]], lib: Any
) -> dict[str, Any]:
    """The inputs and the objects with a state, as a call left them."""
    found = {k: describe(t, lib) for k, t in leaves.items()}
    for i, x in enumerate(inputs):
        for path, leaf in walk(x, f"input {i}"):
            if leaf is not leaves.get(path):
                found[path] = describe(leaf, lib)
    for prefix, made in objects:
        found |= {prefix + k: v for k, v in state_of(made, lib).items()}
    return found
