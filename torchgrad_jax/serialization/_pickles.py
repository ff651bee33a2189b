"""A machine for pickles that nobody trusts: it makes plain data, and asks its subclass about everything else.

Whatever reads a pickle of a checkpoint without trusting it is a subclass: the reader of weights and the survey of
names. No instruction reaches a class, a function or an attribute by itself. Memory and work are paid for out of a
budget that grows with the bytes that were read, so that a small file cannot ask for much; an instruction asks for
bytes only as far as the file has them. Nothing here recurses, and no text of an error shows an object of the file.
"""

from __future__ import annotations

import codecs
import io
import pickle
import struct
import sys
import types
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

MEMORY, MEMORY_PER_BYTE = 24 << 20, 28
"""Bytes that objects may take: so many, and so many more for each byte of the pickle."""

WORK, WORK_PER_BYTE = 1 << 20, 8
"""Elements of keys that may be hashed and compared."""

DEPTH = 1000
"""How deep containers may be nested: about as deep as Python's own pickler goes."""

_KEY_DEPTH, _KEY_ELEMENTS, _SAME_HASH = 32, 10_000, 64
_LINE = 5000
_SIMPLE_KEYS = frozenset({str, bytes, bool, float, type(None)})
_SMALL = 2**61 - 1  # integers below hash to themselves


Refused = pickle.UnpicklingError
"""The pickle is damaged, or asks for something that is no data."""


class Machine:
    """Runs one pickle.

    Args:
        file: an open binary file, at the beginning of the pickle; it is left behind its end.
        bounded: whether there is a budget.
    """

    OPS: dict[int, Callable[[Any], None]] = {}
    DICTS: tuple[type, ...] = (dict, OrderedDict, Counter)

    def __init__(self, file: Any, bounded: bool = True) -> None:
        self.file, self.bounded = file, bounded
        self.start = file.tell()
        self.size = file.seek(0, io.SEEK_END)
        file.seek(self.start)
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.spent, self.limit = 0, MEMORY if bounded else sys.maxsize
        self.work = 0
        self.same_hash: dict[int, dict[int, int]] = {}  # by container, by hash

    def load(self) -> Any:
        """The object of the pickle."""
        try:
            out = self._run()
            if self.bounded:
                self._check_nesting(out)
            return out
        except (pickle.UnpicklingError, EOFError, RuntimeError):
            raise
        except Exception as e:  # an empty stack, bytes that are no text, and the like
            raise Refused(f"the pickle is damaged: {type(e).__name__}") from e

    def _run(self) -> Any:
        read, ops = self.file.read, self.OPS
        while True:
            code = read(1)
            if not code:
                raise EOFError("Ran out of input")
            if code == b".":
                return self.stack.pop()
            op = ops.get(code[0])
            if op is None:
                raise Refused(f"Unsupported operand {code[0]}")
            op(self)
            if self.spent > self.limit:
                self._check_budget()

    # --- what subclasses decide ---

    def elsewhere(self) -> int:
        """Bytes that objects may take because of what the file holds beside the pickle."""
        return 0

    def find(self, module: str, name: str) -> Any:
        """Return what a global stands for."""
        raise Refused(f"Unsupported global: GLOBAL {f'{module}.{name}'[:200]}")

    def call(self, func: Any, args: Any) -> Any:
        """The result of a function or class of the file."""
        raise Refused("nothing can be called here")

    def new(self, cls: Any, args: Any) -> Any:
        """An object of a class of the file."""
        raise Refused("no objects can be made here")

    def build(self, obj: Any, state: Any) -> None:
        """Set the state of an object."""
        raise Refused("no state can be set here")

    def persistent(self, pid: Any) -> Any:
        """Return what a persistent identifier stands for."""
        raise Refused("no storages here")

    def other(self, name: str) -> None:
        """An instruction that checkpoints do not need."""
        raise Refused(f"Unsupported operand: {name}, an instruction that checkpoints do not need")

    def takes(self, target: Any, kinds: tuple[type, ...]) -> bool:
        """Return whether elements of the file may be put into an object of the file; False leaves them out."""
        if type(target) not in kinds:
            raise Refused(f"an object of {type(target).__name__} takes no elements")
        return True

    def check_part(self, x: Any) -> None:
        """Refuse an object, met in what was loaded, that is no data."""

    # --- the result ---

    def _check_nesting(self, root: Any) -> None:
        """Refuse an object that is nested so deeply that nobody could print, copy or compare it."""
        self.check_part(root)
        height: dict[int, int] = {}
        path: list[tuple[Any, Any, int]] = [(root, iter(_children(root)), 0)]
        while path:
            x, rest, most = path.pop()
            if len(path) + most > DEPTH:
                raise Refused(f"containers are nested more than {DEPTH} deep")
            for child in rest:
                if type(child) in _LEAVES:
                    continue
                known = height.get(id(child))
                if known is None:
                    self.check_part(child)
                    height[id(child)] = 0  # met again on the way down: a cycle, which has no depth
                    path += [(x, rest, most), (child, iter(_children(child)), 0)]
                    break
                most = max(most, known)
            else:
                height[id(x)] = most + 1
                if path:
                    parent, rest, deepest = path[-1]
                    path[-1] = parent, rest, max(deepest, most + 1)

    # --- the budget ---

    def charge(self, memory: int) -> None:
        """Pay for something before it is made."""
        self.spent += memory
        if self.spent > self.limit:
            self._check_budget()

    def _check_budget(self) -> None:
        self.limit = MEMORY + MEMORY_PER_BYTE * (self.file.tell() - self.start) + self.elsewhere()
        if self.spent > self.limit:
            raise Refused("the pickle asks for far more memory than it has bytes")

    def check_key(self, owner: Any, key: Any) -> None:
        """Refuse keys whose hashes and comparisons would take long: nested ones, and many of one hash."""
        kind = type(key)
        if kind in _SIMPLE_KEYS or (kind is int and -_SMALL < key < _SMALL) or not self.bounded:
            return
        elements = _elements_of(key)
        hashes = self.same_hash.setdefault(id(owner), {})
        n = hashes[hash(key)] = hashes.get(hash(key), 0) + 1
        self.charge(150)
        self.work += elements * (n + 1)
        if n > _SAME_HASH:
            raise Refused("too many keys with one hash")
        if self.work > WORK and self.work > WORK + WORK_PER_BYTE * (self.file.tell() - self.start):
            raise Refused("the keys of the pickle take too long to compare")

    # --- containers ---

    def put(self, target: Any, items: Iterable[tuple[Any, Any]]) -> None:
        """Set items of a dict."""
        for key, value in items:
            self.charge(70)
            self.check_key(target, key)
            target[key] = value

    def add(self, target: set[Any], values: Iterable[Any]) -> None:
        """Add elements to a set."""
        for value in values:
            self.charge(80)
            self.check_key(target, value)
            target.add(value)

    def frozen(self, values: Iterable[Any]) -> frozenset[Any]:
        """A frozenset."""
        out: set[Any] = set()
        self.add(out, values)
        self.same_hash.pop(id(out), None)  # another set may come to lie there
        return frozenset(out)

    # --- bytes ---

    def take(self, n: int) -> bytes:
        """So many bytes, if the file has them."""
        if n > self.size:
            raise Refused("the pickle is shorter than it says")
        data = self.file.read(n)
        if len(data) != n:
            raise EOFError("Ran out of input")
        return data

    def number(self, n: int) -> int:
        """An unsigned number of n bytes."""
        return int.from_bytes(self.take(n), "little")

    def line(self, limit: int = _LINE) -> bytes:
        """The bytes up to the next end of a line."""
        data = self.file.readline(min(limit, self.size) + 1)
        if not data.endswith(b"\n"):
            raise Refused("a line of the pickle has no end")
        return data[:-1]

    def push(self, value: Any) -> None:
        """Put a new value on the stack and pay for it."""
        self.spent += sys.getsizeof(value) + 8
        self.stack.append(value)

    def pop_mark(self) -> list[Any]:
        """Return what is on the stack above the last mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items


def _elements_of(key: Any) -> int:
    """The number of elements of a key and of the tuples in it."""
    count, level, depth = 1, [key], 0
    while level:
        inner = [k for k in level if isinstance(k, tuple | frozenset)]
        count += sum(map(len, inner)) + sum(k.bit_length() // 64 for k in level if type(k) is int)
        if count > _KEY_ELEMENTS or depth > _KEY_DEPTH:
            raise Refused("a key is too long, or nested too deeply")
        level, depth = [x for k in inner for x in k], depth + 1
    return count


def _children(x: Any) -> Iterable[Any]:
    """Return what a container holds, attributes included."""
    if isinstance(x, _NO_CONTAINERS):
        return ()
    held = dict.values(x) if isinstance(x, dict) else x
    inside = held if isinstance(x, list | tuple | dict | set | frozenset) else ()
    attributes = getattr(x, "__dict__", None)
    return (*inside, *attributes.values()) if attributes else inside


_NO_CONTAINERS = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
_LEAVES = frozenset({str, bytes, bytearray, int, float, bool, complex, type(None), type})


# --- instructions ---------------------------------------------------------------------------------


def _op(code: bytes) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    def put(f: Callable[[Any], None]) -> Callable[[Any], None]:
        Machine.OPS[code[0]] = f
        return f

    return put


def _sized(code: bytes, width: int, made: Callable[[bytes], Any]) -> None:
    """An instruction with a length of `width` bytes and that many bytes."""
    _op(code)(lambda m: m.push(made(m.take(m.number(width)))))


def _text(data: bytes) -> str:
    return str(data, "utf-8", "surrogatepass")


def _old_text(data: bytes) -> str:
    """A string of Python 2."""
    return str(data, "utf-8")


def _quoted(data: bytes) -> str:
    if len(data) < 2 or data[:1] != data[-1:] or data[:1] not in (b"'", b'"'):
        raise Refused("a string without quotes")
    return _old_text(codecs.escape_decode(data[1:-1])[0])


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _whole(text: bytes) -> int | bool:
    """A number in the text of protocol 0, where 00 and 01 are False and True."""
    return text == b"01" if text in (b"00", b"01") else int(text)


for _code, _width in ((pickle.BINUNICODE, 4), (pickle.SHORT_BINUNICODE, 1), (pickle.BINUNICODE8, 8)):
    _sized(_code, _width, _text)
for _code, _width in ((pickle.BINSTRING, 4), (pickle.SHORT_BINSTRING, 1)):
    _sized(_code, _width, _old_text)
for _code, _width in ((pickle.BINBYTES, 4), (pickle.SHORT_BINBYTES, 1), (pickle.BINBYTES8, 8)):
    _sized(_code, _width, bytes)
_sized(pickle.BYTEARRAY8, 8, bytearray)
_sized(pickle.LONG1, 1, _signed)
_sized(pickle.LONG4, 4, _signed)
_op(pickle.BININT)(lambda m: m.push(_signed(m.take(4))))
_op(pickle.BININT1)(lambda m: m.stack.append(m.number(1)))
_op(pickle.BININT2)(lambda m: m.push(m.number(2)))
_op(pickle.BINFLOAT)(lambda m: m.push(struct.unpack(">d", m.take(8))[0]))
_op(pickle.INT)(lambda m: m.push(_whole(m.line(30))))
_op(pickle.LONG)(lambda m: m.push(int(m.line(4000).removesuffix(b"L"))))
_op(pickle.FLOAT)(lambda m: m.push(float(m.line())))
_op(pickle.STRING)(lambda m: m.push(_quoted(m.line(m.size))))
_op(pickle.UNICODE)(lambda m: m.push(str(m.line(m.size), "raw-unicode-escape")))
_op(pickle.NONE)(lambda m: m.stack.append(None))
_op(pickle.NEWTRUE)(lambda m: m.stack.append(True))
_op(pickle.NEWFALSE)(lambda m: m.stack.append(False))
_op(pickle.EMPTY_TUPLE)(lambda m: m.stack.append(()))
_op(pickle.EMPTY_LIST)(lambda m: m.push([]))
_op(pickle.EMPTY_DICT)(lambda m: m.push({}))
_op(pickle.EMPTY_SET)(lambda m: m.push(set()))
_op(pickle.TUPLE)(lambda m: m.push(tuple(m.pop_mark())))
_op(pickle.TUPLE1)(lambda m: m.push((m.stack.pop(),)))
_op(pickle.LIST)(lambda m: m.push(m.pop_mark()))
_op(pickle.FRAME)(lambda m: m.take(8) and None)
_op(pickle.DUP)(lambda m: m.stack.append(m.stack[-1]))
_op(pickle.POP_MARK)(lambda m: m.pop_mark() and None)


@_op(pickle.PROTO)
def _protocol(m: Machine) -> None:
    if m.number(1) > pickle.HIGHEST_PROTOCOL:
        raise Refused("a pickle of an unknown protocol")


@_op(pickle.MARK)
def _mark(m: Machine) -> None:
    m.spent += 72
    m.marks.append(m.stack)
    m.stack = []


@_op(pickle.POP)
def _pop(m: Machine) -> None:
    if m.stack:
        m.stack.pop()
    else:
        m.pop_mark()


@_op(pickle.TUPLE2)
def _pair(m: Machine) -> None:
    b, a = m.stack.pop(), m.stack.pop()
    m.push((a, b))


@_op(pickle.TUPLE3)
def _triple(m: Machine) -> None:
    c, b, a = m.stack.pop(), m.stack.pop(), m.stack.pop()
    m.push((a, b, c))


def _pairs(values: list[Any]) -> zip[tuple[Any, Any]]:
    if len(values) % 2:
        raise Refused("a key without a value")
    return zip(values[::2], values[1::2])


@_op(pickle.DICT)
def _dict(m: Machine) -> None:
    items = m.pop_mark()
    m.push({})
    m.put(m.stack[-1], _pairs(items))


@_op(pickle.FROZENSET)
def _frozenset(m: Machine) -> None:
    m.push(m.frozen(m.pop_mark()))


@_op(pickle.SETITEM)
def _set_item(m: Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    _put(m, [key, value])


@_op(pickle.SETITEMS)
def _set_items(m: Machine) -> None:
    _put(m, m.pop_mark())


def _put(m: Machine, values: list[Any]) -> None:
    if m.takes(m.stack[-1], m.DICTS):
        m.put(m.stack[-1], _pairs(values))


@_op(pickle.APPEND)
def _append(m: Machine) -> None:
    _extend(m, [m.stack.pop()])


@_op(pickle.APPENDS)
def _appends(m: Machine) -> None:
    _extend(m, m.pop_mark())


def _extend(m: Machine, values: list[Any]) -> None:
    if m.takes(m.stack[-1], (list,)):
        m.spent += 8 * len(values)
        m.stack[-1].extend(values)


@_op(pickle.ADDITEMS)
def _add_items(m: Machine) -> None:
    values = m.pop_mark()
    if m.takes(m.stack[-1], (set,)):
        m.add(m.stack[-1], values)


@_op(pickle.MEMOIZE)
def _memoize(m: Machine) -> None:
    _remember(m, len(m.memo))


def _remember(m: Machine, i: int) -> None:
    m.spent += 80
    m.memo[i] = m.stack[-1]


def _recall(m: Machine, i: int) -> None:
    if i not in m.memo:
        raise Refused("the pickle is damaged: nothing was remembered under that number")
    m.stack.append(m.memo[i])


_op(pickle.PUT)(lambda m: _remember(m, int(m.line(30))))
_op(pickle.BINPUT)(lambda m: _remember(m, m.number(1)))
_op(pickle.LONG_BINPUT)(lambda m: _remember(m, m.number(4)))
_op(pickle.GET)(lambda m: _recall(m, int(m.line(30))))
_op(pickle.BINGET)(lambda m: _recall(m, m.number(1)))
_op(pickle.LONG_BINGET)(lambda m: _recall(m, m.number(4)))


def _named(m: Machine, module: Any, name: Any) -> Any:
    if type(module) is not str or type(name) is not str:
        raise Refused("the name of a global is no text")
    m.spent += 100
    return m.find(module, name)


@_op(pickle.GLOBAL)
def _global(m: Machine) -> None:
    module = str(m.line(), "utf-8")
    m.stack.append(_named(m, module, str(m.line(), "utf-8")))


@_op(pickle.STACK_GLOBAL)
def _stack_global(m: Machine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    m.stack.append(_named(m, module, name))


def _arguments(args: Any) -> tuple[Any, ...]:
    if type(args) is not tuple:
        raise Refused("arguments of a call have to be a tuple")
    return args


@_op(pickle.REDUCE)
def _reduce(m: Machine) -> None:
    args, func = _arguments(m.stack.pop()), m.stack.pop()
    m.spent += 100
    m.stack.append(m.call(func, args))


@_op(pickle.NEWOBJ)
def _new_object(m: Machine) -> None:
    args, cls = _arguments(m.stack.pop()), m.stack.pop()
    m.spent += 100
    m.stack.append(m.new(cls, args))


@_op(pickle.NEWOBJ_EX)
def _new_object_ex(m: Machine) -> None:
    m.other("NEWOBJ_EX")
    named, args, cls = m.stack.pop(), _arguments(m.stack.pop()), m.stack.pop()
    m.stack.append(m.new(cls, (*args, named)))


@_op(pickle.INST)
def _instance(m: Machine) -> None:
    m.other("INST")
    module = str(m.line(), "utf-8")
    cls = _named(m, module, str(m.line(), "utf-8"))
    args = tuple(m.pop_mark())
    m.stack.append(m.call(cls, args))


@_op(pickle.OBJ)
def _object(m: Machine) -> None:
    m.other("OBJ")
    cls, *args = m.pop_mark()
    m.stack.append(m.call(cls, tuple(args)))


@_op(pickle.BUILD)
def _build(m: Machine) -> None:
    state = m.stack.pop()
    m.build(m.stack[-1], state)


@_op(pickle.BINPERSID)
def _persistent(m: Machine) -> None:
    pid = m.stack.pop()
    m.spent += 200
    m.stack.append(m.persistent(pid))
