"""What a checkpoint names, found by running its pickle without making anything but containers."""

from __future__ import annotations

from typing import Any

from .._functions.typed_storage import STORAGES
from ._pickles import Machine, Refused
from ._unpickler import PLAIN, full_name, special


class _StandIn:
    """Stands for a global of a pickle, or for what a call in it would give."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


class Survey(Machine):
    """Notes the globals of a pickle and the storages in it.

    Every instruction runs on a stack as in a real reader, so that a name is what the reader would see. What cannot be
    known without running code, such as a name that a function would return, is refused.
    """

    def __init__(self, file: Any, bounded: bool = True) -> None:
        super().__init__(file, bounded)
        self.names: dict[str, None] = {}
        self.item_sizes: dict[str, int] = {}

    def find(self, module: str, name: str) -> Any:
        full = full_name(module, name)
        self.names[full] = None
        return _StandIn(full)

    def call(self, func: Any, args: Any) -> Any:
        if type(func) is not _StandIn:
            raise Refused(f"an object of {type(func).__name__} cannot be called")
        return _StandIn()

    def new(self, cls: Any, args: Any) -> Any:
        return self.call(cls, args)

    def build(self, obj: Any, state: Any) -> None:
        if type(obj) is not _StandIn:
            raise Refused(f"an object of {type(obj).__name__} has no state")

    def takes(self, target: Any, kinds: tuple[type, ...]) -> bool:
        return type(target) is not _StandIn and super().takes(target, kinds)

    def other(self, name: str) -> None:
        pass

    def persistent(self, pid: Any) -> Any:
        parts = pid if isinstance(pid, tuple) and len(pid) > 2 else (None, None, None)
        kind, key = parts[1], parts[2]
        if type(kind) is _StandIn and type(key) is str:
            dtype = STORAGES.get(kind.name.rpartition(".")[2])
            if dtype is not None:
                self.item_sizes[key] = dtype.itemsize
        return _StandIn()


def unsafe_names(file: Any, allowed: dict[str, Any], tensors: Any) -> list[str]:
    """Names of a pickle that `load(weights_only=True)` would refuse.

    Args:
        file: the pickle.
        allowed: what `add_safe_globals` allowed, by full name.
        tensors: what tensors of a checkpoint are made with.
    """
    survey = Survey(file)
    survey.load()
    return [n for n in survey.names if n not in allowed and n not in PLAIN and special(n, tensors) is None]
