"""What `torch.compile` makes of a module: a module around it whose calls are compiled."""

from __future__ import annotations

from typing import Any

from .._bridge.compile import compile as compiling
from .modules.module import Module

_OWN = frozenset({"_orig_mod", "_compiled", "__class__", *vars(Module())}) - {"training"}
"""What belongs to the module around, such as the class that `fully_shard` gives it; all else is the original's."""


class OptimizedModule(Module):
    """A module whose calls run as compiled programs; everything else is the original's.

    Parameters and buffers are shared with the original, which is `_orig_mod` in names and state dictionaries.
    Attributes are read, set and deleted there.
    """

    def __init__(self, module: Module, run: compiling.Compiled) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__.pop("training", None)
        self.__dict__["_compiled"] = run

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The original's call, compiled."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def many(self, *args: Any, **kwargs: Any) -> Any:
        """Calls with the rows of these tensors, in one program where they can be."""
        return self.__dict__["_compiled"].many(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The program for these arguments, to be looked at."""
        return self.__dict__["_compiled"].lower(*args, **kwargs)

    def explain(self) -> None:
        """Print what the programs read, write, keep and check."""
        self.__dict__["_compiled"].explain()

    @property
    def training(self) -> bool:
        """Whether the original is in training mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        if "_orig_mod" in self.__dict__.get("_modules", ()):
            self._orig_mod.training = mode

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        if name in ("counts", "reasons") and not hasattr(self._orig_mod, name):
            return getattr(self.__dict__["_compiled"], name)
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
        elif name == "training":
            object.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __reduce__(self) -> Any:
        return compiling.compile, (self._orig_mod,)


def _of_module(module: Module, settings: dict[str, Any]) -> OptimizedModule:
    return OptimizedModule(module, compiling.of_function(module.__call__, settings))


compiling.of_module = _of_module
