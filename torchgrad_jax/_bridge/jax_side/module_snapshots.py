"""What a module consists of besides its parameters and buffers, as a value: compared, hashed, and built again.

JAX takes a module apart into arrays and a *frame*, which is all the rest. It compares frames to see whether a compiled
function is still the right one, and builds modules from a frame and other arrays, as often as it likes and long after
the module changed. So a frame is a snapshot: a table with one row for each object that the module reaches, in which a
row names other objects by their numbers. Two frames are equal when their tables are.

What is built from a frame shares nothing with the module that can change: lists, dicts, sets, modules and objects of
plain Python classes are copied as `copy.deepcopy` copies them. Unlike there, a function whose closure holds the module
(`self.act = lambda x: x * self.scale`) gets the new module in its closure. Tensors that are neither parameter nor
buffer are constants. Other functions, and what is made by code of its own (locks, files, compiled functions), are the
same objects everywhere.
"""

from __future__ import annotations

import collections
import copyreg
import functools
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from ..._core.arrays.transfer import for_jax
from ..._core.python_classes import is_python_class
from ..._core.state import MODES
from ..._engine.graph.history import requires_grad_of
from ..._engine.memory.kept_traces import made_inside
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Tensor, alias_of
from ..compile.compiled import Compiled
from ..compile.watch.notes import KEPT_UNDER

REF = "ref"
"""In a row, instead of a class: the value that follows is the number of another row."""

_ATOMS = frozenset({int, bool, str, bytes, complex, type(None), type(...), range, types.CodeType})
_BUILT_IN = (dict, list, tuple, set, frozenset, collections.deque)


class ModuleSnapshot:
    """A table of rows, and the objects in it that are the same in every copy.

    Args:
        rows: one for each object; the first is the root's.
        leaves: name, class, whether it requires a gradient, and attributes of each tensor that is a child.
        kept: objects that are shared, by the number of their row.
    """

    __slots__ = ("_hash", "kept", "key", "leaves", "rows")

    def __init__(self, rows: Any, leaves: Any, kept: dict[int, Any]) -> None:
        self.rows, self.leaves, self.kept = rows, leaves, kept
        self.key = (rows, leaves)
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ModuleSnapshot) and self.key == other.key)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.key)
        return self._hash

    def __repr__(self) -> str:
        return f"{self.rows[0][1].__name__} of {len(self.leaves)} tensors"


# --- taking apart ---------------------------------------------------------------------------------


class SnapshotWriter:
    """Makes the rows of everything that is reached from a root.

    Args:
        base: the class of modules, which are always copied.
        hidden: attributes of modules that are left out where they are empty.
        own: the modules whose parameters and buffers are the children, by identity.
    """

    def __init__(self, base: type, hidden: Any, own: dict[int, Any]) -> None:
        self.base, self.hidden, self.own = base, hidden, own
        self.numbers: dict[int, int] = {}
        self.objects: list[Any] = []
        self.origins: list[tuple[int, Any]] = []
        self.leaves: dict[int, int] = {}
        self.leaf_of_storage: dict[int, Tensor] = {}
        self.kept: dict[int, Any] = {}
        self.current_row = 0

    def leaf(self, t: Tensor) -> bool:
        """Count a tensor among the children; whether it is a new one."""
        if id(t) in self.leaves:
            return False
        self.leaves[id(t)] = len(self.leaves)
        self.leaf_of_storage[id(t._st)] = t
        return True

    def snapshot(self, root: Any, leaves: Callable[[], Any]) -> ModuleSnapshot:
        """All rows; `leaves` tells of the children, and may ask for rows of its own."""
        self.encode(root)
        leaf_rows = leaves()
        rows: list[Any] = []
        for x in self.objects:  # the list grows on the way
            self.current_row = len(rows)
            rows.append(self._row(x))
        return ModuleSnapshot(tuple(rows), leaf_rows, self.kept)

    def encode(self, x: Any, step: Any = "") -> tuple[Any, Any]:
        """How a row says `x`: its class and itself, or `REF` and a number."""
        cls = x.__class__
        if cls in _ATOMS:
            return cls, x
        if cls is float:
            return cls, x if x else repr(x)
        n = self.numbers.get(id(x))
        if n is None:
            if isinstance(x, type) or _is_value(x):
                return cls, x
            n = self.numbers[id(x)] = len(self.objects)
            self.objects.append(x)
            self.origins.append((self.current_row, step))
        return REF, n

    def path_to(self, n: int) -> str:
        """The path of attributes from the root to an object."""
        steps: list[str] = []
        while n:
            n, step = self.origins[n]
            if step:
                steps.append(step if isinstance(step, str) else f"[{step[0]!r}]")
        return ".".join(reversed(steps)).replace(".[", "[") or "its state"

    def _row(self, x: Any) -> tuple[Any, ...]:
        if isinstance(x, Tensor):
            return self._tensor(x)
        if isinstance(x, self.base):
            return ("object", x.__class__, *self._attributes(x))
        if isinstance(x, jax.Array):
            return self._same(x)
        if isinstance(x, _BUILT_IN) and _is_container(x.__class__):
            return self._container(x)
        for kind, row in _ROWS.items():
            if x.__class__ is kind:
                return row(self, x)
        return self._other(x)

    def _attributes(self, x: Any) -> Iterator[Any]:
        hidden = self.hidden if isinstance(x, self.base) else {}
        for name, value in _state(x):
            if name not in hidden or (value and hidden[name]):
                yield name
                yield from self.encode(value, name)

    def _items(self, values: Any) -> Iterator[Any]:
        for i, value in enumerate(values):
            yield from self.encode(value, (i,))

    def _container(self, x: Any) -> tuple[Any, ...]:
        cls = x.__class__
        extra = getattr(x, "default_factory", None) if isinstance(x, dict) else getattr(x, "maxlen", None)
        own = getattr(x, "__dict__", None) or None
        head = (cls, *self.encode(extra), *self.encode(own))
        if isinstance(x, dict):
            items = (part for k, v in x.items() for part in (*self.encode(k, "keys"), *self.encode(v, (k,))))
            return ("dict", *head, *items)
        if isinstance(x, set | frozenset):
            encoded = [self.encode(v) for v in x]
            return ("set", *head, frozenset(encoded))
        return ("tuple" if isinstance(x, tuple) else "list", *head, *self._items(x))

    def _other(self, x: Any) -> tuple[Any, ...]:
        """The row of an object of a class that nothing is known of."""
        if _is_node(x):
            parts, treedef = jax.tree.flatten(x, is_leaf=self._is_own)
            return ("tree", treedef, *self._items(parts))
        reaches = self.reaches([v for _, v in _state(x)])
        if is_plain(x) or (reaches and _is_python(x.__class__)):
            return ("object", x.__class__, *self._attributes(x))
        if reaches or self.reaches(getattr(x, "__wrapped__", None)):
            raise TypeError(
                f"a module as a pytree: {self.path_to(self.current_row)} (of class {x.__class__.__name__}) holds the "
                "module itself or a tensor of it, and cannot be copied; delete the attribute"
            )
        return self._same(x)

    def _same(self, x: Any) -> tuple[Any, ...]:
        if isinstance(x, jax.core.Tracer):
            raise self._traced()
        self.kept[self.current_row] = x
        return ("same", id(x))

    def reaches(self, x: Any) -> bool:
        """Return whether the module, or a tensor of it, is in what `x` holds."""
        seen: set[int] = set()
        stack = [x]
        while stack:
            x = stack.pop()
            if id(x) in self.own or id(x) in self.leaves:
                return True
            if x.__class__ not in _ATOMS and id(x) not in seen:
                seen.add(id(x))
                stack += _held_by(x)
        return False

    def _is_own(self, x: Any) -> bool:
        return isinstance(x, Tensor | self.base)

    def _traced(self) -> Exception:
        return TypeError(
            f"a module as a pytree: {self.path_to(self.current_row)} holds a value that JAX traces, and is neither a "
            "parameter nor a buffer; register it as a buffer, or delete the attribute"
        )

    def _tensor(self, t: Tensor) -> tuple[Any, ...]:
        place = self.leaves.get(id(t))
        if place is not None:
            return ("leaf", place)
        of = self.leaf_of_storage.get(id(t._st))
        if of is not None:
            return self._view(t, of)
        array = t._st.array
        if isinstance(array, jax.core.Tracer) and MODES.run.inside(t):
            raise self._traced()
        self.kept[self.current_row] = (for_jax(read(t)), array) if MODES.run.at_once else t
        al, m = t._al, t._m
        seen = None if al is None else (al.offset, al.conj, al.neg)
        held = array.tobytes() if isinstance(array, np.ndarray) else id(array)
        requires = t._rg and t._fn is None
        looks = (m.shape, m.dtype, str(m.device), m.strides, held, not MODES.run.at_once)
        return ("tensor", t.__class__, requires, seen, *looks, *self.encode(t.__dict__ or None))

    def _view(self, t: Tensor, of: Tensor) -> tuple[Any, ...]:
        """The row of a tensor with the memory of a child, such as its `.data`."""
        al, m = t._al, t._m
        if requires_grad_of(t) or m.dtype is not of._m.dtype or (al and (al.conj or al.neg)):
            raise TypeError(
                f"a module as a pytree: {self.path_to(self.current_row)} is a view of a parameter or buffer of shape "
                f"{tuple(of._m.shape)}, and cannot be copied; make the view where it is used"
            )
        return ("view", t.__class__, self.leaves[id(of)], m.shape, m.strides, al.offset if al else 0)

    def _function(self, x: Any) -> tuple[Any, ...]:
        self.kept[self.current_row] = x
        if not self.reaches(x):
            plain = not (x.__closure__ or x.__defaults__ or x.__kwdefaults__ or x.__dict__)
            return ("same", *((x.__code__, id(x.__globals__)) if plain else (id(x),)))
        extra = (*self.encode(x.__defaults__), *self.encode(x.__kwdefaults__))
        return ("function", id(x), *extra, *self._items(x.__closure__ or ()))

    def _cell(self, x: Any) -> tuple[Any, ...]:
        if self.reaches(x):
            return ("cell", *self.encode(x.cell_contents, "closure"))
        return self._same(x)

    def _method(self, x: Any) -> tuple[Any, ...]:
        return ("method", *self.encode(x.__func__), *self.encode(x.__self__, "__self__"))

    def _partial(self, x: Any) -> tuple[Any, ...]:
        return ("partial", *self.encode(x.func), *self.encode(x.args), *self.encode(x.keywords))

    def _weak(self, x: Any) -> tuple[Any, ...]:
        to = x()
        n = None if to is None else self.numbers.get(id(to))
        if n is None:
            self.kept[self.current_row] = x
            return ("same", id(x))
        return ("weak", REF, n)

    def _compiled(self, x: Compiled) -> tuple[Any, ...]:
        if not self.reaches(x.fn):
            return self._same(x)
        return ("compiled", tuple(x.settings.items()), *self.encode(x.fn, "fn"))

    def _array(self, x: Any) -> tuple[Any, ...]:
        self.kept[self.current_row] = x if x.dtype.hasobject else x.copy()
        if x.dtype.hasobject:
            return ("same", id(x))
        return ("array", x.shape, x.dtype, x.tobytes())


_ROWS: dict[type, Any] = {
    types.FunctionType: SnapshotWriter._function,
    types.CellType: SnapshotWriter._cell,
    types.MethodType: SnapshotWriter._method,
    functools.partial: SnapshotWriter._partial,
    weakref.ref: SnapshotWriter._weak,
    np.ndarray: SnapshotWriter._array,
    Compiled: SnapshotWriter._compiled,
}


def _held_by(x: Any) -> list[Any]:
    """Return what an object holds, as far as one that is copied may have to hold something else."""
    if isinstance(x, types.FunctionType):
        return [*(x.__closure__ or ()), x.__defaults__, x.__kwdefaults__, [v for _, v in _state(x)]]
    if isinstance(x, types.CellType):
        try:
            return [x.cell_contents]
        except ValueError:  # the cell is empty
            return []
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, functools.partial):
        return [x.func, x.args, x.keywords]
    if isinstance(x, _BUILT_IN):
        return [*x, *(x.values() if isinstance(x, dict) else ())]
    if isinstance(x, Tensor | type | types.ModuleType) or not hasattr(x, "__dict__"):
        return []
    return [[v for _, v in _state(x)], getattr(x, "__wrapped__", None)]


def _state(x: Any) -> Iterator[tuple[str, Any]]:
    """Attributes of an object, those in slots included."""
    yield from ((k, v) for k, v in getattr(x, "__dict__", {}).items() if k != KEPT_UNDER)
    for name in copyreg._slotnames(x.__class__):  # type: ignore[attr-defined]
        if name != "__dict__" and hasattr(x, name):
            yield name, getattr(x, name)


def _is_value(x: Any) -> bool:
    """Return whether an object is known by what it equals (a dtype, a path), and holds no others."""
    return _is_value_class(x.__class__) and not isinstance(x, *_COMPOUND)


_COMPOUND: tuple[Any, ...] = ((*_BUILT_IN, Tensor),)
_CLASSES = 1024
"""Of how many classes it is remembered what they are: a program may make ever new ones."""


@functools.lru_cache(_CLASSES)
def _is_value_class(cls: type) -> bool:
    if cls in _ROWS or issubclass(cls, weakref.ref):
        return False
    compares = cls.__eq__ is not object.__eq__ and cls.__hash__ not in (None, object.__hash__)
    return compares and not _is_python(cls)


@functools.lru_cache(_CLASSES)
def _is_container(cls: type) -> bool:
    """Return whether a class of containers is copied by its items and attributes."""
    if cls.__module__ in ("builtins", "collections"):
        return True
    kept = (b for b in cls.__mro__ if b.__module__ not in ("builtins", "collections", "typing"))
    own = ("__reduce__", "__reduce_ex__", "__deepcopy__", "__copy__", "__setstate__")
    return not any(name in b.__dict__ for b in kept for name in own)


@functools.lru_cache(_CLASSES)
def _is_python(cls: type) -> bool:
    """Return whether the instances of a class consist of their attributes: no code in C holds more of their state."""
    if cls is types.SimpleNamespace:
        return True
    if cls.__reduce__ is not object.__reduce__ or cls.__reduce_ex__ is not object.__reduce_ex__:
        return False
    made = cls.__new__ is object.__new__ or isinstance(cls.__new__, types.FunctionType)
    return made and all(b is object or is_python_class(b) for b in cls.__mro__)


def is_plain(x: Any) -> bool:
    """Return whether an object is copied by its attributes; one that has none may be known by its identity."""
    cls = x.__class__
    if not _is_python(cls) or any(hasattr(cls, name) for name in ("__deepcopy__", "__copy__")):
        return False
    return bool(next(_state(x), None))


def _is_node(x: Any) -> bool:
    """Return whether JAX takes an object of somebody else's class apart."""
    return not jax.tree_util.all_leaves([x])


# --- putting together -----------------------------------------------------------------------------


class SnapshotReader:
    """Builds what a frame describes around other tensors."""

    def __init__(self, snapshot: ModuleSnapshot, leaves: Sequence[Any], constant: Any) -> None:
        self.rows, self.kept, self.leaves, self.constant = (snapshot.rows, snapshot.kept, leaves, constant)
        self.made: dict[int, Any] = {}

    def root(self) -> Any:
        """The first object, with all that it reaches."""
        shells = [(n, row) for n, row in enumerate(self.rows) if row[0] in _SHELLS]
        for n, row in shells:
            self.made[n] = _shell(row)
        for n, row in shells:
            _SHELLS[row[0]](self, self.made[n], row)
        return self.made[0]

    def value(self, kind: Any, encoded: Any) -> Any:
        """Return what a row says."""
        if kind is not REF:
            return float(encoded) if kind is float else encoded
        if encoded not in self.made:
            self.made[encoded] = _MAKE[self.rows[encoded][0]](self, encoded, self.rows[encoded])
        return self.made[encoded]

    def values(self, row: Sequence[Any]) -> list[Any]:
        """Return what pairs in a row say."""
        return [self.value(row[i], row[i + 1]) for i in range(0, len(row), 2)]

    # Things that can be made empty, and are filled when all of them are there.

    def _fill_object(self, x: Any, row: Any) -> None:
        slots = copyreg._slotnames(x.__class__)  # type: ignore[attr-defined]
        for i in range(2, len(row), 3):
            value = self.value(row[i + 1], row[i + 2])
            if row[i] in slots:
                object.__setattr__(x, row[i], value)
            else:
                x.__dict__[row[i]] = value

    def dict_of(self, kind: Any, encoded: Any) -> dict[str, Any]:
        """A dict that a row names, also while the copy of it is still empty."""
        if kind is not REF:
            return {}
        found = self.values(self.rows[encoded][6:])
        return dict(zip(found[::2], found[1::2]))

    def _fill_own(self, x: Any, row: Any) -> None:
        if row[4] is REF:
            x.__dict__.update(self.dict_of(row[4], row[5]))

    def _fill_list(self, x: Any, row: Any) -> None:
        base: Any = list if isinstance(x, list) else collections.deque
        base.extend(x, self.values(row[6:]))
        self._fill_own(x, row)

    def _fill_dict(self, x: Any, row: Any) -> None:
        base = collections.OrderedDict if isinstance(x, collections.OrderedDict) else dict
        found = self.values(row[6:])
        for key, value in zip(found[::2], found[1::2]):
            base.__setitem__(x, key, value)
        if isinstance(x, collections.defaultdict):
            x.default_factory = self.value(row[2], row[3])
        self._fill_own(x, row)

    def _fill_cell(self, x: Any, row: Any) -> None:
        if len(row) > 1:
            x.cell_contents = self.value(row[1], row[2])

    # Things that are made when they are needed.

    def _set(self, n: int, row: Any) -> Any:
        return row[1]([self.value(*encoded) for encoded in row[6]])

    def _tuple(self, n: int, row: Any) -> Any:
        out = tuple.__new__(row[1], self.values(row[6:]))
        self._fill_own(out, row)
        return out

    def _leaf(self, n: int, row: Any) -> Any:
        return self.leaves[row[1]]

    def _tensor(self, n: int, row: Any) -> Any:
        held = self.kept[n]
        if isinstance(held, Tensor):
            return held
        out = self.constant(row[1], row[2], held[0])
        out.__dict__.update(self.dict_of(row[-2], row[-1]))
        return out

    def _view(self, n: int, row: Any) -> Any:
        _, cls, leaf, shape, strides, offset = row
        of = self.leaves[leaf]
        # JAX has put something else in the place of the array.
        if not hasattr(of._st.array, "dtype"):
            return of
        out = of.detach().as_strided(shape, strides, offset)
        return alias_of(out, out._m, out._al, cls=cls)

    def _function(self, n: int, row: Any) -> Any:
        f = self.kept[n]
        cells = tuple(self.values(row[6:]))
        out = types.FunctionType(f.__code__, f.__globals__, f.__name__, None, cells)
        out.__defaults__, out.__kwdefaults__ = self.values(row[2:6])
        out.__dict__.update(f.__dict__)
        out.__qualname__, out.__module__, out.__doc__ = f.__qualname__, f.__module__, f.__doc__
        return out

    def _method(self, n: int, row: Any) -> Any:
        return types.MethodType(*self.values(row[1:]))

    def _partial(self, n: int, row: Any) -> Any:
        f, args = self.values(row[1:5])
        return functools.partial(f, *args, **self.dict_of(row[5], row[6]))

    def _weak(self, n: int, row: Any) -> Any:
        return weakref.ref(self.value(row[1], row[2]))

    def _compiled(self, n: int, row: Any) -> Any:
        _, settings, *fn = row
        return Compiled(self.value(*fn), **dict(settings))

    def _array(self, n: int, row: Any) -> Any:
        return self.kept[n].copy()

    def _tree(self, n: int, row: Any) -> Any:
        return row[1].unflatten(self.values(row[2:]))

    def _same(self, n: int, row: Any) -> Any:
        return self.kept[n]


_SHELLS: dict[str, Any] = {
    "object": SnapshotReader._fill_object,
    "list": SnapshotReader._fill_list,
    "dict": SnapshotReader._fill_dict,
    "cell": SnapshotReader._fill_cell,
}
_MAKE: dict[str, Any] = {
    "set": SnapshotReader._set,
    "tuple": SnapshotReader._tuple,
    "leaf": SnapshotReader._leaf,
    "view": SnapshotReader._view,
    "tensor": SnapshotReader._tensor,
    "function": SnapshotReader._function,
    "method": SnapshotReader._method,
    "partial": SnapshotReader._partial,
    "weak": SnapshotReader._weak,
    "compiled": SnapshotReader._compiled,
    "array": SnapshotReader._array,
    "tree": SnapshotReader._tree,
    "same": SnapshotReader._same,
}


def _shell(row: Any) -> Any:
    kind, *rest = row
    if kind == "cell":
        return types.CellType()
    cls = rest[0]
    if kind == "object":
        made = cls.__new__(cls) if cls is types.SimpleNamespace else object.__new__(cls)
        if hasattr(cls, "named_parameters"):
            made_inside(made)
        return made
    if issubclass(cls, collections.deque):
        return cls((), rest[2])
    return cls.__new__(cls)
