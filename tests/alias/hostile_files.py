"""Makes harmful files: a small builder of pickles and archives, and tables of files by name.

`python -m tests.alias.hostile_files quick` (or `heavy`) reads each of them and prints a line of JSON for each: what came of it, the peak of
memory, and what it changed in the process.
"""

# ruff: noqa: E501 - tables are easier to read in long lines

import io
import json
import pickle as p
import resource
import struct
import sys
import zipfile
import zlib
from pathlib import Path

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001

# --- pickles --------------------------------------------------------------------------------------


def integer(n):
    if 0 <= n < 256:
        return p.BININT1 + bytes([n])
    raw = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
    return (p.LONG1 + bytes([len(raw)]) if len(raw) < 256 else p.LONG4 + struct.pack("<i", len(raw))) + raw


def text(s):
    raw = s.encode()
    return p.BINUNICODE + struct.pack("<I", len(raw)) + raw


def name(full):
    module, _, attribute = full.rpartition(".")
    return p.GLOBAL + f"{module}\n{attribute}\n".encode()


def tuple_(*parts):
    return p.MARK + b"".join(parts) + p.TUPLE


def list_(*parts):
    return p.MARK + b"".join(parts) + p.LIST


def dict_(*parts):
    return p.MARK + b"".join(parts) + p.DICT


def call(full, *args):
    return name(full) + tuple_(*args) + p.REDUCE


def put(i):
    return p.LONG_BINPUT + struct.pack("<I", i)


def get(i):
    return p.LONG_BINGET + struct.pack("<I", i)


def sizes(*numbers):
    return tuple_(*map(integer, numbers))


def storage(key="0", kind="torch.FloatStorage", numel=2, location="cpu"):
    return tuple_(text("storage"), name(kind), text(key), text(location), integer(numel)) + p.BINPERSID


ORDERED = call("collections.OrderedDict")


def tensor(size=(2,), stride=(1,), offset=0, held=None):
    held = held or storage()
    return call(
        "torch._utils._rebuild_tensor_v2", held, integer(offset), sizes(*size), sizes(*stride), p.NEWFALSE, ORDERED
    )


def typed(dtype, held, size=(2,)):
    return call(
        "torch._utils._rebuild_tensor_v3",
        held,
        integer(0),
        sizes(*size),
        sizes(1),
        p.NEWFALSE,
        ORDERED,
        name(f"torch.{dtype}"),
    )


def meta(size, stride):
    return call(
        "torch._utils._rebuild_meta_tensor_no_storage", name("torch.float32"), sizes(*size), sizes(*stride), p.NEWFALSE
    )


def of_kind(state, kind="torch.Tensor"):
    args = tuple_(storage(), integer(0), sizes(2), sizes(1), p.NEWFALSE, ORDERED)
    rebuild = name("torch._utils._rebuild_tensor_v2")
    return call("torch._tensor._rebuild_from_type_v2", rebuild, name(kind), args, state)


def parameter(state):
    return call("torch._utils._rebuild_parameter_with_state", tensor(), p.NEWTRUE, ORDERED, state)


def doubled(n=60, last=p.NONE, two=p.TUPLE2):
    """Two references to two references to ...: small in memory, 2**n elements when printed or hashed."""
    out = last
    for i in range(n):
        out += put(1000 + i) + get(1000 + i) + two
    return out


NESTED = list_(doubled())


def keys(*made):
    return dict_(*(part for key in made for part in (key, p.NONE)))


def minus(i, n=14):
    """One of the 2**n tuples of -1 and -2, whose hashes are equal since those of the numbers are."""
    return tuple_(*(integer(-1 - (i >> bit & 1)) for bit in range(n)))


def changed(target):
    """Ways to write to an object."""
    yield "build", target + dict_(text("np"), integer(1), text("name"), integer(1)) + p.BUILD
    yield "build-slots", target + tuple_(p.NONE, dict_(text("np"), integer(1), text("_name"), integer(1))) + p.BUILD
    yield "item", target + text("np") + integer(1) + p.SETITEM
    yield "items", target + p.MARK + text("np") + integer(1) + p.SETITEMS
    yield "append", target + integer(1) + p.APPEND
    yield "appends", target + p.MARK + integer(1) + p.APPENDS
    yield "add", target + p.MARK + integer(1) + p.ADDITEMS


PRIME = 2**61 - 1
LISTED = list_(*[p.NONE] * 10_000) + put(0) + p.POP
LONG_TEXT = text("x" * 200_000) + put(0) + p.POP
SMALL_TENSOR = (
    name("torch._utils._rebuild_tensor_v2")
    + put(0)
    + storage()
    + put(1)
    + sizes(2)
    + put(2)
    + sizes(1)
    + put(3)
    + ORDERED
    + put(4)
    + p.POP_MARK
)
ONE_MORE = get(0) + tuple_(get(1), integer(0), get(2), get(3), p.NEWFALSE, get(4)) + p.REDUCE

DEEP = {
    "lists": p.EMPTY_LIST * 50_000 + p.APPEND * 49_999,
    "lists-2000": p.EMPTY_LIST * 2000 + p.APPEND * 1999,
    "tuples": p.NONE + p.TUPLE1 * 50_000,
    "dicts": (p.EMPTY_DICT + integer(1)) * 20_000 + p.NONE + p.SETITEM * 20_000,
    "marks": p.MARK * 800_000,
    "ordered": ORDERED + (text("k") + ORDERED) * 2000 + p.SETITEM * 2000,
    "attributes": ORDERED + (p.EMPTY_DICT + text("a") + ORDERED) * 2000 + (p.SETITEM + p.BUILD) * 2000,
    "shallow-first": p.EMPTY_LIST
    + put(0)
    + p.POP
    + b"".join(get(i) + put(9999) + p.POP + list_(get(9999)) + put(i + 1) + p.POP for i in range(3000))
    + list_(*map(get, range(3001))),
    "state-of-a-tensor": of_kind(dict_(text("a"), p.NONE + p.TUPLE1 * 5000)),
    "key": keys(p.NONE + p.TUPLE1 * 30_000),
    "element": list_(p.NONE + p.TUPLE1 * 30_000) + put(0) + p.POP + call("builtins.set", get(0)),
    "arguments": name("torch._tensor._rebuild_from_type_v2") * 3000
    + p.EMPTY_TUPLE
    + b"".join(
        put(7) + p.POP + tuple_(name("torch._tensor._rebuild_from_type_v2"), name("torch.Tensor"), get(7), p.NONE)
        for _ in range(3000)
    )
    + p.REDUCE,
}

LENGTHS = {
    **{
        f"{code}-{n}": getattr(p, code) + n.to_bytes(width, "little") + b"abc"
        for code, width in (
            ("BYTEARRAY8", 8),
            ("BINBYTES8", 8),
            ("BINUNICODE8", 8),
            ("BINUNICODE", 4),
            ("BINBYTES", 4),
            ("BINSTRING", 4),
            ("LONG4", 4),
        )
        for n in (2**31, 2 ** (8 * width) - 1, 2**30)
    },
    "digits": p.INT + b"9" * 1_000_000 + b"\n",
    "long-digits": p.LONG + b"9" * 1_000_000 + b"L\n",
    "float-digits": p.FLOAT + b"9" * 1_000_000 + b"\n",
    "module": p.GLOBAL + b"x" * 1_000_000 + b"\n" + b"y" * 1_000_000 + b"\n",
    "no-end-of-line": p.UNICODE + b"x" * 100_000,
}

DOUBLED = {
    "name": text("torch") + NESTED + p.STACK_GLOBAL,
    "module": NESTED + text("save") + p.STACK_GLOBAL,
    "called": NESTED + p.EMPTY_TUPLE + p.REDUCE,
    "arguments": name("torch.Size") + NESTED + p.REDUCE,
    "layout": call("torch.serialization._get_layout", NESTED),
    "device": call("torch.device", NESTED),
    "device-number": call("torch.device", text("cpu"), NESTED),
    "size": call("torch.Size", NESTED),
    "encoding": call("_codecs.encode", text("x"), NESTED),
    "ordered": call("collections.OrderedDict", NESTED),
    "pid": NESTED + p.BINPERSID,
    "pid-key": tuple_(text("storage"), name("torch.FloatStorage"), NESTED, text("cpu"), integer(2)) + p.BINPERSID,
    "pid-kind": tuple_(text("storage"), NESTED, text("0"), text("cpu"), integer(2)) + p.BINPERSID,
    "pid-location": tuple_(text("storage"), name("torch.FloatStorage"), text("0"), NESTED, integer(2)) + p.BINPERSID,
    "pid-text": tuple_(NESTED, name("torch.FloatStorage"), text("0"), text("cpu"), integer(2)) + p.BINPERSID,
    "key": keys(doubled()),
    "key-unhashable": keys(NESTED),
    "element": list_(doubled()) + put(0) + p.POP + call("builtins.frozenset", get(0)),
    "name-of-an-attribute": ORDERED + dict_(doubled(), p.NONE) + p.BUILD,
    "state": of_kind(NESTED),
    "size-of-a-tensor": call("torch._utils._rebuild_tensor_v2", storage(), integer(0), NESTED, NESTED, p.NONE, p.NONE),
    "memo": p.GET + b"9" * 29 + b"\n",
}

COLLIDING = {
    "integers": keys(*(integer(PRIME * i) for i in range(3000))),
    "integers-set": list_(*(integer(PRIME * i) for i in range(3000))) + put(0) + p.POP + call("builtins.set", get(0)),
    "integers-frozenset": p.MARK + b"".join(integer(PRIME * i) for i in range(3000)) + p.FROZENSET,
    "integers-added": p.EMPTY_SET + p.MARK + b"".join(integer(PRIME * i) for i in range(3000)) + p.ADDITEMS,
    "integers-ordered": call(
        "collections.OrderedDict", list_(*(list_(integer(PRIME * i), p.NONE) for i in range(3000)))
    ),
    "integers-one-by-one": p.EMPTY_DICT + b"".join(integer(PRIME * i) + p.NONE + p.SETITEM for i in range(3000)),
    "tuples": keys(*(minus(i) for i in range(2**11))),
    "nested-tuples": keys(*(tuple_(minus(i, 7), minus(i >> 5, 7)) for i in range(2**11))),
    "sets": keys(*(tuple_(minus(i)) + put(0) + p.POP + call("builtins.frozenset", get(0)) for i in range(2**10))),
    "complex": keys(*(call("builtins.complex", integer(-1000003 * i), integer(i)) for i in range(1000))),
    "attributes": ORDERED + keys(*(minus(i) for i in range(2**10))) + p.BUILD,
    "long-key-again": tuple_(*[integer(2**70)] * 9000)
    + put(0)
    + p.POP
    + p.EMPTY_DICT
    + (get(0) + p.NONE + p.SETITEM) * 20_000,
    "large-integer-again": integer(2**700_000) + put(0) + p.POP + p.EMPTY_DICT + (get(0) + p.NONE + p.SETITEM) * 20_000,
}

MEMORY = {
    "sets": p.EMPTY_SET * 400_000,
    "lists": p.EMPTY_LIST * 1_000_000,
    "dicts": p.EMPTY_DICT * 1_000_000,
    "tuples": p.NONE + p.TUPLE1 * 1_500_000,
    "memo": p.NONE + p.MEMOIZE * 700_000,
    "copied-lists": LISTED + list_(*[name("builtins.set") + get(0) + p.TUPLE1 + p.REDUCE] * 2) + (
        name("torch.Size") + get(0) + p.TUPLE1 + p.REDUCE + name("builtins.frozenset") + get(0) + p.TUPLE1 + p.REDUCE) * 5000,
    "copied-dicts": keys(*map(integer, range(10_000))) + put(0) + p.POP + name("collections.OrderedDict") + put(1) + p.POP
    + (get(1) + get(0) + p.TUPLE1 + p.REDUCE) * 5000,
    "counters": keys(*map(integer, range(10_000))) + put(0) + p.POP + name("collections.Counter") + put(1) + p.POP
    + (get(1) + get(0) + p.TUPLE1 + p.REDUCE) * 5000,
    "encoded": LONG_TEXT + name("_codecs.encode") + put(1) + p.POP + (get(1) + get(0) + p.TUPLE1 + p.REDUCE) * 5000,
    "bytearrays": p.BINBYTES + struct.pack("<I", 200_000) + b"x" * 200_000 + put(0) + p.POP + name("builtins.bytearray") + put(1) + p.POP
    + (get(1) + get(0) + p.TUPLE1 + p.REDUCE) * 5000,
    "zeros": call("builtins.bytearray", integer(2**40)),
    "ordered": name("collections.OrderedDict") + put(0) + p.POP + (get(0) + p.EMPTY_TUPLE + p.REDUCE) * 100_000,
    "tensors": p.MARK + SMALL_TENSOR + ONE_MORE * 40_000,
}  # fmt: skip

TENSORS = {
    "dtypes": list_(*(typed(d, storage(kind="torch.storage.UntypedStorage", numel=8), (1,)) for d in ("uint8", "int16", "uint16"))),
    "kinds": list_(tensor(), tensor(held=storage(kind="torch.IntStorage"))),
    "wider-kinds": list_(tensor(), tensor(held=storage(kind="torch.DoubleStorage"))),
    "numels": list_(tensor(), tensor(size=(1,), held=storage(numel=1))),
    "bytes-of-another-size": list_(tensor(), storage(kind="torch.storage.UntypedStorage", numel=4)),
    "dtype-of-the-storage": typed("int32", storage()),
    "quantized": tensor(held=storage(kind="torch.QInt8Storage")),
    "overflow": tensor(size=(2**32, 2**32), stride=(0, 0)),
    "overflow-by-item": tensor(size=(2**61,), stride=(0,)),
    "overflow-to-zero": tensor(size=(2**32, 2**32, 4), stride=(2**34, 4, 1)),
    "overflow-of-none": tensor(size=(0, 2**61, 2**61), stride=(1, 1, 1)),
    "overflow-on-meta": meta((2**31, 2**31, 2), (2**32, 2, 1)),
    "negative-on-meta": meta((-1,), (1,)),
    "negative-stride": tensor(offset=1, stride=(-1,)),
    "wrapped-offset": tensor(offset=2**64),
    "float-size": call("torch._utils._rebuild_tensor_v2", storage(), integer(0), tuple_(p.BINFLOAT + struct.pack(">d", 2.0)), sizes(1), p.NONE, p.NONE),
    "many-dimensions": tensor(size=(1,) * 100_000, stride=(1,) * 100_000),
    "gradient-of-integers": call("torch._utils._rebuild_tensor_v2", storage(kind="torch.IntStorage"), integer(0), sizes(2), sizes(1), p.NEWTRUE, ORDERED),
    "device": tensor(held=storage(location="cpu:99999999999")),
    "long-device": tensor(held=storage(location="c" * 100_000)),
    "no-device": tensor(held=storage(location="../../x")),
    "devices": list_(*(call("torch.device", text("cpu"), integer(i)) for i in range(128, 10_000))),
    "numbers-of-devices": list_(*(call("torch.device", text(f"cuda:{i}")) for i in range(128, 10_000))),
    "kind-of-tensor": of_kind(p.NONE, "collections.OrderedDict"),
    "without-a-storage": tensor(held=integer(1)),
    "function-as-data": list_(name("torch._utils._rebuild_tensor_v2")),
    "storage-class-as-data": list_(name("torch.FloatStorage")),
}  # fmt: skip

SHADOWS = {
    **{
        f"{kind}-{attribute}": make(dict_(text(attribute), p.NONE))
        for kind, make in (("tensor", of_kind), ("parameter", parameter))
        for attribute in (
            "shape",
            "data",
            "grad",
            "tolist",
            "backward",
            "requires_grad",
            "_m",
            "_st",
            "__class__",
            "__deepcopy__",
            "is_leaf",
        )
    },
    **{
        f"ordered-{attribute}": ORDERED + dict_(text(attribute), p.NONE) + p.BUILD
        for attribute in ("items", "keys", "get", "__class__", "__reduce__", "move_to_end")
    },
    "no-names": of_kind(dict_(integer(1), p.NONE)),
    "slots": of_kind(tuple_(p.NONE, dict_(text("_m"), p.NONE))),
}

WRITES = {
    f"{what}-{how}": program
    for what, target in {
        "dtype": name("torch.float32"),
        "layout": call("torch.serialization._get_layout", text("torch.strided")),
        "memory-format": call("torch.serialization._get_layout", text("torch.channels_last")),
        "device": call("torch.device", text("cpu")),
        "size": call("torch.Size", sizes(1)),
        "class": name("torch.Tensor"),
        "parameter-class": name("torch.nn.parameter.Parameter"),
        "function": name("torch._utils._rebuild_tensor_v2"),
        "ordered-class": name("collections.OrderedDict"),
        "storage-class": name("torch.FloatStorage"),
        "storage": storage(),
        "tensor": tensor(),
        "number": integer(1),
        "text": text("x"),
        "tuple": sizes(1, 2),
    }.items()
    for how, program in changed(target)
    if (what, how) != ("text", "x")
}

CODES = {
    "inst": p.MARK + b"ios\nsystem\n", "obj": p.MARK + name("os.system") + text("exit") + p.OBJ,
    "newobj-ex": name("torch.Tensor") + p.EMPTY_TUPLE + p.EMPTY_DICT + p.NEWOBJ_EX,
    "ext1": p.EXT1 + b"\1", "ext2": p.EXT2 + b"\1\0", "ext4": p.EXT4 + b"\1\0\0\0", "persid": p.PERSID + b"0\n",
    "next-buffer": p.NEXT_BUFFER, "readonly-buffer": p.NONE + p.READONLY_BUFFER, "unknown": b"\xff",
    "protocol": p.PROTO + b"\x77", "underflow": p.TUPLE3, "no-mark": p.TUPLE, "nothing": b"",
    "system": call("posix.system", text("exit")), "old-name": call("__builtin__.eval", text("1")),
    "dotted": name("torch.Tensor.__init__.__globals__"), "package": name("torchgrad_jax.serialization._load.os"),
    "half-a-pair": p.EMPTY_DICT + p.MARK + integer(1) + p.SETITEMS, "bad-text": p.BINUNICODE + struct.pack("<I", 2) + b"\xff\xff",
    "bad-quotes": p.STRING + b"'x\n", "bad-float": p.FLOAT + b"x\n", "bad-number": p.INT + b"x\n",
    "bad-name": p.GLOBAL + b"\xff\n\xff\n",
}  # fmt: skip

PICKLES = {
    f"{group}/{key}": program
    for group, table in {
        "deep": DEEP,
        "lengths": LENGTHS,
        "doubled": DOUBLED,
        "colliding": COLLIDING,
        "memory": MEMORY,
        "tensors": TENSORS,
        "shadows": SHADOWS,
        "writes": WRITES,
        "codes": CODES,
    }.items()
    for key, program in table.items()
}

# --- archives -------------------------------------------------------------------------------------

GOOD = tensor()


def pickled(program):
    return p.PROTO + b"\2" + program + p.STOP


def zipped(program=GOOD, more=(), method=zipfile.ZIP_STORED, storages=(("0", b"\0" * 8),)):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("archive/data.pkl", pickled(program))
        for key, data in storages:
            archive.writestr(f"archive/data/{key}", data)
        for key, data in more:
            archive.writestr(key, data)
    return file.getvalue()


def legacy(program=GOOD, keys=("0",), numels=(2,), tail=b"\0" * 8):
    facts = b"".join(p.dumps(x, 2) for x in (MAGIC, PROTOCOL, {"little_endian": True}))
    named = pickled(list_(*map(text, keys))) if isinstance(keys, tuple) else pickled(keys)
    return facts + pickled(program) + named + b"".join(struct.pack("<q", n) for n in numels) + tail


def legacy_alone(program):
    """A file of the older format without storages."""
    return legacy(program, (), (), b"")


def member(key, data, *, offset, method=0, crc=None, size=None, flags=0, extra=b""):
    """A member of an archive: what stands before its bytes, and what the directory says."""
    raw = key.encode()
    crc = zlib.crc32(data) if crc is None else crc
    size = len(data) if size is None else size
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 0, crc, len(data), size, len(raw), 0) + raw
    entry = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 20, 20, flags, method, 0, 0, crc, len(data), size, len(raw), len(extra), 0, 0, 0, 0, offset
    )  # fmt: skip
    return local + data, entry + raw + extra


def ended(body, entries, count=None):
    directory = b"".join(entries)
    n = len(entries) if count is None else count
    return body + directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, n, n, len(directory), len(body), 0)


def by_hand(*members, **options):
    body, entries = b"", []
    for key, data, facts in members:
        local, entry = member(key, data, offset=len(body), **facts)
        body += local
        entries.append(entry)
    return ended(body, entries, **options)


def edited(data, old, new):
    assert old in data
    return data.replace(old, new)


def overlapping():
    """Members of which each has the next one among its own bytes, so that few bytes are read often."""
    inner, _ = member("archive/data/1", b"\0" * 8, offset=0)
    pickle, first = member(
        "archive/data.pkl",
        pickled(list_(tensor(held=storage(numel=(len(inner)) // 4)), tensor(held=storage("1")))),
        offset=0,
    )
    inner += b"\0" * (-len(inner) % 4)
    outer, second = member("archive/data/0", inner, offset=len(pickle))
    at = len(pickle) + len(outer) - len(inner)
    third = member("archive/data/1", b"\0" * 8, offset=at)[1]
    return ended(pickle + outer, [first, second, third])


def twice():
    body, first = member("archive/data.pkl", pickled(GOOD), offset=0)
    second = member("archive/data.pkx", pickled(GOOD), offset=0)[1]
    return ended(body, [first, second])


PLAIN = ("archive/data.pkl", pickled(GOOD), {})
ZEROS = b"\0" * (1 << 26)


def packed(data):
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(data) + packer.flush()


def archives():
    """Archives that are damaged or forged."""
    good = zipped()
    yield "bz2", zipped(method=zipfile.ZIP_BZIP2)
    yield "lzma", zipped(method=zipfile.ZIP_LZMA)
    yield "bad-deflate", by_hand(PLAIN, ("archive/data/0", b"\xff" * 9, {"method": 8, "size": 8}))
    yield "duplicate", by_hand(PLAIN, ("archive/data/0", b"\0" * 8, {}), ("archive/data/0", b"\1" * 8, {}))
    yield "duplicate-pickle", by_hand(PLAIN, PLAIN, ("archive/data/0", b"\0" * 8, {}))
    for i, bad in enumerate(
        ("../evil", "archive/../../evil", "/etc/evil", "archive/..", "archive\\..\\evil", "archive/\0evil")
    ):
        yield f"path-{i}", by_hand(PLAIN, ("archive/data/0", b"\0" * 8, {}), (bad, b"", {}))
    yield "second-pickle", zipped(more=[("other/data.pkl", pickled(GOOD))])
    yield "no-pickle", by_hand(("archive/x.pkl", pickled(GOOD), {}))
    yield "deep-pickle", by_hand(("a/b/data.pkl", pickled(GOOD), {}))
    yield "overlapping", overlapping()
    yield "twice", twice()
    yield "crc", by_hand(PLAIN, ("archive/data/0", b"\0" * 8, {"crc": 1}))
    yield "encrypted", by_hand(PLAIN, ("archive/data/0", b"\0" * 8, {"flags": 1}))
    yield "two-sizes", by_hand(PLAIN, ("archive/data/0", b"\0" * 4, {"size": 8}))
    yield "short-storage", by_hand(PLAIN, ("archive/data/0", b"\0" * 4, {}))
    yield "no-storage", by_hand(PLAIN)
    yield "huge-storage", zipped(tensor(held=storage(numel=2**40)))
    yield "too-many-members", ended(good, [], 65_000)
    yield "wrong-count", by_hand(PLAIN, count=2)
    yield (
        "another-name",
        edited(
            by_hand(PLAIN, ("archive/data/0", b"\0" * 8, {})),
            b"\0\0archive/data/0" + b"\0" * 8,
            b"\0\0archive/data/9" + b"\0" * 8,
        ),
    )
    yield "cut-off", good[:-30]
    yield "no-end", good[: len(good) // 2]
    yield "only-a-sign", b"PK\3\4" + b"\0" * 40
    yield "comment", good[:-2] + b"\7\0"
    wide = struct.pack("<2HQ", 1, 8, 2**63)
    yield "place-beyond", ended(*_wide_entry(wide))
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 2**63, 1)
    yield "wide-end-beyond", good[:-22] + locator + good[-22:]
    yield "wide-end-lies", good[:-22] + _wide_end(good, count=10**15) + good[-22:]
    yield "byte-order", zipped(more=[("archive/byteorder", b"middle")])
    yield "script", zipped(more=[("archive/constants.pkl", pickled(p.NONE))])


def bombs():
    """Archives that are small and hold much, made when asked for."""
    crc = zlib.crc32(ZEROS)
    small = packed(ZEROS)
    yield (
        "bomb",
        by_hand(
            ("archive/data.pkl", pickled(tensor(held=storage(numel=1 << 24))), {}),
            ("archive/data/0", small, {"method": 8, "crc": crc, "size": len(ZEROS)}),
        ),
    )
    yield (
        "bombs",
        by_hand(
            ("archive/data.pkl", pickled(list_(*(tensor(held=storage(str(i), numel=1 << 18)) for i in range(64)))), {}),
            *(
                (
                    f"archive/data/{i}",
                    packed(b"\0" * (1 << 20)),
                    {"method": 8, "crc": zlib.crc32(b"\0" * (1 << 20)), "size": 1 << 20},
                )
                for i in range(64)
            ),
        ),
    )
    yield (
        "bomb-pickle",
        by_hand(
            (
                "archive/data.pkl",
                packed(p.NONE * (1 << 26)),
                {"method": 8, "size": 1 << 26, "crc": zlib.crc32(p.NONE * (1 << 26))},
            )
        ),
    )
    yield "bomb-that-lies", by_hand(PLAIN, ("archive/data/0", small, {"method": 8, "crc": 0, "size": 8}))
    yield (
        "many-members",
        ended(
            member("archive/data.pkl", pickled(GOOD), offset=0)[0],
            [member(f"archive/{i}", b"", offset=i)[1] for i in range(30_000)],
        ),
    )


def _wide_entry(extra):
    body, entry = member("archive/data.pkl", pickled(GOOD), offset=0xFFFFFFFF, extra=extra)
    return body, [entry]


def _wide_end(good, count):
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, 10**15, 0)
    return record + struct.pack("<4sLQL", b"PK\6\7", 0, len(good) - 22, 1)


def old_files():
    """In the format before the zip files."""
    yield "twice", legacy(keys=("0", "0"), numels=(2, 2), tail=b"\0" * 16)
    yield "unknown-storage", legacy(keys=("7",))
    yield "negative", legacy(numels=(-2,))
    yield "huge", legacy(numels=(2**62,))
    yield "wrapped", legacy(numels=(2**61,))
    yield "short", legacy(tail=b"\0" * 7)
    yield "no-numel", legacy(numels=(), tail=b"")
    yield "nested-keys", legacy(keys=list_(doubled()))
    yield "no-list", legacy(keys=dict_())
    yield "missing", legacy(keys=(), numels=(), tail=b"")
    yield "magic", pickled(integer(2**4000)) + legacy()
    yield "magic-doubled", pickled(NESTED) + legacy()
    yield "magic-called", pickled(call("posix.system", text("exit"))) + legacy()
    yield "nothing", b"abc"


def checkpoints(heavy):
    """Name and bytes of those that take a second each, or of the others."""
    for key, program in PICKLES.items():
        if key.startswith(("memory/", "deep/marks")) is heavy:
            yield f"zip/{key}", zipped(program)
            if not heavy:
                yield f"legacy/{key}", legacy(program)
    if heavy:
        yield from ((f"bombs/{key}", data) for key, data in bombs())
    else:
        yield from ((f"archive/{key}", data) for key, data in archives())
        yield from ((f"old/{key}", data) for key, data in old_files())


# --- reading them ---------------------------------------------------------------------------------


def _state(torch):
    """What a file could have changed in the process."""
    from torchgrad_jax._core.arrays import devices, dtypes, formats

    parts = ("name", "np", "category", "itemsize", "is_floating_point", "is_complex", "is_signed", "type_name")
    return repr(
        [
            [[getattr(d, part) for part in parts] for d in dtypes.ALL],
            sorted(formats.MEMORY_FORMATS.items()),
            torch.strided,
            len(devices._DEVICES),
            sorted(vars(torch.Tensor)),
            sorted(vars(torch.nn.Parameter)),
            sorted(sys.modules),
            sorted(vars(torch.serialization)),
            torch.serialization.get_safe_globals(),
            sorted(vars(__import__("collections").OrderedDict)),
            torch.get_default_dtype(),
        ]
    )


def outcome(read, data):
    try:
        got = read(io.BytesIO(data))
    except Exception as e:
        return type(e).__name__, str(e)
    return "read", type(got).__name__


def main():
    import torchgrad_jax as torch

    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + (4 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    readers = {"load": torch.load, "survey": torch.serialization.get_unsafe_globals_in_checkpoint}
    for read in readers.values():
        for data in (zipped(), legacy(), zipped(meta((2,), (1,)))):  # what is made on first use
            outcome(read, data)
    before = _state(torch)
    for key, data in checkpoints(heavy=sys.argv[1] == "heavy"):
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcomes = {reader: outcome(read, data) for reader, read in readers.items()}
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
        after = _state(torch)
        sys.stdout.write(json.dumps([key, len(data), outcomes, grown << 10, after == before]) + "\n")
        before = after


if __name__ == "__main__":
    main()
