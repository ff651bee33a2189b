"""Under the alias, `__module__` of what programs can import names a module of torch.

Programs write `type(x).__module__` into files and import it again, and ask whether it begins with `torch.nn`. The name
is always one that can be imported: that of the same module under `torch`, or, for what a private module defines, of
the public module that shows it. Private modules that nothing of torch's stands for keep their names.
"""

from __future__ import annotations

import importlib.machinery
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from .._core.homes import rename_home

PACKAGE = "torchgrad_jax"
_OWN = frozenset([
    "__main__", "_alias", "_bridge", "_codegen", "_core", "_engine", "_functions", "_library", "_names", "_ops",
    "_settings", "_streams", "pytest_alias", "pytest_compare",
])  # fmt: skip
"""Modules at the top of this package that torch has none like."""


def _torch_name(module: str) -> str | None:
    """The name of a module of this package under `torch`; None for other modules and for private ones."""
    top, *rest = module.split(".")
    if top != PACKAGE or (rest and rest[0] in _OWN):
        return None
    if any(part[0] == "_" for part in rest[1:]) and rest[0] != "_C":  # torch has `torch._C._linalg`
        return None
    return ".".join(["torch", *rest])


def name_contents(own: str, module: ModuleType) -> None:
    """Give the classes and functions that a module of this package shows torch's names of their modules."""
    names, shown = vars(module), _torch_name(own)
    listed = names if "__path__" in names else names.get("__all__", ())
    if shown is not None:
        sys.modules.setdefault(shown, module)  # `inspect` looks there for the file of a class
    else:  # the top of the package shows some of what is in here, once a program asks for it
        inner, shown = own.removeprefix(f"{PACKAGE}."), "torch"
        asked = [name for name, home in sys.modules[PACKAGE]._LAZY.items() if home == inner]
        listed = names = {name: names[name] for name in asked if name in names}
    for name, x in list(names.items()):
        if not isinstance(x, type | FunctionType | BuiltinFunctionType) or not str(x.__module__).startswith(PACKAGE):
            continue
        new = _torch_name(x.__module__)
        if new is None and name == x.__qualname__ and name in listed:
            new = shown
        if new is not None:
            rename_home(x, new)


def name_all() -> None:
    """Do so for all modules that are imported; what several of them show belongs to the one nearest to the top."""
    loaded = [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]
    for name in sorted(loaded, key=lambda name: (name.count("."), name)):
        name_contents(name, sys.modules[name])


class NamingFinder:
    """Does so for modules of this package that are imported later."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _NamingLoader(spec.loader)  # type: ignore[assignment]
        return spec


class LoaderAround:
    """A loader that does more than another one, which it asks for all else."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _NamingLoader(LoaderAround):
    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.__loader__ = module.__spec__.loader = self._loader  # type: ignore[union-attr]
        name_contents(module.__name__, module)
