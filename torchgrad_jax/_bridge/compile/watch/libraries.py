"""Libraries: whose code no compiled function depends on, and where some of them keep settings that it does look at."""

from __future__ import annotations

import importlib
import logging
import sys
import types
from collections.abc import Iterator
from typing import Any

_KNOWN_LIBRARIES = ("torchgrad_jax", "torch", "jax", "jaxlib", "numpy", "_pytest", "pluggy")
"""Whose objects no program depends on; those of pytest are reached through an `assert`, which it rewrites."""
_THIS = ("torchgrad_jax", "torch")
"""The names of this package, which has the second one where it runs in torch's place."""
_FLAGS = "backends"
"""The part of it whose modules hold flags; functions look at them as at globals of the user's modules."""
_OF_USERS_DATA = ("distributions", "utils.data")
"""The parts of it whose objects are nothing but what users put into them: parameters of distributions, data sets."""
_LIBRARIES_FOR_JAX = ("flax", "equinox", "optax", "jaxtyping")
"""Whose objects hold parameters and settings, and whose own code depends on nothing else, though it counts objects."""
_CONTAINERS = (
    "_thread", "_weakrefset", "argparse", "collections", "configparser", "contextlib", "dataclasses",
    "multiprocessing.sharedctypes", "queue", "threading", "types", "unittest.mock", "weakref",
)  # fmt: skip
"""Modules of the standard library whose classes are nothing but a place for attributes."""


def is_library(module: str) -> bool:
    """Whether a module belongs to a package whose code depends on nothing that changes."""
    top, _, rest = module.partition(".")
    if top in _THIS and rest.partition(".")[0] == _FLAGS:
        return False
    return top in _KNOWN_LIBRARIES or top in _LIBRARIES_FOR_JAX or top in sys.stdlib_module_names


def is_known_package(module: str) -> bool:
    """Whether a module belongs to a package whose objects no program depends on."""
    return module.partition(".")[0] in _KNOWN_LIBRARIES


def is_known_library(x: Any) -> bool:
    """Whether a function or a class (or the class of an object) belongs to such a package."""
    module = getattr(x, "__module__", None) or ""
    if module == "builtins" and (isinstance(x, types.FunctionType) or _is_class_in_python(x)):
        return False  # `exec` ran the user's code with globals that have no name
    return is_library(module)


def _is_class_in_python(x: Any) -> bool:
    return isinstance(x, type) and bool(x.__flags__ & _MADE_AT_RUN_TIME)


def is_of_library(x: Any) -> bool:
    """Whether something is a function or a class of such a package, and no other object."""
    return hasattr(x, "__name__") and is_known_library(x)


def holds_state(cls: type) -> bool:
    """Whether a class of a library is there to hold what users put into its instances."""
    top, _, rest = cls.__module__.partition(".")
    if top in _THIS:
        return rest.startswith(_OF_USERS_DATA)
    return cls.__module__ in _CONTAINERS or top in _LIBRARIES_FOR_JAX


def is_users_function(fn: Any) -> bool:
    """Whether something is a function in Python from neither this package nor the standard library."""
    if not isinstance(fn, types.FunctionType):
        return False
    module = fn.__globals__.get("__name__") or ""
    return module == "__main__" or not is_library(module)


_MADE_AT_RUN_TIME = 1 << 9
"""The flag of CPython of classes that a `class` statement makes."""


def flags_of(module: types.ModuleType, names: set[str]) -> types.ModuleType | None:
    """The package of flags, where a function names it as part of this one."""
    here = module.__name__ in _THIS and _FLAGS in names
    return importlib.import_module(f"{_THIS[0]}.{_FLAGS}") if here else None


def loggers_in(strings: list[str], name: Any) -> Iterator[logging.Logger]:
    """The loggers that a function may ask for by these texts, or by the name of its module."""
    for text in (*strings, name):
        if isinstance(found := logging.root.manager.loggerDict.get(text), logging.Logger):
            yield found
    yield logging.root


def levels_of(logger: logging.Logger) -> Iterator[tuple[dict[str, Any], str]]:
    """Where the settings are that say what a logger lets through: its own, and those of the loggers above it."""
    above: logging.Logger | None = logger
    while above is not None:
        for key in ("level", "disabled", "parent", "propagate"):
            yield vars(above), key
        above = above.parent
    yield vars(logger.manager), "_disable"
