"""Modules that hold other modules, or parameters, in order or by name."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, TypeVar

from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor
from ..._functions.misc import typename
from ..parameter import Parameter
from .module import Module, _addindent

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

S = TypeVar("S", bound="Sequential")
L = TypeVar("L", bound="ModuleList")


class Container(Module):
    """A module with submodules given as keyword arguments; deprecated."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warn.to_user(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
        )
        for key, value in kwargs.items():
            self.add_module(key, value)


def _renumber(module: Module, kept: Iterable[Module]) -> None:
    """Make these the submodules, under the names "0", "1", ..."""
    module._modules = {str(i): m for i, m in enumerate(kept)}


def _place(idx: Any, size: int) -> int:
    """An index as one from 0 on."""
    idx = operator.index(idx)
    if not -size <= idx < size:
        raise IndexError(f"index {idx} is out of range")
    return idx + size if idx < 0 else idx


def _without_digits(names: list[str]) -> list[str]:
    return [n for n in names if not n.isdigit()]


# --- modules in order -----------------------------------------------------------------------------


class Sequential(Module):
    """Modules of which each gets the result of the one before.

    Args:
        args: the modules, or one `OrderedDict` of them by name.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU())
        Sequential(
          (0): Flatten(start_dim=1, end_dim=-1)
          (1): ReLU()
        )
    """

    _modules: dict[str, Module]

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named: Any = args[0].items()
        else:
            named = ((str(i), m) for i, m in enumerate(args))
        for key, module in named:
            self.add_module(key, module)

    def _key(self, idx: Any) -> str:
        return next(islice(self._modules, _place(idx, len(self)), None))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx: Any) -> None:
        if isinstance(idx, slice):
            for key in list(self._modules)[idx]:
                delattr(self, key)
        else:
            delattr(self, self._key(idx))
        _renumber(self, self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return _without_digits(super().__dir__())

    def _require_same(self, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")

    def __add__(self, other: Any) -> Sequential:
        self._require_same(other)
        return Sequential(*self, *other)

    def __iadd__(self: S, other: Any) -> S:
        self._require_same(other)
        return self.extend(list(other))

    def _check_factor(self, other: Any) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return Sequential(*(list(self) * other))

    def __rmul__(self, other: int) -> Sequential:
        return self * other

    def __imul__(self: S, other: int) -> S:
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))

    def pop(self, key: Any) -> Module:
        """Take out a module, or a slice of them, and return it.

        Args:
            key: where it is.
        """
        found = self[key]
        del self[key]
        return found

    def append(self: S, module: Module) -> S:
        """Add a module at the end.

        Args:
            module: the module.
        """
        self.add_module(str(len(self)), module)
        return self

    def insert(self: S, index: int, module: Module) -> S:
        """Add a module before the one at an index.

        Args:
            index: the index.
            module: the module.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        held = list(self._modules.values())
        held.insert(index, module)
        _renumber(self, held)
        return self

    def extend(self: S, sequential: Iterable[Module]) -> S:
        """Add several modules at the end.

        Args:
            sequential: the modules.
        """
        for module in sequential:
            self.append(module)
        return self

    def forward(self, input: Any) -> Any:
        """Run the modules one after the other."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(Module):
    """A list of modules, all of them registered.

    Args:
        modules: the modules to begin with.
    """

    _modules: dict[str, Module]

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _get_abs_string_index(self, idx: Any) -> str:
        return str(_place(idx, len(self)))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._get_abs_string_index(idx), module)

    def __delitem__(self, idx: Any) -> None:
        if isinstance(idx, slice):
            for i in range(len(self._modules))[idx]:
                delattr(self, str(i))
        else:
            delattr(self, self._get_abs_string_index(idx))
        _renumber(self, self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __iadd__(self: L, modules: Iterable[Module]) -> L:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __dir__(self) -> list[str]:
        return _without_digits(super().__dir__())

    def __repr__(self) -> str:
        """As of any module, equal neighbours written once."""
        texts = [repr(m) for m in self]
        if not texts:
            return f"{self._get_name()}()"
        lines = []
        start = 0
        for i in range(1, len(texts) + 1):
            if i < len(texts) and texts[i] == texts[start]:
                continue
            count = i - start
            shown = f"({start})" if count == 1 else f"({start}-{i - 1})"
            times = "" if count == 1 else f"{count} x "
            lines.append(f"{shown}: {times}{_addindent(texts[start], 2)}")
            start = i
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def insert(self, index: int, module: Module) -> None:
        """Add a module before the one at an index.

        Args:
            index: the index.
            module: the module.
        """
        for i in range(len(self), index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module

    def append(self: L, module: Module) -> L:
        """Add a module at the end.

        Args:
            module: the module.
        """
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Module:
        """Take out a module, or a slice of them, and return it.

        Args:
            key: where it is.
        """
        found = self[key]
        del self[key]
        return found

    def extend(self: L, modules: Iterable[Module]) -> L:
        """Add several modules at the end.

        Args:
            modules: the modules.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        offset = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(offset + i), module)
        return self


# --- modules by name ------------------------------------------------------------------------------


def _pairs(given: Any, kind: str, element: str) -> Iterator[tuple[Any, Any]]:
    """Key and value of each element of an iterable of pairs."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{kind}.update should be called with an iterable of key/value pairs, but got {type(given).__name__}"
        )
    for i, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{element} update sequence element #{i} should be Iterable; is{type(pair).__name__}")
        key_and_value: Any = pair
        if len(key_and_value) != 2:
            raise ValueError(f"{element} update sequence element #{i} has length {len(key_and_value)}; 2 is required")
        yield key_and_value[0], key_and_value[1]


class ModuleDict(Module):
    """A dictionary of modules, all of them registered.

    Args:
        modules: a mapping, or an iterable of pairs, to begin with.
    """

    _modules: dict[str, Module]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take out all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take out a module and return it.

        Args:
            key: its name.
        """
        found = self[key]
        del self[key]
        return found

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """The names with their modules."""
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules, in the place of those that have the same names.

        Args:
            modules: a mapping, or an iterable of pairs.
        """
        if isinstance(modules, OrderedDict | ModuleDict | Mapping):
            pairs: Any = modules.items()
        else:
            pairs = _pairs(modules, "ModuleDict", "ModuleDict")
        for key, module in pairs:
            self[key] = module


# --- parameters -----------------------------------------------------------------------------------


def _as_parameter(value: Any) -> Any:
    """A tensor becomes a parameter; anything else stays what it is."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _line(key: str, value: Any, by_dtype: bool) -> str:
    """Return what the repr says about one entry, its type as a dtype or as the name of a tensor type."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(n) for n in value.size())
    shown = value.dtype if by_dtype else typename(value)
    where = f" ({value.device})" if value.is_cuda else ""
    return f"  ({key}): {kind} containing: [{shown} of size {size}{where}]"


class ParameterList(Module):
    """A list whose tensors are registered as parameters.

    Args:
        values: what to begin with.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _get_abs_string_index(self, idx: Any) -> str:
        return str(_place(idx, len(self)))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            out = type(self)()
            for i in range(*idx.indices(len(self))):
                out.append(self[i])
            return out
        return getattr(self, self._get_abs_string_index(idx))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, self._get_abs_string_index(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return _without_digits(super().__dir__())

    def append(self, value: Any) -> ParameterList:
        """Add something at the end.

        Args:
            value: a tensor, which becomes a parameter, or anything else.
        """
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several things at the end.

        Args:
            values: what to add.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line for each entry."""
        return "\n".join(_line(str(i), value, True) for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary whose tensors are registered as parameters.

    Args:
        parameters: a mapping, or an iterable of pairs, to begin with.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        # Not before the attribute is known to be free: that may raise.
        name = self._key_to_attr(key)
        self._keys[key] = None
        setattr(self, name, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another dictionary of the same values."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, which becomes `default` if there is none.

        Args:
            key: the key.
            default: the value to put there.
        """
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take out everything."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take out a value and return it.

        Args:
            key: its key.
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take out the last key and return it with its value."""
        key, _ = self._keys.popitem()
        value = self[key]
        self._keys[key] = None
        del self[key]
        return key, value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`.

        Args:
            key: the key.
            default: what is returned where there is none.
        """
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with these keys.

        Args:
            keys: the keys.
            default: the value of all of them.
        """
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> Any:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Any:
        """The keys with their values."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Any:
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Add values, in the place of those that have the same keys.

        Args:
            parameters: a mapping, or an iterable of pairs.
        """
        if isinstance(parameters, OrderedDict | ParameterDict):
            pairs: Any = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = _pairs(parameters, "ParametersDict", "ParameterDict")
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        """One line for each entry."""
        return "\n".join(_line(key, value, False) for key, value in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        out = other.copy()
        out.update(self)
        return out

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self
