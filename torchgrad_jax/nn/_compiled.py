"""What `torch.compile` makes of a module: a module around it whose calls are compiled."""

from __future__ import annotations

from typing import Any

from .._bridge import compile as compiling
from .modules.module import Module


class OptimizedModule(Module):
    """A module whose calls run as compiled programs; everything else is the original's.

    Parameters and buffers are shared with the original, which is `_orig_mod` in names and state dictionaries.
    """

    def __init__(self, module: Module, run: compiling.Compiled) -> None:
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        self.__dict__["_compiled"] = run

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The original's call, compiled."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __reduce__(self) -> Any:
        return compiling.compile, (self._orig_mod,)


compiling.of_module = lambda module: OptimizedModule(module, compiling.Compiled(module.__call__))
