"""Safetensors: other readers understand our files, and harmful files are refused."""

import collections
import json
import os
import random
import struct

import pytest

import torchgrad_jax as tg

pytest.importorskip("safetensors")

from torchgrad_jax.serialization import safetensors as st
from torchgrad_jax.serialization.safetensors import SafetensorError, safe_open

# As safetensors 0.8 writes these tensors.
WRITTEN = (
    b'\x88\x00\x00\x00\x00\x00\x00\x00{"__metadata__":{"k":"v"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},'
    b'"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}    \x03\0\0\0\0\0\0\0\0\0\x80?\0\0\0@'
)


def file_of(header, body=b"\0" * 8, length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + body


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
HALF = b'"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


def changed(**facts):
    return file_of({"a": {**GOOD, **facts}})


def test_written_as_elsewhere():
    assert st.save({"a": tg.tensor([1.0, 2.0]), "n": tg.tensor(3)}, {"k": "v"}) == WRITTEN
    assert st.save({}) == b"\x08\0\0\0\0\0\0\0{}      "
    got = st.load(WRITTEN)
    assert {k: (t.tolist(), t.dtype) for k, t in got.items()} == {"n": (3, tg.int64), "a": ([1.0, 2.0], tg.float32)}


def test_every_dtype_there_and_back():
    tensors = {str(d): tg.tensor([1, 0, 1]).to(d) for d in st._SAVED if d is not tg.float8_e8m0fnu} | {
        "tg.float8_e8m0fnu": tg.tensor([1.0, 2.0]).to(tg.float8_e8m0fnu)
    }
    assert len(tensors) == 19
    got = st.load(st.save(tensors))
    assert {k: (t.dtype, t.tolist()) for k, t in got.items()} == {k: (t.dtype, t.tolist()) for k, t in tensors.items()}


def test_files_and_parts_of_them(tmp_path):
    path = tmp_path / "é.safetensors"
    x = tg.tensor([[float(3 * i + j) for j in range(3)] for i in range(4)])
    st.save_file({"x": x, "empty": x.new_empty((0, 3)), "": tg.tensor(True)}, path, {"who": "ours"})
    assert os.listdir(tmp_path) == [path.name]
    assert st.load_file(str(path))["x"].tolist() == x.tolist()
    with safe_open(path, "pt") as f:
        assert (f.keys(), f.offset_keys()) == (["", "empty", "x"], ["empty", "x", ""])
        assert f.metadata() == {"who": "ours"}
        part = f.get_slice("x")
        assert (part.get_shape(), part.get_dtype()) == ([4, 3], "F32")
        for index in (slice(1, 3), (slice(None, None, 2), 1), (slice(3, 1),), 2, (..., 0), (slice(-2, None), None)):
            assert part[index].tolist() == x[index].tolist(), index
        assert f.get_slice("")[()].item() is True
        with pytest.raises(SafetensorError, match="does not contain tensor y"):
            f.get_slice("y")
        with pytest.raises(IndexError, match="out of bounds"):
            part[4]
    with pytest.raises(SafetensorError, match="closed"):
        f.keys()
    with safe_open(path, "np") as f:
        assert f.get_tensor("x").sum() == 66
    with pytest.raises(SafetensorError, match="framework tf is invalid"):
        safe_open(path, "tf")
    with pytest.raises(FileNotFoundError):
        st.load_file(tmp_path / "none")


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "f"
    st.save_file({"x": tg.zeros(2)}, path)
    with pytest.raises(ValueError, match="non contiguous"):
        st.save_file({"x": tg.ones(2, 2).t()}, path)
    assert os.listdir(tmp_path) == ["f"]
    assert st.load_file(path)["x"].tolist() == [0.0, 0.0]


def test_every_byte_of_a_bool_but_0_is_true(tmp_path):
    raw = file_of({"a": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}}, b"\0\1\2")
    (tmp_path / "f").write_bytes(raw)
    with safe_open(tmp_path / "f", "pt") as f:
        for found in (st.load(raw)["a"], f.get_tensor("a"), f.get_slice("a")[0:3]):
            assert found.long().tolist() == [0, 1, 1]


BASE = tg.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])


@pytest.mark.parametrize(
    "tensors, error, said",
    [
        ([BASE], ValueError, r"^Expected a dict of \[str, torch.Tensor\] but received <class 'list'>$"),
        ({"a": 1}, ValueError, "^Key `a` is invalid, expected torch.Tensor but received <class 'int'>$"),
        ({1: BASE}, TypeError, "1 cannot be the name"),
        ({"__metadata__": BASE}, TypeError, "'__metadata__' cannot be the name"),
        ({"a": BASE.t()}, ValueError, "^You are trying to save a non contiguous tensor: `a` which is not allowed"),
        ({"a": BASE, "b": BASE[0]}, RuntimeError, "^Some tensors share memory(?s:.*)'[ab]', '[ab]'"),
        ({"a": BASE.to(tg.complex128)}, KeyError, "complex128"),
    ],
)
def test_what_cannot_be_saved(tensors, error, said):
    with pytest.raises(error, match=said):
        st.save(tensors)


def test_parts_that_do_not_overlap_can_be_saved():
    got = st.load(st.save({"a": BASE[0], "b": BASE[1]}))
    assert [got["a"].tolist(), got["b"].tolist()] == BASE.tolist()
    with pytest.raises(TypeError, match="metadata"):
        st.save({"a": BASE}, {"k": 1})  # type: ignore[dict-item]


HOSTILE = {
    "nothing": b"",
    "seven-bytes": b"\0" * 7,
    "length-2**63": file_of({"a": GOOD}, length=2**63),
    "length-over-limit": file_of({"a": GOOD}, length=100_000_001),
    "length-over-file": file_of({"a": GOOD}, length=500),
    "no-json": file_of(b"{abc"),
    "no-object": file_of(b"[]"),
    "no-utf8": file_of(b'{"\xff":1}'),
    "no-end": file_of(b'{"a":'),
    "more-behind": file_of(b"{" + HALF + b"}{}"),
    "nan": file_of(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}'),
    "deep": file_of(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "digits": file_of(b'{"a":' + b"9" * 10_000 + b"}"),
    "dtype-twice": file_of(b'{"a":{"dtype":"U8","dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
    "surrogate": file_of(b'{"\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
    "metadata-numbers": file_of({"__metadata__": {"k": 1}, "a": GOOD}),
    "metadata-list": file_of({"__metadata__": [], "a": GOOD}),
    "no-entry": file_of({"a": None}),
    "half-entry": file_of({"a": {"dtype": "F32", "shape": [2]}}),
    "dtype": changed(dtype="X"),
    "dtype-case": changed(dtype="f32"),
    "dtype-kind": changed(dtype=["F32"]),
    "shape-negative": changed(shape=[-2]),
    "shape-float": changed(shape=[2.0]),
    "shape-bool": changed(shape=[True, 2]),
    "shape-text": changed(shape="2"),
    "shape-larger": changed(shape=[3]),
    "shape-smaller": changed(shape=[1]),
    "shape-overflow": changed(shape=[2**62, 2**62]),
    "shape-wraps": changed(shape=[2**61, 16]),
    "shape-not-a-word": changed(shape=[2**64 + 2]),
    "dtype-nested": file_of(b'{"a":{"shape":[],"data_offsets":[0,8],"dtype":' + b"[" * 900 + b"]" * 900 + b"}}"),
    "many-lists": file_of(b'{"a":[' + b"[]," * 600_000 + b"0]}"),
    "many-objects": file_of(b'{"a":[' + b"{}," * 300_000 + b"0]}"),
    "dims": changed(shape=[1] * 64 + [2]),
    "empty-and-huge": file_of({"a": {**GOOD, "shape": [0, 2**62], "data_offsets": [0, 0]}}, b""),
    "offsets-negative": changed(data_offsets=[-8, 0]),
    "offsets-reversed": changed(data_offsets=[8, 0]),
    "offsets-three": changed(data_offsets=[0, 8, 8]),
    "offsets-beyond": changed(data_offsets=[0, 16]),
    "hole-before": file_of({"a": {**GOOD, "data_offsets": [8, 16]}}, b"\0" * 16),
    "hole-behind": file_of({"a": GOOD}, b"\0" * 9),
    "cut-off": file_of({"a": GOOD}, b"\0" * 7),
    "no-tensors-but-bytes": file_of({}),
    "overlap": file_of({"a": GOOD, "b": GOOD}),
    "overlap-in-part": file_of({"a": GOOD, "b": {**GOOD, "data_offsets": [4, 12]}}, b"\0" * 12),
    "empty-inside": file_of({"a": GOOD, "b": {**GOOD, "shape": [0], "data_offsets": [4, 4]}}),
    "half-a-byte": changed(dtype="F4", shape=[15]),
    "of-four-bits": changed(dtype="F4", shape=[16]),
}


def test_the_tools_of_these_tests_make_a_good_file():
    assert st.load(file_of({"a": GOOD}))["a"].tolist() == [0.0, 0.0]
    assert st.load(file_of(b" {" + HALF + b"}  \n"))["a"].shape == (2,)
    assert st.load(file_of({"a": {**GOOD, "more": 1}, "__metadata__": None}))["a"].shape == (2,)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_rejected(name, tmp_path):
    with pytest.raises(SafetensorError) as caught:
        st.load(HOSTILE[name])
    assert len(str(caught.value)) < 500
    (tmp_path / "f").write_bytes(HOSTILE[name])
    with pytest.raises(SafetensorError):
        st.load_file(tmp_path / "f")


def test_a_file_that_shrinks_while_it_is_open(tmp_path):
    st.save_file({"x": tg.zeros(20_000)}, tmp_path / "f")
    with safe_open(tmp_path / "f", "pt") as f:
        os.truncate(tmp_path / "f", 100)
        with pytest.raises(SafetensorError, match="Could not read tensor x"):
            f.get_tensor("x")


def test_random_damage_never_does_more_than_raise():
    draw = random.Random(3)
    header, body = WRITTEN[8:-16], WRITTEN[-16:]
    outcomes = collections.Counter()
    for _ in range(600):
        raw = bytearray(header)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(raw))
            match draw.randrange(4):
                case 0:
                    raw[at] = draw.randrange(256)
                case 1:
                    raw[at] = draw.choice(b'0123456789[]{},:"')
                case 2:
                    del raw[at : at + draw.randint(1, 4)]
                case 3:
                    raw[at:at] = bytes(draw.choices(b'0123456789[]{},:" -.e', k=draw.randint(1, 3)))
        try:
            got = st.load(file_of(bytes(raw), body))
        except SafetensorError:
            outcomes["refused"] += 1
        else:
            # Whatever the header says by now, it accounts for each byte.
            assert sum(t.numel() * t.element_size() for t in got.values()) == 16
            outcomes["read"] += 1
    assert outcomes["read"] > 0
    assert outcomes["refused"] > 300
