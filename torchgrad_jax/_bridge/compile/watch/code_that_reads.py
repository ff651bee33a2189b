"""What a function of Python can have read follows from its own code: the names in it, and how it uses them.

    code = code_of(step.__code__)
    code.attributes  # the names that it looks up in objects: frozenset({"weight", "scale"})
    code.globals     # the names that it looks up in its module: frozenset({"torch", "CONFIG"})

Whose a code is decides whether it is looked at: ours is not, and a library's works for its caller.
"""

from __future__ import annotations

import builtins
import dis
import functools
import os
import re
import sys
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from ...._core.python_code import CALLERS, OURS, PACKAGE, USERS, whose

_CALLED_AT_ANY_TIME = frozenset([("_weakrefset.py", "_remove"), ("weakref.py", "remove"), ("weakref.py", "_remove")])
"""Functions that run when an object dies, whatever code is running then."""
_OP = dis.opmap
_METHODS_ARE_ATTRIBUTES = sys.version_info >= (3, 12)
_NAMED = {
    _OP[op]: (kind, shift)
    for kind, shift, ops in (
        ("globals", 1, "LOAD_GLOBAL"),
        ("globals", 0, "LOAD_NAME STORE_NAME STORE_GLOBAL DELETE_GLOBAL DELETE_NAME LOAD_FROM_DICT_OR_GLOBALS"),
        ("attributes", int(_METHODS_ARE_ATTRIBUTES), "LOAD_ATTR"),
        ("attributes", 0, "LOAD_METHOD STORE_ATTR DELETE_ATTR IMPORT_FROM"),
        ("attributes", 2, "LOAD_SUPER_ATTR"),
        ("imports", 0, "IMPORT_NAME"),
    )
    for op in ops.split()
    if op in _OP
}
"""Instructions with a name: of what it is a name, and how many bits of the argument come after it."""
_LOAD_GLOBAL, _LOAD_ATTR, _LOAD_CONST = _OP["LOAD_GLOBAL"], _OP["LOAD_ATTR"], _OP["LOAD_CONST"]
_LOADS = (_LOAD_GLOBAL, _LOAD_ATTR, _OP.get("LOAD_METHOD", -1))
_WRITES = (_OP["STORE_ATTR"], _OP["DELETE_ATTR"])
_STANDS_FOR = {
    _OP["LOAD_BUILD_CLASS"]: ("globals", "__build_class__"),
    _OP["MATCH_CLASS"]: ("attributes", "__match_args__"),
}
"""Instructions that look a name up without having it."""
_HANDLES, _HANDLER, _POP, _IS_OP, _EXTENDED = (
    _OP[name] for name in ("CHECK_EXC_MATCH", "PUSH_EXC_INFO", "POP_TOP", "IS_OP", "EXTENDED_ARG")
)
_NULL_AFTER = _OP["PUSH_NULL"] if sys.version_info >= (3, 13) else -1
"""What follows on a function that is called, where the interpreter has it there and not in front."""

_FAST = {_OP[name] for name in ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW") if name in _OP}
_VARIABLES = _FAST | {_OP[name] for name in ("LOAD_DEREF", "LOAD_CLOSURE", "LOAD_GLOBAL", "LOAD_NAME") if name in _OP}
_PUSH_NULL = _OP["PUSH_NULL"]
_COMPARES = {_OP[name] for name in ("COMPARE_OP", "CONTAINS_OP", "FORMAT_VALUE", "FORMAT_SIMPLE") if name in _OP}

_BY_NAME = frozenset([
    "getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller", "__getattribute__", "__setattr__",
    "__delattr__",
])  # fmt: skip
"""Functions that take the name of an attribute as text."""
LOOKERS = frozenset([getattr, hasattr, setattr, delattr, vars, dir])
"""Built-in functions that look attributes up."""
_WHOLE = frozenset(
    ["vars", "dir", "__dict__", "__getstate__", "__reduce_ex__", "globals", "locals", "asdict", "fields"]
)
"""Names by which code gets all attributes of an object, or all variables of a module."""
_OF_OBJECTS = _WHOLE - {"globals", "locals"}
_GIVE_ALL = frozenset(["__getitem__", "globals", "__globals__", "f_globals"])
"""Names of dicts of variables, and of what looks into a dict, where a text may be a name."""
_TEXTS = frozenset(["repr", "str", "format", "print"])
_CLASSES = frozenset(["isinstance", "issubclass", "type", "__class__"])
_FORM = frozenset([
    "device", "dim", "dtype", "element_size", "is_complex", "is_contiguous", "is_floating_point", "itemsize", "len",
    "nbytes", "ndim", "ndimension", "nelement", "numel", "shape", "size", "storage_offset", "stride", "type",
])  # fmt: skip
"""Names in code that looks at the shape, dtype or layout of a tensor."""
NAMED_BY_CALLER = frozenset(["__getattr__", "__setattr__", "__delattr__", "__getattribute__"])
"""Methods whose second parameter is the name of an attribute, which stands in the code that looks it up."""
_IDENTIFIER = re.compile(r"[^\W\d]\w*\Z")


class Code:
    """What a code object names."""

    __slots__ = (
        "attributes", "calls_super", "catches", "compares", "compares_identity", "computes_names", "globals", "imports",
        "is_module", "is_package", "looks_at_all", "looks_deep", "may_ask_for_absent", "of", "only_called",
        "reads_class", "reads_form", "reads_requires_grad", "reads_type", "scanned", "tells", "values", "whose",
        "writes",
    )  # fmt: skip

    def __init__(self, of: types.CodeType, file: str | None = None) -> None:
        self.of = weakref.ref(of, functools.partial(_forget, id(of)))
        self.whose = whose(of.co_filename) if file is None else file
        if self.whose == CALLERS and (os.path.basename(of.co_filename), of.co_name) in _CALLED_AT_ANY_TIME:
            self.whose = OURS
        self.is_package = self.whose == USERS and of.co_filename.startswith(PACKAGE)
        """Whether it is a layer of this package, which takes numbers that are followed."""
        self.is_module = of.co_name == "<module>"
        """Whether it is the body of a module, or text that is evaluated."""
        self.tells: Callable[[Any, Any], None] | None = None
        """For code of ours that runs for an object of the user's: gets an observer and that object's frame."""
        self.scanned = False

    def scan(self) -> Code:
        """Read the instructions, once, when the code is known to have run."""
        if not self.scanned:
            of = self.of()
            assert of is not None  # who asks has a frame or a function of it
            self.scanned = True
            self._scan(of)
        return self

    def names(self, name: str) -> bool:
        """Return whether it names something."""
        return name in self.attributes or name in self.globals

    def take_for_one_that_looks_at_all(self) -> None:
        """It has `getattr` or the like under another name: it may look up any name in any object."""
        self.computes_names = self.looks_at_all = self.may_ask_for_absent = True
        self.looks_deep = self.whose == USERS
        of = self.of()
        self.attributes |= frozenset(filter(_IDENTIFIER.match, strings_in(of.co_consts if of else ())))

    def place(self) -> str:
        """Where it stands, for an error."""
        of = self.of()
        return "" if of is None else f" in {of.co_qualname} ({of.co_filename}:{of.co_firstlineno})"

    def _scan(self, code: types.CodeType) -> None:
        found = self._names_in(code)
        attributes, of_globals = found["attributes"], found["globals"]
        texts = set(strings_in(code.co_consts)) - {"__builtins__"}  # whose names are looked up one by one
        named = attributes | of_globals
        self.computes_names = not _BY_NAME.isdisjoint(named) and _computes_names(code)
        self.looks_at_all = not _WHOLE.isdisjoint(named)
        """Whether it may look at all attributes of an object, by whatever name."""
        self.looks_deep = self.whose == USERS and (self.looks_at_all or self.computes_names) and _looks_deep(code)
        """Whether that object may be one that it has found in this way."""
        matches = "__match_args__" in attributes
        self.may_ask_for_absent = matches or not _BY_NAME.isdisjoint(named)
        if self.may_ask_for_absent or self.looks_at_all or not _GIVE_ALL.isdisjoint(named):
            attributes |= {text for text in texts if _IDENTIFIER.match(text)}
        if "f_globals" in named:
            of_globals |= texts
        for text in texts if not named.isdisjoint(("format", "format_map", "eval", "exec")) else ():
            names = names_in(text) - {"__builtins__"}
            attributes |= names
            of_globals |= names if "eval" in named or "exec" in named else set()
        self.attributes, self.globals = frozenset(attributes), frozenset(of_globals)
        self.imports, self.values, self.writes = map(frozenset, (found["imports"], found["values"], found["writes"]))
        self.only_called = (self.attributes | self.globals) - self.values - found["looked into"]
        """Names of which it does nothing but call what they stand for."""
        self.compares_identity |= "id" in of_globals
        """Whether it asks whether something is one object with something else than None, True and the like."""
        self.compares |= not _TEXTS.isdisjoint(of_globals)
        """Whether it may compare objects, or make text of them."""
        self.calls_super = "super" in of_globals
        self.reads_type = "type" in of_globals
        self.reads_class = matches or not _CLASSES.isdisjoint(named)
        """Whether it may ask of what class an object is."""
        self.reads_form = not _FORM.isdisjoint(named)
        self.reads_requires_grad = "requires_grad" in attributes

    def _names_in(self, code: types.CodeType) -> dict[str, set[str]]:
        """The names in the instructions, by what the code does with them; what else it does is noted here."""
        found: dict[str, set[str]] = defaultdict(set)
        self.catches = self.compares = self.compares_identity = False
        before = loaded = -1
        last = ""  # the name that was loaded last: of a value, unless it is called or looked into as a module is
        for op, arg in instructions(code):
            if last and op != _NULL_AFTER:
                found["looked into" if before == _LOAD_GLOBAL and _looks_into(code, op, arg) else "values"].add(last)
            last = ""
            if op in _NAMED:
                kind, shift = _NAMED[op]
                name = code.co_names[arg >> shift]
                found[kind].add(name)
                if op in _WRITES:
                    found["writes"].add(name)
                elif op == _LOAD_GLOBAL:
                    last = "" if arg & 1 else name
                elif _is_attribute(op, arg) and not (before == _LOAD_GLOBAL and loaded & 1):
                    last = name
            elif op in _COMPARES:
                self.compares = True
            elif op in _STANDS_FOR:
                kind, name = _STANDS_FOR[op]
                found[kind].add(name)
            elif op == _IS_OP and before != _LOAD_CONST:
                self.compares_identity = True
            elif op == _HANDLES:
                self.catches |= before != _LOAD_GLOBAL or _handles_absence(code.co_names[loaded >> 1])
            elif op == _POP and before == _HANDLER:  # `except:`
                self.catches = True
            before, loaded = op, arg
        if found["imports"]:
            found["globals"].add("__import__")
        return found


def _looks_into(code: types.CodeType, op: int, arg: int) -> bool:
    """Whether an instruction looks up a name in an object: `time.time` does, `f.__call__` is `f` in another form."""
    name = None if op == _LOAD_GLOBAL else _name_in(code, op, arg)
    return name is not None and not name.startswith("__")


def _handles_absence(name: str) -> bool:
    """Return whether `except name` may catch what a missing attribute or variable raises."""
    kind = vars(builtins).get(name)
    if not isinstance(kind, type):
        return True
    return any(issubclass(error, kind) for error in (AttributeError, NameError, LookupError, ImportError))


_codes: dict[int, Code] = {}
PASSED: set[int] = set()
"""Identities of code that nobody needs to see, this package's own and JAX's: most of what runs is theirs."""


def code_of(code: types.CodeType, held: dict[str, Any] | None = None) -> Code:
    """Return what is known of a code object; found by its identity, since comparing two codes takes long.

    Args:
        code: the code.
        held: the variables of its module. Code that was made from text belongs to the file of that module.
    """
    known = _codes.get(id(code))
    if known is None or known.of() is not code:
        known = _codes[id(code)] = Code(code, _whose_text(held) if code.co_filename == "<string>" else None)
    return known


def _whose_text(held: dict[str, Any] | None) -> str | None:
    """Whose code is that was made from text: it belongs to the file of its module, or to the user."""
    file, name = ("", "") if held is None else (held.get("__file__"), str(held.get("__name__")))
    if name.startswith("namedtuple_"):  # `collections` gives such a name to the module of what it writes
        return CALLERS
    return whose(file) if isinstance(file, str) and file and name != "__main__" else USERS


def not_looked_at(*functions: types.FunctionType) -> None:
    """Functions of this package's layers that run for every layer: `reads.py` knows what they read."""
    for function in functions:
        code_of(function.__code__).whose = OURS


def _forget(key: int, of: weakref.ref[types.CodeType], codes: Any = _codes, passed: Any = PASSED) -> None:
    known = codes.get(key)
    if known is not None and known.of is of:
        del codes[key]
        passed.discard(key)


def instructions(code: types.CodeType) -> Iterator[tuple[int, int]]:
    """Each instruction and its argument, much faster than `dis` gives them."""
    held, extended = code.co_code, 0
    for i in range(0, len(held), 2):
        op = held[i]
        if op == _EXTENDED:
            extended = (extended | held[i + 1]) << 8
        elif op:  # 0 is a place where the interpreter keeps what it has learned
            yield op, held[i + 1] | extended
            extended = 0


def names_in(text: str) -> set[str]:
    """The names in a text."""
    return set(re.findall(r"[^\W\d]\w*", text))


def strings_in(constants: Any) -> Iterator[str]:
    """The texts among the constants of a code, also in tuples and sets."""
    for const in constants:
        if isinstance(const, str):
            yield const
        elif isinstance(const, tuple | frozenset):
            yield from strings_in(const)


def _computes_names(code: types.CodeType) -> bool:
    """Return whether the name that `getattr` or a relative of it is given is anything but a text in the code.

    The second argument is found by going back from the call, counting what each instruction leaves on the stack.
    """
    if code.co_name in NAMED_BY_CALLER:
        return False  # the code that looked the attribute up has named it
    steps = [(op, arg) for op, arg in instructions(code)]
    for at, (op, arg) in enumerate(steps):
        if _name_in(code, op, arg) in _BY_NAME and not _is_given_text(code, steps, at):
            return True
    named = set(code.co_names)
    return not named.isdisjoint(("attrgetter", "methodcaller"))


def _looks_deep(code: types.CodeType) -> bool:
    """Return whether the object of which a name is computed may be another one than those that the code itself names.

    `getattr(self.config, name)` names its object: a variable that is given no other one, and attributes. An object
    that comes out of a call, as in `getattr(getattr(x, a), b)`, or out of a loop that walks a tree, is not named.
    """
    steps = list(instructions(code))
    given = {n for op, arg in steps if dis.opname[op].startswith("STORE_FAST") for n in _variables_of(op, arg)}
    for at, (op, arg) in enumerate(steps):
        name = _name_in(code, op, arg)
        if name in _BY_NAME and code.co_name not in NAMED_BY_CALLER and not _is_given_text(code, steps, at):
            named = name not in ("attrgetter", "methodcaller") and (op != _LOAD_GLOBAL or bool(arg & 1))
        else:
            named = name in _OF_OBJECTS
            if not named:
                continue
        path = _path_after(steps, at) if op == _LOAD_GLOBAL else _path_before(steps, at)
        if not named or not path or not _is_variable(*path[0], given):
            return True
        if any(_name_in(code, *step) in _WHOLE for step in path):
            return True
    return False


def _variables_of(op: int, arg: int) -> tuple[int, ...]:
    """The variables of an instruction, some of which have two."""
    return (arg >> 4, arg & 15) if dis.opname[op].count("_FAST") > 1 else (arg,)


def _path_after(steps: list[tuple[int, int]], at: int) -> list[tuple[int, int]]:
    """The variable and the attributes that make the first argument of a function; nothing if that is called, too."""
    path: list[tuple[int, int]] = []
    for op, arg in steps[at + 1 :]:
        if op == _PUSH_NULL and not path:
            continue
        if path and (op in _VARIABLES or op == _LOAD_CONST or dis.opname[op] in ("PRECALL", "CALL")):
            return path
        if not (op in _VARIABLES or _is_attribute(op, arg)):
            break
        path.append((op, arg))
    return []


def _path_before(steps: list[tuple[int, int]], at: int) -> list[tuple[int, int]]:
    """The variable and the attributes in which a name is looked up."""
    path: list[tuple[int, int]] = []
    for op, arg in steps[at - 1 :: -1] if at else ():
        path.append((op, arg))
        if not _is_attribute(op, arg):
            break
    return path[::-1]


def _is_attribute(op: int, arg: int) -> bool:
    return op == _LOAD_ATTR and not (_METHODS_ARE_ATTRIBUTES and arg & 1)


def _is_variable(op: int, arg: int, given: set[int]) -> bool:
    """Return whether an instruction loads a variable, to call nothing, that the code gives no other object."""
    return op in _VARIABLES and not (op in _FAST and arg in given) and not (op == _LOAD_GLOBAL and arg & 1)


def _name_in(code: types.CodeType, op: int, arg: int) -> str | None:
    """The name that an instruction looks up."""
    return code.co_names[arg >> _NAMED[op][1]] if op in _LOADS else None


def _is_given_text(code: types.CodeType, steps: list[tuple[int, int]], at: int) -> bool:
    depth, is_text = 0, False
    for op, arg in steps[at + 1 :]:
        name = dis.opname[op]
        if op in dis.hasjrel or op in dis.hasjabs or (depth == 0 and name in ("PUSH_NULL", *_CALL_ARGUMENTS)):
            return False
        if is_text and depth == arg + _CALL_ARGUMENTS.get(name, -len(steps)):
            return True
        effect = dis.stack_effect(op, arg if op >= dis.HAVE_ARGUMENT else None)
        depth += effect
        if depth == 2 and name != "KW_NAMES":  # what has made the second argument, or made another one of it
            is_text = effect == 1 and op == _LOAD_CONST and isinstance(code.co_consts[arg], str)
    return False


_CALL_ARGUMENTS = {"PRECALL": 0, "CALL": 0, "CALL_KW": 1}
"""Instructions that call, and what else each takes besides the arguments that it counts."""
