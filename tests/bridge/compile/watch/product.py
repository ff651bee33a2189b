"""Short steps, made as a product: each reads a number through holders of all kinds, and the number changes.

    kinds of holders, one in the other x where the step has them from x the form in which it reads each x what changes

    held = [({"k": 2.0},), None]
    def step(x):
        a0, _ = held                  # a list, unpacked
        a1 = next(iter(a0))           # a tuple, iterated over
        n = a1.get("k")               # a dict: the leaf
        return x * n
    # then: the leaf gets another number, or one of the holders another leaf

A kind is a row of `HOLDERS` or of `LEAVES`: how it is made of what is in it, how that is changed afterwards (empty: it
cannot be), and the forms in which it is read. In these `$h` is the holder, `$v` what is in it, and `$o` what is read.
"""

import random
import textwrap
import types
import zlib
from collections.abc import Iterator
from string import Template
from typing import Any, NamedTuple

HEAD = """
import collections, dataclasses, enum, functools, itertools, operator, types, weakref
import numpy as np
import torchgrad_jax as torch
from torchgrad_jax import nn

class Own:
    def __init__(self, v): self.v = v
class Slotted:
    __slots__ = ("v",)
    def __init__(self, v): self.v = v
class Property:
    def __init__(self, v): self.inner = v
    v = property(lambda self: self.inner)
class Cached(Own):
    @functools.cached_property
    def w(self): return self.v
class Method(Own):
    def get(self): return self.v
class OwnDict(dict): pass
class OwnTuple(tuple): pass
@dataclasses.dataclass
class Plain: v: object
@dataclasses.dataclass(frozen=True)
class Frozen: v: object
@dataclasses.dataclass(slots=True)
class WithSlots: v: object
Named = collections.namedtuple("Named", "v w")

def first(a, *_): return a
def keyed(k, **_): return k
def same(a): return a
def called(f): return f()
def there(a): return a is not None
def missing(a): return a is None
def objects(*values):
    array = np.empty(len(values), dtype=object)
    for i, v in enumerate(values):
        array[i] = v
    return array
def enclosing(v): return lambda: v
def remembering(v): return functools.lru_cache(lambda: v)
def setting(n):
    def read(): return n
    def write(m):
        nonlocal n
        n = m
    return read, write
alive = []
def kept(x):
    alive.append(x)
    return x
"""

WAYS = {
    "function": "def step(x):\n$body",
    "closure": "def make(held):\n    def step(x):\n$deeper\n    return step\nstep = make(held)",
    "default": "def step(x, held=held):\n$body",
    "partial": "def given(held, x):\n$body\nstep = functools.partial(given, held)",
    "argument": "def step(x, held):\n$body",
    "method": "class Step(Own):\n    def step(self, x):\n        held = self.v\n$deeper\nstep = Step(held).step",
    "module": "class Step(nn.Module):\n    def forward(self, x):\n        held = self.held\n$deeper\n"
    "step = Step()\nstep.held = held",
    "helper": "def helper(x):\n$body\ndef step(x):\n    return helper(x)",
    "library": "def step(x):\n$body",
}

BUILD = """
def build():
{build}
    def change():
{change}
    return h0, change
held, change = build()
{step}
"""


class Kind(NamedTuple):
    """One kind of holder."""

    make: str
    put: str
    reads: dict[str, str]


class Read(NamedTuple):
    """One thing that a step reads, and in which form."""

    kind: Kind
    name: str
    form: str


def _then(forms: dict[str, str], code: str) -> dict[str, str]:
    """Forms that read one thing more."""
    return {form: f"{before}\n{code}" for form, before in forms.items()}


def _forms(text: str, **more: str) -> dict[str, str]:
    """Forms of reading from lines `name: statements`."""
    rows = (line.strip().partition(": ") for line in text.strip().splitlines())
    return {name: code.replace("; ", "\n") for name, _, code in rows} | more


_IN_ORDER = _forms(
    """
    unpacking: $o, *_ = $h
    star: $o = first(*$h)
    comprehension: [$o] = [a for a in $h if a is not None]
    generator: $o = next(a for a in $h if a is not None)
    map: $o = next(map(same, $h))
    zip: $o = next(zip($h, range(1)))[0]
    filter: [$o] = filter(there, $h)
    sorted: $o = sorted($h, key=missing)[0]
    max: $o = max($h, key=there)
    chain: $o = next(itertools.chain($h, [None]))
    enumerate: $o = next(enumerate($h))[1]
    list: $o = list($h)[0]
    next: $o = next(iter($h))
""",
    iteration="for $o in $h:\n    if $o is not None:\n        break",
)
_SEQUENCE = _IN_ORDER | _forms("""
    index: $o = $h[0]
    method: $o = $h.__getitem__(0)
    itemgetter: $o = operator.itemgetter(0)($h)
    reversed: $o = list(reversed($h))[-1]
""")
_MATCH = {"match": "match $h:\n    case [$o, *_]: pass"}
_SLICE = {"slice": "$o = $h[:1][0]"}
_MAPPING = _forms(
    """
    index: $o = $h["k"]
    get: $o = $h.get("k")
    bound: get = $h.get; $o = get("k")
    method: $o = $h.__getitem__("k")
    map: $o = next(map($h.get, ["k"]))
    partial: $o = functools.partial($h.get, "k")()
    itemgetter: $o = operator.itemgetter("k")($h)
    values: $o = next(iter($h.values()))
    items: $o = dict($h.items())["k"]
    unpacking: [$o] = $h.values()
    copy: $o = {**$h}["k"]
    star: $o = keyed(**$h)
    comprehension: [$o] = [$h[key] for key in $h]
""",
    iteration="for _, $o in $h.items():\n    pass",
    match='match $h:\n    case {"k": $o}: pass',
)
_ATTRIBUTE = _forms("""
    attribute: $o = $h.v
    getattr: $o = getattr($h, "v")
    computed: $o = getattr($h, "".join(["v"]))
    attrgetter: $o = operator.attrgetter("v")($h)
    object: $o = object.__getattribute__($h, "v")
""")
_DICT = _forms("""
    vars: $o = vars($h)["v"]
    dict: $o = $h.__dict__.get("v")
""")
_PATTERN = {"match": "match $h:\n    case object(v=$o): pass"}
_CALL = _forms("""
    call: $o = $h()
    map: $o = next(map(called, [$h]))
    method: $o = $h.__call__()
    comprehension: [$o] = [f() for f in [$h]]
""")

_CACHED = _forms("""
    attribute: $o = $h.w
    getattr: $o = getattr($h, "w")
""")
_CLASS = _forms("""
    attribute: $o = $h.v[0]
    getattr: $o = getattr($h, "v")[0]
    vars: $o = vars($h)["v"][0]
    instance: $o = $h().v[0]
""")
_ENUM = _forms("""
    attribute: $o = $h.A.value[0]
    index: $o = $h["A"].value[0]
    iteration: [$o] = [member.value[0] for member in $h]
    getattr: $o = getattr($h, "A").value[0]
""")

HOLDERS = {
    "list": Kind("$h = [$v, None]", "$h[0] = $v", _SEQUENCE | _MATCH | _SLICE),
    "tuple": Kind("$h = ($v, None)", "", _SEQUENCE | _MATCH | _SLICE),
    "tuple's subclass": Kind("$h = OwnTuple([$v, None])", "", _SEQUENCE | _MATCH | _SLICE),
    "named tuple": Kind("$h = Named($v, None)", "", _SEQUENCE | _MATCH | _SLICE | _ATTRIBUTE),
    "deque": Kind("$h = collections.deque([$v, None])", "$h[0] = $v", _SEQUENCE | _MATCH),
    "object array": Kind("$h = objects($v, None)", "$h[0] = $v", _IN_ORDER | _SLICE | _forms("index: $o = $h[0]")),
    "dict": Kind("$h = {'k': $v}", "$h['k'] = $v", _MAPPING),
    "dict's subclass": Kind("$h = OwnDict(k=$v)", "$h['k'] = $v", _MAPPING),
    "defaultdict": Kind("$h = collections.defaultdict(list, k=$v)", "$h['k'] = $v", _MAPPING),
    "Counter": Kind("$h = collections.Counter({'k': $v})", "$h['k'] = $v", _MAPPING),
    "OrderedDict": Kind("$h = collections.OrderedDict(k=$v)", "$h['k'] = $v", _MAPPING),
    "ChainMap": Kind("$h = collections.ChainMap({}, {'k': $v})", "$h.maps[1]['k'] = $v", _MAPPING),
    "proxy": Kind("source_$h = {'k': $v}\n$h = types.MappingProxyType(source_$h)", "source_$h['k'] = $v", _MAPPING),
    "set": Kind("$h = {kept(Own($v))}", "$h.clear()\n$h.add(kept(Own($v)))", _then(_IN_ORDER, "$o = $o.v")),
    "frozen set": Kind("$h = frozenset([kept(Own($v))])", "", _then(_IN_ORDER, "$o = $o.v")),
    "instance": Kind("$h = Own($v)", "$h.v = $v", _ATTRIBUTE | _DICT | _PATTERN),
    "slots": Kind("$h = Slotted($v)", "$h.v = $v", _ATTRIBUTE | _PATTERN),
    "property": Kind("$h = Property($v)", "$h.inner = $v", _ATTRIBUTE | _PATTERN),
    "cached property": Kind("$h = Cached($v)\n$h.w", "", _CACHED),
    "dataclass": Kind("$h = Plain($v)", "$h.v = $v", _ATTRIBUTE | _DICT | _PATTERN),
    "frozen dataclass": Kind("$h = Frozen($v)", "object.__setattr__($h, 'v', $v)", _ATTRIBUTE | _DICT | _PATTERN),
    "dataclass with slots": Kind("$h = WithSlots($v)", "$h.v = $v", _ATTRIBUTE | _PATTERN),
    "namespace": Kind("$h = types.SimpleNamespace(v=$v)", "$h.v = $v", _ATTRIBUTE | _DICT | _PATTERN),
    "class": Kind("$h = type('Class', (), {'v': kept([$v])})", "$h.v = [$v]", _CLASS),
    "module": Kind("$h = types.ModuleType('held')\n$h.v = $v", "$h.v = $v", _ATTRIBUTE | _DICT),
    "closure": Kind("$h = enclosing($v)", "", _CALL),
    "variable of a closure": Kind("$h, put_$h = setting($v)", "put_$h($v)", _CALL),
    "default": Kind("$h = lambda a=$v: a", "$h.__defaults__ = ($v,)", _CALL),
    "keyword's default": Kind("$h = lambda *, a=$v: a", "$h.__kwdefaults__['a'] = $v", _CALL),
    "partial": Kind("$h = functools.partial(same, $v)", "", _CALL | _forms("args: $o = $h.args[0]")),
    "bound method": Kind(
        "own_$h = Method($v)\n$h = own_$h.get", "own_$h.v = $v", _CALL | _forms("of: $o = $h.__self__.v")
    ),
    "method of C": Kind("own_$h = [$v]\n$h = own_$h.copy", "own_$h[0] = $v", _then(_CALL, "[$o] = $o")),
    "weak reference": Kind(
        "own_$h = kept(Own($v))\n$h = weakref.ref(own_$h)", "own_$h.v = $v", _then(_CALL, "$o = $o.v")
    ),
    "enum": Kind("$h = enum.Enum('Kind', {'A': kept([$v])})", "$h.A.value[0] = $v", _ENUM),
    "cached result": Kind("$h = remembering($v)\n$h()", "", _CALL),
}

_NUMBERS = {form: code for form, code in _IN_ORDER.items() if form not in ("filter", "comprehension", "generator")}
LEAVES = {
    "number in a dict": Kind("$h = {'k': $v}", "$h['k'] = $v", _MAPPING),
    "element of an array": Kind(
        "$h = np.array([$v, 1.0])",
        "$h[0] = $v",
        _SLICE
        | _NUMBERS
        | _forms("""
        index: $o = $h[0]
        item: $o = $h.item(0)
        bound: item = $h.item; $o = item(0)
        tolist: $o = $h.tolist()[0]
        sum: $o = float($h.sum())
    """),
    ),
    "byte": Kind(
        "$h = bytearray([int($v), 1])",
        "$h[0] = int($v)",
        _NUMBERS
        | _forms("""
        index: $o = $h[0]
        bytes: $o = bytes($h)[0]
        text: $o = float($h.hex()[:2])
    """),
    ),
    "attribute": Kind("$h = Own($v)", "$h.v = $v", _ATTRIBUTE | _DICT | _PATTERN),
    "member": Kind(
        "$h = {$v}",
        "$h.clear()\n$h.add($v)",
        _NUMBERS
        | _forms("""
        in: $o = 3.0 if 2.0 in $h else 5.0
        bound: $o = 3.0 if $h.__contains__(2.0) else 5.0
        sum: $o = sum($h)
        copy: [$o] = $h | set()
        pop: $o = set($h).pop()
    """),
    ),
    "function": Kind("$h = lambda n=$v: n", "$h.__defaults__ = ($v,)", _CALL),
    "variable": Kind("$h, put_$h = setting($v)", "put_$h($v)", _CALL),
    "tensor": Kind(
        "$h = torch.tensor($v)",
        "$h.fill_($v)",
        _forms("""
        self: $o = $h
        times: $o = $h * 1
        expand: $o = $h.expand(2)
    """),
    ),
}


class Program(NamedTuple):
    """One step, and what changes after its first call."""

    chain: tuple[Read, ...]
    """From the outermost holder to the leaf."""
    at: int
    """Which of these gets something else."""
    way: str

    @property
    def label(self) -> str:
        """What is read in which form, where it changes, and where the step stands."""
        reads = " > ".join(f"{read.name}, {read.form}" for read in self.chain)
        return f"{reads}; {self.chain[self.at].name} {self.at} changes; {self.way}"

    @property
    def may_be_an_input(self) -> bool:
        """Whether what changes may be an input of the program, which cannot be stale then."""
        return self.way == "argument" or self.chain[-1].name == "tensor"

    def source(self) -> str:
        """The file of the step."""
        last = len(self.chain) - 1
        made, new = list(self._made("h", 0, 2.0)), list(self._made("new", self.at + 1, 7.0))
        put = Template(self.chain[self.at].kind.put).substitute(h=f"h{self.at}", v=f"new{self.at + 1}" if new else 7.0)
        names = ["held", *[f"a{i}" for i in range(last)], "n"]
        reads = [
            Template(read.kind.reads[read.form]).substitute(h=names[i], o=names[i + 1])
            for i, read in enumerate(self.chain)
        ]
        body = textwrap.indent("\n".join([*reads, "return x * n"]), "    ")
        step = Template(WAYS[self.way]).substitute(body=body, deeper=textwrap.indent(body, "    "))
        change = textwrap.indent("\n".join([*new, put]), " " * 8)
        build = textwrap.indent("\n".join(made), "    ")
        return BUILD.format(build=build, change=change, step=step)

    def _made(self, prefix: str, depth: int, number: float) -> Iterator[str]:
        """Statements that make what is at a depth, from the leaf on."""
        inner: Any = number
        for i in range(len(self.chain) - 1, depth - 1, -1):
            yield Template(self.chain[i].kind.make).substitute(h=f"{prefix}{i}", v=inner)
            inner = f"{prefix}{i}"

    def load(self) -> types.ModuleType:
        """The module of the step, run."""
        module = types.ModuleType("a_users_file")
        folder = "site-packages" if self.way == "library" else "code"
        for text, name in ((HEAD, "values"), (self.source(), "steps")):
            exec(compile(text, f"/{folder}/{name}.py", "exec"), vars(module))
        return module

    def results(self, wrap: Any) -> tuple[list[Any], Any]:
        """What the calls before and after the change give, or raise, and the wrapped step."""
        module, found = self.load(), []
        step = wrap(module.step)
        given = (module.held,) if self.way == "argument" else ()
        for again in (False, True):
            if again:
                module.change()
            try:
                found.append(step(module.torch.ones(2), *given).tolist())
            except Exception as error:
                found.append(error)
        return found, step


def programs() -> Iterator[Program]:
    """All of them, the plainest first, in an order that stays."""
    outer = [(name, form) for name, kind in HOLDERS.items() for form in kind.reads]
    for name, form in outer:
        for leaf in LEAVES:
            yield _program([(name, form)], leaf, 1)
        if HOLDERS[name].put:
            yield _program([(name, form)], "", 0)
    for leaf, kind in LEAVES.items():
        for form in kind.reads:
            for way in WAYS:
                yield _program([], leaf, 0, form, way)
    for depth, part in ((2, 6), (3, 24)):
        for name, form in outer:
            for other in HOLDERS:
                if zlib.crc32(f"{depth} {name} {form} {other}".encode()) % part == 0:
                    yield _program([(name, form), *[(other, "")] * (depth - 1)], "", -1)


def _program(holders: list[tuple[str, str]], leaf: str, at: int, form: str = "", way: str = "") -> Program:
    """A program; what is left open is drawn, in the same way each time."""
    draw = random.Random(f"{holders} {leaf} {at}").choice
    names = [*holders, (leaf or draw(list(LEAVES)), form)]
    for i in range(2, len(holders)):
        names[i] = draw(list(HOLDERS)), ""
    kinds = [*[HOLDERS[name] for name, _ in names[:-1]], LEAVES[names[-1][0]]]
    chain = tuple([Read(kind, name, form or draw(list(kind.reads))) for kind, (name, form) in zip(kinds, names)])
    able = [i for i, kind in enumerate(kinds) if kind.put]
    return Program(chain, draw(able) if at < 0 else at, way or draw(list(WAYS)))


def is_in_sample(program: Program) -> bool:
    """Whether a program is one of the few that run each time."""
    return zlib.crc32(program.label.encode()) % 100 == 0
