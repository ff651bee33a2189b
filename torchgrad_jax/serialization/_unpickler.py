"""Two ways to read a pickle of torch's: one that can make nothing but data, one that trusts the file.

The safe one is Python's own unpickler in Python, with every way to a callable closed but those named
here: a global has to be on the list, and what it may be called with is looked at.
"""

from __future__ import annotations

import importlib
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from .._core import devices, dtypes, formats
from .._core.shapes import Size
from .._engine.attributes import strided_layout
from .._engine.tensor import Tensor
from ..nn.parameter import Buffer, Parameter
from ._names import DTYPES, STORAGES
from ._tensors import Tensors

_PACKAGE = "torchgrad_jax"
_MAX_DEPTH = 32


class Refused(pickle.UnpicklingError):
    """The pickle asks for something that is no data."""


class UntypedStorage:
    """Stands for torch's class in persistent identifiers."""


def _size(values: Any) -> Size:
    return Size([_integer(v) for v in values])


def _integer(v: Any) -> int:
    if type(v) is not int:
        raise Refused(f"an integer was expected, not {type(v).__name__}")
    return v


def _device(kind: Any, index: Any = None) -> Any:
    if type(kind) is not str or (index is not None and type(index) is not int):
        raise Refused("torch.device: not a name and a number")
    return devices.device(kind) if index is None else devices.device(kind, index)


def _layout(name: Any) -> Any:
    short = str(name).removeprefix("torch.")
    found = strided_layout if short == "strided" else formats.MEMORY_FORMATS.get(short)
    if found is None:
        raise Refused(f"unknown layout {str(name)[:40]!r}")
    return found


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise Refused("_codecs.encode is allowed for latin1 only")
    return text.encode("latin1")


def _bytearray(*args: Any) -> bytearray:
    if not args:
        return bytearray()
    if len(args) == 1 and type(args[0]) is bytes:
        return bytearray(args[0])
    if len(args) == 2 and type(args[0]) is str:
        return bytearray(_encode(*args))
    raise Refused("bytearray is allowed for given bytes only")


def _items(values: Any = ()) -> Any:
    if type(values) not in (list, tuple, dict, set):
        raise Refused(f"{type(values).__name__} is no list of items")
    if type(values) in (list, tuple):
        for v in values:
            _check_key(v)
    return values


def _complex(real: Any, imag: Any = 0.0) -> complex:
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise Refused("complex is allowed for two numbers only")
    return complex(real, imag)


def _ordered(values: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict(_pairs(values))


def _pairs(values: Any) -> Any:
    if type(values) in (dict, OrderedDict):
        return values
    for pair in _items(values):
        if type(pair) not in (list, tuple) or len(pair) != 2:
            raise Refused("OrderedDict is made of pairs")
        _check_key(pair[0])
    return values


def _counter(values: Any = ()) -> Counter[Any]:
    if type(values) is not dict:
        raise Refused("Counter is allowed for a dict only")
    return Counter(values)


def _check_key(key: Any) -> None:
    """Hashing a deeply nested tuple would overrun the interpreter's stack."""
    level, depth = [key], 0
    while level:
        if depth > _MAX_DEPTH:
            raise Refused("keys are nested too deeply")
        level = [x for k in level if isinstance(k, tuple) for x in k]
        if len(level) > 10_000:
            raise Refused("a key is too long")
        depth += 1


PLAIN: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "builtins.set": lambda values=(): set(_items(values)),
    "builtins.frozenset": lambda values=(): frozenset(_items(values)),
    "builtins.complex": _complex,
    "builtins.bytearray": _bytearray,
    "_codecs.encode": _encode,
    "torch.Size": _size,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
}
KINDS: dict[str, type] = {
    "torch.Tensor": Tensor, "torch._tensor.Tensor": Tensor, "torch.nn.parameter.Parameter": Parameter,
    "torch.nn.parameter.Buffer": Buffer,
}  # fmt: skip


_RENAMED = {
    "xrange": "range",
    "unicode": "str",
    "long": "int",
    "unichr": "chr",
    "raw_input": "input",
}


class _Named:
    """An allowed global: data, or something that may be called."""

    __slots__ = ("call", "value")

    def __init__(self, value: Any, call: Callable[..., Any] | None) -> None:
        self.value, self.call = value, call


def special(full: str, tensors: Tensors) -> _Named | None:
    """What torch's own names in checkpoints stand for."""
    module, _, name = full.rpartition(".")
    if module in ("torch", "torch.storage", "torch.cuda") and name in STORAGES:
        return _Named(STORAGES[name], None)
    if full == "torch.storage.UntypedStorage":
        return _Named(UntypedStorage, None)
    if module == "torch" and name in DTYPES:
        return _Named(DTYPES[name], None)
    if module in ("torch._utils", "torch._tensor") and name in tensors.REBUILD:
        return _Named(None, getattr(tensors, tensors.REBUILD[name]))
    if full in KINDS:
        return _Named(KINDS[full], None)
    return None


class SafeUnpickler(pickle._Unpickler):
    """Makes containers, numbers, strings and tensors, and what the user put on the list."""

    dispatch: dict[Any, Any] = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: Any, tensors: Tensors, allowed: dict[str, Any]) -> None:
        super().__init__(file, encoding="utf-8")
        self.tensors, self.allowed = tensors, allowed
        self.named: dict[str, _Named] = {}

    def find_class(self, module: str, name: str) -> Any:
        module = {"__builtin__": "builtins"}.get(module, module)
        # Python 3 writes some builtins under the names that they had in Python 2.
        name = _RENAMED.get(name, name) if module == "builtins" else name
        full = f"{module}.{name}"
        if full in self.allowed:
            return self.allowed[full]
        found = self.named.get(full)
        if found is None:
            found = special(full, self.tensors)
            if found is None and full in PLAIN:
                found = _Named(None, PLAIN[full])
            if found is None:
                full = full.removeprefix("builtins.")
                raise Refused(
                    f"Unsupported global: GLOBAL {full[:200]} was not an allowed global by default. Please use "
                    f"`torch.serialization.add_safe_globals([{full[:200]}])` or the `torch.serialization.safe_globals("
                    f"[{full[:200]}])` context manager to allowlist this global if you trust this class/function."
                )
            self.named[full] = found
        return found.value if found.call is None else found

    def persistent_load(self, pid: Any) -> Any:
        return self.tensors.storage(pid)

    def _user(self, x: Any) -> bool:
        return any(x is a for a in self.allowed.values())

    def load_reduce(self) -> None:
        args = self.stack.pop()
        func: Any = self.stack[-1]
        if type(args) is not tuple:
            raise Refused("arguments of a call have to be a tuple")
        if isinstance(func, _Named) and func.call is not None:
            self.stack[-1] = func.call(*args)
        elif self._user(func):
            made: Any = func
            self.stack[-1] = made(*args)
        else:
            raise Refused(f"an object of {type(func).__name__} cannot be called here")

    def load_newobj(self) -> None:
        args = self.stack.pop()
        cls = self.stack.pop()
        if isinstance(cls, _Named) and cls.call is not None and type(args) is tuple:
            self.append(cls.call(*args))
        elif isinstance(cls, type) and self._user(cls) and type(args) is tuple:
            self.append(cls.__new__(cls, *args))
        else:
            raise Refused("objects of this class cannot be made here")

    def load_build(self) -> None:
        state = self.stack.pop()
        inst = self.stack[-1]
        if type(inst) is OrderedDict and type(state) is dict:
            if not all(type(k) is str and not k.startswith("__") for k in state):
                raise Refused("attributes of an OrderedDict have names")
            inst.__dict__.update(state)
        elif self._user(type(inst)):
            self.stack.append(state)
            super().load_build()
        else:
            raise Refused(f"the state of an object of {type(inst).__name__} cannot be set here")

    def load_setitem(self) -> None:
        value = self.stack.pop()
        key = self.stack.pop()
        self._put(self.stack[-1], [(key, value)])

    def load_setitems(self) -> None:
        items = self.pop_mark()
        if len(items) % 2:
            raise Refused("a key without a value")
        self._put(self.stack[-1], list(zip(items[::2], items[1::2])))

    def load_dict(self) -> None:
        items = self.pop_mark()
        out: dict[Any, Any] = {}
        self._put(out, list(zip(items[::2], items[1::2])))
        self.append(out)

    def _put(self, target: Any, items: list[tuple[Any, Any]]) -> None:
        if not isinstance(target, dict) and not self._user(type(target)):
            raise Refused(f"an object of {type(target).__name__} takes no items")
        for key, value in items:
            _check_key(key)
            target[key] = value

    def load_append(self) -> None:
        value = self.stack.pop()
        self._extend([value])

    def load_appends(self) -> None:
        self._extend(self.pop_mark())

    def _extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list and not self._user(type(target)):
            raise Refused(f"an object of {type(target).__name__} takes no elements")
        target.extend(values)

    def load_additems(self) -> None:
        values = self.pop_mark()
        if type(self.stack[-1]) is not set:
            raise Refused("only sets take elements")
        self.stack[-1].update(_items(values))

    def load_frozenset(self) -> None:
        self.append(frozenset(_items(self.pop_mark())))

    def _refuse(self) -> None:
        raise Refused("Unsupported operand: an instruction that checkpoints do not need")

    for _code, _method in {
        pickle.REDUCE: load_reduce, pickle.NEWOBJ: load_newobj, pickle.BUILD: load_build, pickle.SETITEM: load_setitem,
        pickle.SETITEMS: load_setitems, pickle.DICT: load_dict, pickle.APPEND: load_append,
        pickle.APPENDS: load_appends, pickle.ADDITEMS: load_additems, pickle.FROZENSET: load_frozenset,
        **dict.fromkeys(
            (
                pickle.INST, pickle.OBJ, pickle.NEWOBJ_EX, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER,
                pickle.READONLY_BUFFER, pickle.PERSID,
            ),
            _refuse,
        ),
    }.items():  # fmt: skip
        dispatch[_code[0]] = _method
    del _code, _method


class TrustingUnpickler(pickle.Unpickler):
    """Makes whatever the file asks for; names of torch's are this package's."""

    def __init__(self, file: Any, tensors: Tensors, **options: Any) -> None:
        super().__init__(file, **options)
        self.tensors = tensors

    def find_class(self, module: str, name: str) -> Any:
        found = special(f"{module}.{name}", self.tensors)
        if found is not None:
            return found.value if found.call is None else found.call
        if f"{module}.{name}" in ("torch.device", "torch.Size", "torch.serialization._get_layout"):
            return PLAIN[f"{module}.{name}"]
        if module == "torch" or module.startswith("torch."):
            own: Any = importlib.import_module(_PACKAGE + module[len("torch") :])
            for part in name.split("."):
                own = getattr(own, part)
            return own
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        return self.tensors.storage(pid)


__all__ = ["Refused", "SafeUnpickler", "TrustingUnpickler", "dtypes"]
