"""Two ways to read a pickle of torch's: one that can make nothing but data, one that trusts the file.

The safe one runs the machine of `_pickles`: a global has to be on a list, and what it may be called with is looked
at. What a file names or is given (dtypes, classes, what the user allowed) it cannot change; it fills and sets the
state of objects that it made itself.
"""

from __future__ import annotations

import _compat_pickle
import functools
import importlib
import pickle
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from .._core.arrays import devices, formats
from .._core.arrays.shapes import Size
from .._engine.memory.tensor import Tensor
from .._engine.tensor.attributes import strided_layout
from .._functions.typed_storage import STORAGES
from ..nn.parameter import Buffer, Parameter
from ._names import DEVICE, DTYPES, StorageKind
from ._pickles import Machine, Refused
from ._tensors import Tensors, names_for_attributes

_PACKAGE = "torchgrad_jax"


# --- what any file may call -----------------------------------------------------------------------


def _size(values: Any = ()) -> Size:
    return Size([_integer(v) for v in values])


def _integer(v: Any) -> int:
    if type(v) is not int or not -(2**63) <= v < 2**63:
        raise Refused(f"an integer of 64 bits was expected, not {type(v).__name__}")
    return v


def _device(kind: Any, index: Any = None) -> Any:
    if type(kind) is not str or (index is not None and type(index) is not int):
        raise Refused("torch.device: not a name and a number")
    if not DEVICE.fullmatch(kind) or (index is not None and not 0 <= index < 128):
        raise Refused("torch.device: no device has that name and number")
    return devices.device(kind) if index is None else devices.device(kind, index)


def _layout(name: Any) -> Any:
    short = name.removeprefix("torch.") if type(name) is str else ""
    found = strided_layout if short == "strided" else formats.MEMORY_FORMATS.get(short)
    if found is None:
        raise Refused(f"unknown layout {short[:40]!r}")
    return found


def _complex(real: Any, imag: Any = 0.0) -> complex:
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise Refused("complex is allowed for two numbers only")
    return complex(real, imag)


FACTS: dict[str, Callable[..., Any]] = {
    "torch.Size": _size,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
}


def _encode(m: Machine, text: Any, encoding: Any = "latin1") -> bytes:
    if type(text) is not str or type(encoding) is not str or encoding not in ("latin1", "latin-1"):
        raise Refused("_codecs.encode is allowed for latin1 only")
    m.charge(len(text))
    return text.encode("latin1")


def _bytearray(m: Machine, *args: Any) -> bytearray:
    if not args:
        return bytearray()
    given = args[0] if type(args[0]) is bytes and len(args) == 1 else _encode(m, *args)
    m.charge(len(given))
    return bytearray(given)


def _items(values: Any) -> Any:
    if type(values) not in (list, tuple, dict, set):
        raise Refused(f"{type(values).__name__} is no list of items")
    return values


def _set(m: Machine, values: Any = ()) -> set[Any]:
    out: set[Any] = set()
    m.add(out, _items(values))
    return out


def _ordered(m: Machine, values: Any = ()) -> OrderedDict[Any, Any]:
    out: OrderedDict[Any, Any] = OrderedDict()
    m.charge(400)
    m.put(out, map(_pair, _pairs(values)))
    return out


def _pairs(values: Any) -> Any:
    return values.items() if type(values) in (dict, OrderedDict) else _items(values)


def _pair(pair: Any) -> Any:
    if type(pair) not in (list, tuple) or len(pair) != 2:
        raise Refused("OrderedDict is made of pairs")
    return pair


def _counter(m: Machine, values: Any = None) -> Counter[Any]:
    if values is not None and type(values) is not dict:
        raise Refused("Counter is allowed for a dict only")
    out: Counter[Any] = Counter()
    m.put(out, (values or {}).items())
    return out


PLAIN: dict[str, Callable[..., Any]] = {
    **{name: lambda m, *args, f=f: f(*args) for name, f in FACTS.items()},
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "builtins.set": _set,
    "builtins.frozenset": lambda m, values=(): m.frozen(_items(values)),
    "builtins.complex": lambda m, *args: _complex(*args),
    "builtins.bytearray": _bytearray,
    "_codecs.encode": _encode,
}
KINDS: dict[str, type] = {
    "torch.Tensor": Tensor,
    "torch._tensor.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.nn.parameter.Buffer": Buffer,
}


_TENSOR = 2048
"""Bytes that a tensor takes besides its elements."""


class Named:
    """An allowed global: data, or something that may be called and takes memory."""

    __slots__ = ("call", "cost", "value")

    def __init__(self, value: Any, call: Callable[..., Any] | None = None, cost: int = 100) -> None:
        self.value, self.call, self.cost = value, call, cost


def full_name(module: str, name: str) -> str:
    """The name that Python 3 has for a global, where a pickle uses that of Python 2."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        module, name = _compat_pickle.NAME_MAPPING[module, name]
    else:
        module = _compat_pickle.IMPORT_MAPPING.get(module, module)
    return f"{module}.{name}"


def special(full: str, tensors: Tensors) -> Named | None:
    """Return what torch's own names in checkpoints stand for."""
    module, _, name = full.rpartition(".")
    if module in ("torch", "torch.storage", "torch.cuda") and name in STORAGES:
        return Named(StorageKind(STORAGES[name]))
    if full == "torch.storage.UntypedStorage":
        return Named(StorageKind(None))
    if module == "torch" and name in DTYPES:
        return Named(DTYPES[name])
    if module in ("torch._utils", "torch._tensor") and name in tensors.REBUILD:
        return Named(None, getattr(tensors, tensors.REBUILD[name]), _TENSOR)
    if full in KINDS:
        return Named(KINDS[full])
    return None


class SafeUnpickler(Machine):
    """Makes containers, numbers, strings and tensors, and what the user put on the list."""

    def __init__(self, file: Any, tensors: Tensors, allowed: dict[str, Any]) -> None:
        super().__init__(file)
        self.tensors, self.allowed = tensors, allowed
        self.named: dict[str, Any] = {}
        # By id: what was there before the file, and what is of a class that the user allowed and the file's own.
        self.foreign = {id(x): x for x in allowed.values()}
        self.own: dict[int, Any] = {}

    def find(self, module: str, name: str) -> Any:
        full = full_name(module, name)
        if full in self.allowed:
            return self.allowed[full]
        if full not in self.named:
            self.named[full] = self._look_up(full)
        return self.named[full]

    def _look_up(self, full: str) -> Any:
        if full in PLAIN:
            return Named(None, functools.partial(PLAIN[full], self))
        found = special(full, self.tensors)
        if found is None:
            full = full.removeprefix("builtins.")[:200]
            raise Refused(
                f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please use "
                f"`torch.serialization.add_safe_globals([{full}])` or the `torch.serialization.safe_globals("
                f"[{full}])` context manager to allowlist this global if you trust this class/function."
            )
        return found.value if found.call is None else found

    def persistent(self, pid: Any) -> Any:
        return self.tensors.storage(pid)

    def elsewhere(self) -> int:
        # Each has a parameter and the tensor of it.
        return 2 * _TENSOR * getattr(self.tensors, "filled", 0)

    def _user(self, x: Any) -> bool:
        return any(x is a for a in self.allowed.values())

    def call(self, func: Any, args: Any) -> Any:
        if type(func) is Named:
            return self._call(func, args)
        if not self._user(func):
            raise Refused(f"an object of {type(func).__name__} cannot be called here")
        return self._of_user(func(*args))

    def new(self, cls: Any, args: Any) -> Any:
        if type(cls) is Named:
            return self._call(cls, args)
        if not (isinstance(cls, type) and self._user(cls)):
            raise Refused("objects of this class cannot be made here")
        return self._of_user(cls.__new__(cls, *args))

    def _call(self, func: Any, args: Any) -> Any:
        self.charge(func.cost)
        return func.call(*args)

    def _of_user(self, made: Any) -> Any:
        """The result of what the user allowed. If anybody else holds it, the file did not make it."""
        new = sys.getrefcount(made) <= _ALONE
        (self.own if new else self.foreign)[id(made)] = made
        return made

    def check_part(self, x: Any) -> None:
        if isinstance(x, Named | StorageKind):
            raise Refused("a function or a storage's class is no data")

    def takes(self, target: Any, kinds: tuple[type, ...]) -> bool:
        if id(target) in self.foreign:
            raise Refused("what the file did not make cannot be changed")
        return id(target) in self.own or super().takes(target, kinds)

    def build(self, obj: Any, state: Any) -> None:
        if type(obj) is OrderedDict and id(obj) not in self.foreign:
            obj.__dict__.update(names_for_attributes(obj, state))
        elif id(obj) in self.own and self._user(type(obj)):
            _set_state(obj, state)
        else:
            raise Refused(f"the state of an object of {type(obj).__name__} cannot be set here")


def _set_state(obj: Any, state: Any) -> None:
    """As Python's own unpickler does it."""
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        obj.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(obj, name, value)


def _references(made: Any) -> int:
    return sys.getrefcount(made)


_ALONE = _references(object())
"""References to an argument that nobody but the called function holds."""


class TrustingUnpickler(pickle.Unpickler):
    """Makes whatever the file asks for; names of torch's are this package's."""

    def __init__(self, file: Any, tensors: Tensors, **options: Any) -> None:
        super().__init__(file, **options)
        self.tensors = tensors

    def find_class(self, module: str, name: str) -> Any:
        found = special(f"{module}.{name}", self.tensors)
        if found is not None:
            return found.value if found.call is None else found.call
        if f"{module}.{name}" in FACTS:
            return FACTS[f"{module}.{name}"]
        if module == "torch" or module.startswith("torch."):
            own: Any = importlib.import_module(_PACKAGE + module[len("torch") :])
            for part in name.split("."):
                own = getattr(own, part)
            return own
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        if isinstance(pid, tuple) and len(pid) == 4 and pid[0] == "module":
            return pid[1]  # the older format names classes of modules so, with their source
        return self.tensors.storage(pid)
