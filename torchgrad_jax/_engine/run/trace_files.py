"""Traces that outlive the process: what templates, and gradients derived of them, have come to, in files.

    x.sin().sum().backward()  # the first process traces `sin`, its gradient, and so on: some 10 ms each
    x.sin().sum().backward()  # the next one reads what the traces gave: some 0.3 ms each

NumPy code for any sizes that is made of a trace is kept beside it.

The files are in the folder of compiled kernels (`_core.jax.kernel_files`), one for each call with arguments of the same
kinds, and nothing is read or written where kernels are not kept. The name of a file is a hash of everything that a
trace depends on: the row and its static arguments, the kinds of the arguments, settings, versions, and the source of
this package. A file holds records, one after the other, and a process that has traced something new appends one. A
record that does not fit, for whatever reason, is a record that is not there. The folder is trusted: what is in it runs
as code, kernels and traces alike.

Not everything can be kept: a step with a Python function among its parameters, or with a large array of its own, can't.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import importlib
import io
import logging
import marshal
import os
import pickle
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import jax
import jaxlib
import numpy as np

from ..._core.arrays import dtypes
from ..._core.host import choice
from ..._core.host.sized import Aval, Code
from ..._core.jax import sizes as symbols
from ..._core.jax.kernel_files import folder_of_kernels
from ..._core.jax.private import AVAL, CORE, LOWERINGS, TRACE_CONTEXT, ClosedJaxpr, backends_are_open
from ..._core.jax.sizes import Size, Sizes
from ..._core.state import MODES, SETTINGS
from .program import Literal, Program, jaxpr_of

_LOG = logging.getLogger(__name__)
_HEAD = struct.Struct("<4sII")
_MARK = b"tgj1"
_LARGEST = 1 << 16
"""Bytes of an array in a trace that is kept."""
_KNOWN = ("builtins", "collections", "functools", "jax", "jaxlib", "ml_dtypes", "numpy", "torchgrad_jax")
"""Packages whose classes and functions are the same in another process."""
_PACKAGE = Path(__file__).parent.parent.parent
_NUMPY_CODE = f"{choice.__package__}."
"""The package that makes NumPy code. Functions that its functions define use plain values alone, and can be kept."""
_PLAIN = frozenset((bool, int, float, complex, str, type(None)))
_SYMBOLS = "symbols"
"""Stands in a record for the symbols of its sizes."""


class TraceFile:
    """The traces of a call with arguments of the same kinds."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self._path = name, path
        self._records: dict[Any, bytes] | None = None
        self._unfit: set[Any] = set()
        """Keys of records that could not be read: one more of each would be appended by each process."""

    def read(self) -> dict[Any, bytes]:
        """What is in the file: by what a trace is of, its record."""
        if self._records is None:
            self._records = dict(self._records_in_file())
        return self._records

    def _records_in_file(self) -> Iterator[tuple[Any, bytes]]:
        try:
            data = self._path.read_bytes()
        except OSError:
            return
        at = 0
        while at < len(data):
            try:
                mark, length, check = _HEAD.unpack_from(data, at)
                payload = data[at + _HEAD.size : at + _HEAD.size + length]
                if mark != _MARK or len(payload) != length or zlib.crc32(payload) != check:
                    raise ValueError("a record was cut off")
                yield pickle.loads(payload)
            except Exception as error:
                _LOG.debug("%s is removed: %s", self._path, error)
                with suppress(OSError):  # the folder may be read-only, or another process was first
                    self._path.unlink()
                return
            at += _HEAD.size + length

    def add(self, key: Any, trace: Any, sizes: Sizes) -> None:
        """Append the record of a trace, if it can be kept."""
        if key in self._unfit:
            return
        try:
            payload = pickle.dumps((key, dumped(trace, sizes, Place(self, key))), protocol=5)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            opened = os.open(self._path, flags, 0o600)
            try:
                os.write(opened, _HEAD.pack(_MARK, len(payload), zlib.crc32(payload)) + payload)
            finally:
                os.close(opened)
        except Exception as error:  # a full disk, a parameter that is a function: the next process traces again
            _LOG.debug("a trace of %s is not kept: %s: %s", self.name, type(error).__name__, error)

    def load(self, key: Any, sizes: Sizes) -> Any:
        """Return the trace that was kept under a key, once; None without one."""
        record = self.read().pop(key, None)
        if record is None:
            return None
        try:
            return loaded(record, sizes, self)
        except Exception as error:
            _LOG.debug("a trace of %s does not fit: %s: %s", self.name, type(error).__name__, error)
            self._unfit.add(key)
            return None


class Place:
    """Where the programs of a trace are kept, and the NumPy code that is made of them."""

    def __init__(self, file: TraceFile, key: Any) -> None:
        self.key, self._file = key, file
        self.programs = 0
        """How many programs of the trace have a number."""

    def codes(self, program: Program, part: Any) -> Iterator[Code]:
        """Give the code that another process has made of a part of a program."""
        i, sizes = 0, program.sizes
        assert sizes is not None  # what comes from a trace by shape is not kept
        while (code := self._file.load(self._key_of(program, part, i), sizes)) is not None:
            yield code
            i += 1

    def add(self, program: Program, part: Any, i: int, code: Code) -> None:
        """Keep the `i`-th code that was made of a part of a program."""
        assert program.sizes is not None
        self._file.add(self._key_of(program, part, i), code, program.sizes)

    def _key_of(self, program: Program, part: Any, i: int) -> Any:
        of_template, of = self.key
        return of_template, (of, program.number, part, i)


def file_of(call: str | None, kinds: Sequence[Any]) -> TraceFile | None:
    """Return the file of a call with arguments of such kinds; None where its traces are not kept.

    Args:
        call: names the call; None for one that has no name outside of this process.
        kinds: dtypes, dimensions, Python's types of numbers.
    """
    folder = None if call is None or not jax.config.jax_enable_compilation_cache else folder_of_kernels()
    context = None if folder is None or "://" in folder else _context()
    about = None if context is None else text_of(tuple(kinds))
    if about is None:
        return None
    name = hashlib.sha256(f"{context}\n{call}\n{about}".encode()).hexdigest()[:40]
    return TraceFile(name, Path(str(folder), f"trace-{name}"))


def text_of(x: Any) -> str | None:
    """Return a text that tells a static argument from others in any process; None where there is none."""
    kind = x.__class__
    if kind in _PLAIN:
        return repr(x)
    if kind in (tuple, list):
        parts = [text_of(v) for v in x]
        return None if None in parts else f"{kind.__name__}({','.join(parts)})"  # type: ignore[arg-type]
    if kind is type and x in _PLAIN:
        return x.__name__
    if isinstance(x, dtypes.dtype | enum.Enum):
        return f"{kind.__qualname__}:{x}"
    return None


def _context() -> str | None:
    """Return what traces depend on beside their call; None where that has no name outside of this process."""
    if MODES.target is not None or not backends_are_open():
        return None
    parts = [_versions(), *map(_text_of_setting, TRACE_CONTEXT())]
    if None in parts:
        return None
    settings = {k: str(v) for k, v in sorted(vars(SETTINGS).items())}
    platform = jax.local_devices()[0].client.platform_version
    return f"{choice.EXECUTOR} {jax.default_backend()} {platform} {parts} {settings}"


def _text_of_setting(x: Any) -> str | None:
    if x.__class__ in _PLAIN or isinstance(x, enum.Enum) or x in ((), frozenset()):
        return str(x)
    axes = getattr(x, "axis_sizes", None)  # those of a `vmap` or a `shard_map` of JAX's that is under way
    return "no axes" if axes is not None and not axes else None


@functools.cache
def _versions() -> str | None:
    """Return the versions of all that has to do with traces, and their source, as a hash; None without source."""
    found = hashlib.sha256(" ".join((sys.version, jax.__version__, jaxlib.__version__, np.__version__)).encode())
    paths = [path for folder in ("_core", "_ops", "_engine") for path in sorted((_PACKAGE / folder).rglob("*.py"))]
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest() if paths else None


# --- traces as bytes --------------------------------------------------------------------------------------------


def dumped(trace: Any, sizes: Sizes, place: Place | None = None) -> bytes:
    """Return a trace, or code that was made of it, as bytes; its programs are kept at a place from then on."""
    file = io.BytesIO()
    _Pickler(file, sizes, place).dump(trace)
    return file.getvalue()


def loaded(record: bytes, sizes: Sizes, of: TraceFile | None = None) -> Any:
    """Return what `dumped` was given, with these symbols."""
    return _Unpickler(io.BytesIO(record), sizes, of).load()


class _Pickler(pickle.Pickler):
    """Writes steps whose sizes are symbols of `sizes`, which are there before they are read."""

    def __init__(self, file: io.BytesIO, sizes: Sizes, place: Place | None) -> None:
        super().__init__(file, protocol=5)
        self._sizes, self._place = sizes, place

    def persistent_id(self, x: Any) -> Any:
        """Return what stands for the symbols, and for the place of a program."""
        if x is self._sizes:
            return _SYMBOLS
        return x.key if x.__class__ is Place else None

    def reducer_override(self, x: Any) -> Any:
        """Return how an object is made again."""
        kind = x.__class__
        if kind is Program and x.place is None and self._place is not None:
            x.place, x.number = self._place, self._place.programs
            self._place.programs += 1
        if kind is Size:
            return _size, (x.sizes, _terms(x))
        if kind is AVAL:
            if not isinstance(x.dtype, np.dtype):
                raise pickle.PicklingError(f"values of type {x.dtype}")
            return _aval, (x.shape, x.dtype, x.weak_type)
        if kind is Literal:
            return Literal, (x.aval, _value(x.val), x.id)
        if isinstance(x, CORE.Primitive):
            if hasattr(x, "made_by"):
                return _made, (x.made_by,)
            if _primitives(x.name).get(x.name) is not x:
                raise pickle.PicklingError(f"the step {x.name}")
            return _primitive, (x.name,)
        if kind in (CORE.Jaxpr, ClosedJaxpr):
            program = Program(x)
            # One with sizes in it is made of a program among the `bodies` of its step; this one is told from others.
            return (object, ()) if any(map(_has_sizes, program.vars)) else (jaxpr_of, (program,))
        if isinstance(x, jax.sharding.NamedSharding) and x.mesh.empty:
            return _over_no_devices, (len(x.spec),)
        if kind is FunctionType and x.__code__.co_filename == symbols.WRITTEN:
            names = {k: v for k, v in x.__globals__.items() if k != "__builtins__"}
            return _function, (marshal.dumps(x.__code__), names)
        if kind is FunctionType and str(x.__module__).startswith(_NUMPY_CODE) and "<" in x.__qualname__:
            defaults, cells = (x.__defaults__, x.__kwdefaults__), [c.cell_contents for c in x.__closure__ or ()]
            return _inner_function, (x.__module__, x.__code__, x.__name__, defaults, cells)
        if isinstance(x, CodeType):
            return _code, (marshal.dumps(x), os.path.relpath(x.co_filename, _PACKAGE))
        if not _is_known(x):
            raise pickle.PicklingError(f"a {kind.__name__}")
        return NotImplemented


def _has_sizes(v: Any) -> bool:
    return Size in map(type, v.aval.shape)


def _is_known(x: Any) -> bool:
    """Whether an object is one of those that are the same in another process."""
    kind = x if isinstance(x, type) else x.__class__
    named = getattr(x, "__module__", None) if isinstance(x, FunctionType | type) else kind.__module__
    return (
        str(named).partition(".")[0] in _KNOWN
        and "<" not in getattr(x, "__qualname__", "")
        and not isinstance(x, jax.Array | jax.sharding.Sharding | jax.sharding.Mesh | jax.Device)
    )


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, sizes: Sizes, of: TraceFile | None) -> None:
        super().__init__(file)
        self._sizes, self._of = sizes, of

    def persistent_load(self, key: Any) -> Sizes | Place | None:
        """Return the symbols, or the place of a program."""
        if key == _SYMBOLS:
            return self._sizes
        return None if self._of is None else Place(self._of, key)


def _terms(x: Any) -> Any:
    """Return a size without the numbers of its quotients, which differ in each process."""
    if x.__class__ is not Size:
        return int(x)
    sizes = x.sizes
    return [
        (c, [i if i < sizes.n else (*map(_terms, sizes.quotients[i - sizes.n]),) for i in factors])
        for factors, c in x.terms
    ]


def _size(sizes: Sizes, terms: Any) -> Any:
    """Make a size of its terms."""
    if terms.__class__ is int:
        return terms
    found: dict[tuple[int, ...], int] = {}
    for c, factors in terms:
        numbers = [i if i.__class__ is int else _quotient(sizes, *i) for i in factors]
        found[tuple(sorted(numbers))] = c
    return sizes.size(found)


def _quotient(sizes: Sizes, a: Any, b: Any) -> int:
    return sizes.quotient(_size(sizes, a), _size(sizes, b)).terms[0][0][0]


def _aval(shape: Any, dtype: Any, weak: bool) -> Any:
    """Make what is known of a value."""
    if Size not in map(type, shape):
        return _aval_of_jax(shape, dtype, weak)
    made = object.__new__(Aval)  # how many elements it has is asked of those for given sizes alone
    made.shape, made.dtype, made.weak_type, made.ndim = shape, dtype, weak, len(shape)
    return made


@functools.lru_cache(256)
def _aval_of_jax(shape: Any, dtype: Any, weak: bool) -> Any:
    return jax.core.ShapedArray(shape, dtype, weak_type=weak)


def _value(x: Any) -> Any:
    """Return the value of a literal as it is kept."""
    if x.__class__ in _PLAIN or isinstance(x, np.generic):
        return x
    x = np.asarray(x)
    if x.nbytes > _LARGEST:
        raise pickle.PicklingError(f"an array of {x.nbytes} bytes")
    return x


_PRIMITIVES: dict[str, Any] = {}


def _primitives(name: str) -> dict[str, Any]:
    """Return JAX's steps by name, among them that of this name if it is known yet."""
    if name not in _PRIMITIVES:
        found: dict[str, set[Any]] = {}
        for p in list(LOWERINGS):
            found.setdefault(p.name, set()).add(p)
        _PRIMITIVES.update({name: ps.pop() for name, ps in found.items() if len(ps) == 1})
        public = {p.name: p for p in vars(jax.lax.linalg).values() if isinstance(p, CORE.Primitive)}
        _PRIMITIVES.update(public)  # there is an `eigh` of JAX's own beside the public one
    return _PRIMITIVES


def _over_no_devices(dims: int) -> Any:
    """Return the sharding of an array that is on one device."""
    return _aval_of_jax((1,) * dims, np.dtype("float32"), False).sharding


def _made(make: Callable[[], Any]) -> Any:
    return make()


def _primitive(name: str) -> Any:
    return _primitives(name)[name]


def _inner_function(module: str, code: CodeType, name: str, defaults: Any, cells: Sequence[Any]) -> FunctionType:
    """Make a function that was defined in another one; `cells` are the values that it had of that one's variables."""
    names = vars(importlib.import_module(module))
    made = FunctionType(code, names, name, defaults[0], tuple(map(CellType, cells)))
    made.__kwdefaults__ = defaults[1]
    return made


def _code(code: bytes, file: str) -> CodeType:
    """Return code of a file of this package, which may have been in another folder when the code was kept."""
    return _in_file(marshal.loads(code), os.path.normpath(_PACKAGE / file))


def _in_file(code: CodeType, file: str) -> CodeType:
    if code.co_filename == file:
        return code
    constants = [_in_file(c, file) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.replace(co_filename=file, co_consts=tuple(constants))


def _function(code: bytes, names: dict[str, Any]) -> FunctionType:
    return FunctionType(marshal.loads(code), {**names})
