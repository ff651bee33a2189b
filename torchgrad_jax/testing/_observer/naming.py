"""Names for modules and parameters: those that the program itself gives them, in its variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

_DEPTH = 60


def own_frames(skip: tuple[str, ...]) -> Iterator[FrameType]:
    """The running frames, innermost first, without those of libraries."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return
        file = frame.f_code.co_filename
        if not file.startswith(skip) and "site-packages" not in file and not file.startswith("<frozen"):
            yield frame
        frame = frame.f_back


def place(skip: tuple[str, ...]) -> str:
    """The file and line of the program that is running."""
    for frame in own_frames(skip):
        return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    return ""


class Names:
    """What modules and parameters are called."""

    def __init__(self, torch: Any, skip: tuple[str, ...]) -> None:
        self.torch, self.skip = torch, skip
        self.modules: dict[int, str] = {}
        self.tensors: dict[int, str] = {}
        self.kept: list[Any] = []
        """What was named stays alive, so that no other object gets its id."""

    def module(self, module: Any) -> str:
        """The name of a module, which is looked for when it is first seen."""
        found = self.modules.get(id(module))
        return self._find_name(module) if found is None else found

    def _find_name(self, module: Any) -> str:
        for name, owner in self._variables():
            if any(m is module for m in owner.modules()):
                self._enter(name, owner)
                return self.modules[id(module)]
        name = type(module).__name__
        taken = set(self.modules.values())
        count = next(i for i in range(1, len(taken) + 2) if _numbered(name, i) not in taken)
        self._enter(_numbered(name, count), module)
        return self.modules[id(module)]

    def _variables(self) -> Iterator[tuple[str, Any]]:
        """Variables of the program that hold modules, outermost first, then attributes of its objects."""
        frames = [*own_frames(self.skip)][::-1]
        for depth in (0, 1):
            for frame in frames:
                for name, value in list(frame.f_locals.items()):
                    yield from self._modules_in(name, value, depth)

    def _modules_in(self, name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if isinstance(value, self.torch.nn.Module):
            if name not in ("self", "module"):
                yield name, value
        elif isinstance(value, list | tuple) and depth:
            for i, v in enumerate(value[:100]):
                yield from self._modules_in(f"{name}[{i}]", v, 0)
        elif depth and type(getattr(value, "__dict__", None)) is dict and not isinstance(value, type):
            for k, v in list(vars(value).items()):
                yield from self._modules_in(k if name == "self" else f"{name}.{k}", v, 0)

    def _enter(self, name: str, owner: Any) -> None:
        """Name a module and everything in it that has no name yet."""
        self.kept.append(owner)
        for path, m in owner.named_modules():
            self.modules.setdefault(id(m), f"{name}.{path}" if path else name)
        for path, p in [*owner.named_parameters(), *owner.named_buffers()]:
            self.tensors.setdefault(id(p), f"{name}.{path}")

    def roots(self) -> list[Any]:
        """The modules under whose names all others stand."""
        found = {id(m): m for m in self.kept if isinstance(m, self.torch.nn.Module)}
        return list(found.values())

    def refresh(self, module: Any) -> None:
        """Name parameters that a module got since it was seen."""
        name = self.module(module)
        known = self.tensors
        if any(id(p) not in known for p in module.parameters()):
            self._enter(name, module)

    def tensor(self, t: Any, otherwise: str) -> str:
        """The name of a tensor: that of a parameter, else that of a variable, else what is given."""
        found = self.tensors.get(id(t))
        if found is None:
            found = next(self._tensor_variables(t), otherwise)
            self.tensors[id(t)] = found
            self.kept.append(t)
        return found

    def _tensor_variables(self, t: Any) -> Iterator[str]:
        for frame in own_frames(self.skip):
            for name, value in list(frame.f_locals.items()):
                if value is t:
                    yield name
                elif isinstance(value, list | tuple):
                    yield from (f"{name}[{i}]" for i, v in enumerate(value[:100]) if v is t)
                elif isinstance(value, dict):
                    yield from (f"{name}[{k!r}]" for k, v in list(value.items())[:100] if v is t)


def _numbered(name: str, count: int) -> str:
    return name if count == 1 else f"{name}#{count}"
