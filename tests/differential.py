"""Run one program under torch and under torchgrad_jax, and compare what the contract promises of its results.

A program is a function of the module (``m``) that returns whatever it wants looked at. The answer
of live torch is what is expected; where torch is not installed, its answer as recorded in
``recorded/<file>.json`` beside the test is. ``TORCHGRAD_RECORD=1`` makes the tests write it again.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax
from compat_suite import answers
from torchgrad_jax.testing import _tolerances as tolerances
from torchgrad_jax.testing._described import INCIDENTAL, RECORDED_GRADIENT, array_of, differences, dtype_name, facts_of
from torchgrad_jax.testing._paths import map_with_path
from torchgrad_jax.testing._tolerances import NUMBER, TOLERANCES, default

Program = Callable[[Any], Any]
_RECORD = os.environ.get("TORCHGRAD_RECORD") == "1"
# What torch says where this processor lacks what one of its kernels needs, bfloat16 LSTMs for example.
_NO_KERNEL = "could not create a primitive descriptor"

# --- what is seen of a value ----------------------------------------------------------------------


def describe(value: Any) -> Any:
    """A value as data that JSON can hold and that says everything that is promised of it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, str):
        return _anonymous(value)
    if isinstance(value, BaseException):
        return {"raised": type(value).__name__, "text": _public(str(value))}
    if isinstance(value, dict):
        return {str(k): describe(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [describe(v) for v in value]
    if isinstance(value, type):
        return {"class": value.__name__}
    if hasattr(value, "requires_grad") and hasattr(value, "grad_fn"):
        return _describe_tensor(value)
    if hasattr(value, "next_functions") and callable(getattr(value, "name", None)):
        return {"node": value.name(), "next": [[n and n.name(), nr] for n, nr in value.next_functions]}
    return _anonymous(re.sub(r"\btorch(grad_jax)?\.", "", repr(value)))


def _anonymous(text: str) -> str:
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r" \(Triggered internally at .*\)", "", text)
    return text.replace("torchgrad_jax.", "torch.").replace("torchgrad_jax", "torch")


def _describe_tensor(t: Any) -> dict[str, Any]:
    """Of a plain tensor, which often is a gradient, no layout and no version: nothing is promised of a gradient's.

    A program that cares for those of a plain tensor returns `everything(t)`.
    """
    if not t.requires_grad:
        return numbers(t) | _gradient(t)
    # Steps of `vmap` that belong together are one node, and their results its first, second, ...
    return {k: v for k, v in everything(t).items() if k != "output_nr"}


_OF_THE_BUILD = (", but expected one of", " (Could this error message", " (Triggered internally", "\nException raised")
"""From here on a message is about how torch is built."""
_OTHER_WARNINGS = ("reference cycle", "performance drop", "torch.jit", "GraphModule")
"""In warnings that only torch has something to say about."""
_OWN_WARNINGS = ("it counts as a constant, and second derivatives through",)
"""In warnings that torch lacks; `tests/autograd/test_saved_intermediates.py` says when they come."""


def _public(text: str) -> str:
    """The part of a message that is about the call."""
    text = _anonymous(text)
    for mark in _OF_THE_BUILD:
        text = text.partition(mark)[0]
    return text.rstrip(' "')


def numbers(t: Any) -> dict[str, Any]:
    """Dtype, shape and values of a tensor, and whether it needs a gradient: what is promised of gradients too."""
    return _contents(t) | ({"requires_grad": True} if t.requires_grad else {})


def _contents(t: Any) -> dict[str, Any]:
    dtype, shape = str(t.dtype).rpartition(".")[2], ",".join(map(str, t.shape))
    return {"tensor": f"{dtype}[{shape}]", "values": _values(t.detach().tolist())}


def _values(x: Any) -> Any:
    if isinstance(x, list):
        return [_values(v) for v in x]
    return {"complex": [x.real, x.imag]} if isinstance(x, complex) else x


_NAMES = {
    "requires_grad": "requires_grad", "grad_fn": "grad_fn", "is_leaf": "leaf", "stride": "strides",
    "is_contiguous": "contiguous", "storage_offset": "offset", "version": "version", "is_view": "view",
    "output_nr": "output_nr", "is_inference": "inference",
}  # fmt: skip
"""What recorded answers call the facts of a tensor."""


def everything(t: Any) -> dict[str, Any]:
    """All that a user can ask a tensor. What is as it is for every new tensor goes without saying."""
    unasked = {"version"} if t.is_inference() else set()
    unasked |= set() if t._is_view() else {"storage_offset"}
    asked = facts_of(t, [name for name in _NAMES if name not in unasked], failed=describe)
    facts = {_NAMES[name]: list(v) if isinstance(v, tuple) else v for name, v in asked.items()}
    usual = {
        "leaf": facts["grad_fn"] is None,
        "strides": _row_major(t.shape),
        "contiguous": list(t.stride()) == _row_major(t.shape),
    }
    said = {k: v for k, v in facts.items() if (v != usual[k] if k in usual else v)}
    return _contents(t) | said | _gradient(t)


def laid_out(t: Any) -> dict[str, Any]:
    """Numbers and strides: what is promised of the `.grad` of a leaf."""
    strides = list(t.stride())
    return numbers(t) | ({} if strides == _row_major(t.shape) else {"strides": strides})


def _row_major(shape: Any) -> list[int]:
    strides, n = [], 1
    for size in reversed(shape):
        strides.insert(0, n)
        n *= max(size, 1)
    return strides


def _gradient(t: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grad = t.grad
    if grad is None:
        return {}
    return {"grad": laid_out(grad) if t.is_leaf and t.requires_grad else numbers(grad)}


@contextlib.contextmanager
def caught_warnings(module: Any, always: bool = True) -> Iterator[list[warnings.WarningMessage]]:
    """The warnings inside of the block, with `always` also those that are given once per process."""
    before = module.is_warn_always_enabled()
    module.set_warn_always(always)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught
    finally:
        module.set_warn_always(before)


def outcome(program: Program, module: Any) -> Any:
    """What a program gives under a module: its result, or what it raised, and its warnings.

    Also those that come once per process, so that what ran before makes no difference.
    """
    with caught_warnings(module) as caught:
        try:
            result = describe(program(module))
        except Exception as error:
            result = describe(error)
    seen = [[w.category.__name__, _public(str(w.message))] for w in caught]
    kept = [
        [kind, text]
        for kind, text in seen
        if kind != "DeprecationWarning" and not any(mark in text for mark in (*_OTHER_WARNINGS, *_OWN_WARNINGS))
    ]
    return {"result": result, **({"warnings": kept} if kept else {})}


# --- comparing ------------------------------------------------------------------------------------

_UNPROMISED = {_NAMES[name] for name in INCIDENTAL & {*_NAMES}} | {"node", "next"}


def _unpromised(described: dict[str, Any]) -> Collection[str]:
    """Of a gradient that `create_graph=True` recorded: name, edges and layout."""
    return _UNPROMISED if RECORDED_GRADIENT.search(str([described.get(k) for k in ("grad_fn", "node")])) else ()


def _with_arrays(described: Any) -> Any:
    """The same with an array in place of the numbers of each tensor."""
    if isinstance(described, list):
        return [_with_arrays(v) for v in described]
    if not isinstance(described, dict):
        return described
    if [*described] == ["complex"]:
        return complex(*described["complex"])
    found = {k: _with_arrays(v) for k, v in described.items()}
    dtype = str(found.get("tensor")).partition("[")[0]
    return found | {"values": np.array(found["values"], jnp.dtype(dtype))} if dtype in TOLERANCES else found


def _near(got: Any, want: Any, path: str) -> str | None:
    allowed = default(want.dtype.name) if isinstance(want, np.ndarray) else NUMBER
    return tolerances.difference(got, want, allowed, around=1.0)


def difference(want: Any, got: Any, path: str = "") -> str | None:
    """Where two descriptions first differ, or None."""
    pairs = differences(_with_arrays(got), _with_arrays(want), _near, _unpromised, path)
    return next((f"{where}: {text}" for where, text in pairs), None)


def agree(got: Any, want: Any, factor: float = 1.0) -> None:
    """Fail unless the numbers of tensors and arrays are the same but for rounding, and all else is equal.

    Neither layout nor graph is compared, nor whether a tensor or an array has the numbers. Expected numbers in a list
    or in an array of NumPy have no dtype of their own. A `factor` says how many times further apart numbers may be
    than the table says; a test that gives one says why.
    """
    if hasattr(got, "dtype") and isinstance(want, list | int | float | complex | np.ndarray):
        want = np.asarray(want, jnp.dtype(dtype_name(got)))

    def near(a: Any, b: Any, path: str) -> str | None:
        return tolerances.difference(a, b, default(np.asarray(b).dtype.name).scaled(factor), around=1.0)

    got, want = (map_with_path(lambda _, x: _numbers_of(x), x, "") for x in (got, want))
    assert not (found := [*differences(got, want, near)]), "; ".join(": ".join(f).lstrip(": ") for f in found)


def _numbers_of(x: Any) -> Any:
    if isinstance(x, type) or not (hasattr(x, "dtype") and hasattr(x, "shape")):
        return x
    return array_of(x) if hasattr(x, "detach") else np.asarray(x)


def label(program: Program, path: str) -> str:
    """What the program calls the observation that a path such as `name.result[1][0]` leads to, where it says."""
    index = re.search(r"\.result\[(\d+)\]", path)
    source = getattr(program, "text", None) or _source(program)
    returned = getattr(program, "returned", None) or (_returned(source) if index else [])
    at = int(index[1]) if index else 0
    return f" (in `{returned[at]}`)" if at < len(returned) else ""


def _source(program: Program) -> str:
    try:
        return textwrap.dedent(inspect.getsource(program))
    except (OSError, TypeError):
        return ""


def _returned(source: str) -> list[str]:
    """The expressions that a function returns at its end, or the last statement of a text lists."""
    try:
        last = ast.parse(source).body[-1]
    except (SyntaxError, IndexError):  # a lambda inside of a longer statement
        return []
    last = last.body[-1] if isinstance(last, ast.FunctionDef) else last
    listed = last.value if isinstance(last, ast.Return | ast.Expr) else None
    return [ast.unparse(e) for e in listed.elts] if isinstance(listed, ast.Tuple | ast.List) else []


def live_torch() -> Any:
    """torch where it is installed, else None."""
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


# --- torch's answers ------------------------------------------------------------------------------


def _written(value: Any) -> Any:
    """A description as it is recorded: tensors as texts, and of each number as many digits as are compared."""
    if isinstance(value, float):
        return answers.shortest(value, abs(value) * NUMBER.rtol / 10)
    if isinstance(value, list):
        return [_written(v) for v in value]
    if isinstance(value, dict):
        if [*value] == ["raised", "text"]:
            return {"raised": f"{value['raised']}: {value['text']}"}
        if not {"tensor", "values"} <= {*value}:
            return {k: _written(v) for k, v in value.items()}
        implied = {"tensor", "values"} | ({"requires_grad"} if _needs_gradient(value) else set())
        others = {k: _written(v) for k, v in value.items() if k not in implied}
        text = _tensor_text(value["tensor"], value["values"])
        return {"tensor": text, **others} if others else text
    assert not (isinstance(value, str) and answers.is_tensor(value)), f"this text would be read as a tensor: {value}"
    return value


def _read(value: Any) -> Any:
    """The description that was recorded so."""
    if isinstance(value, list):
        return [_read(v) for v in value]
    if isinstance(value, dict):
        found = {k: _read(v) for k, v in value.items()}
        if "raised" in found:
            kind, colon, text = found["raised"].partition(": ")
            return {"raised": kind, "text": text} if colon else found
        if not isinstance(found.get("tensor"), dict):
            return found
        return found.pop("tensor") | ({"requires_grad": True} if found.get("grad_fn") else {}) | found
    return _tensor(value) if isinstance(value, str) and answers.is_tensor(value) else value


def _needs_gradient(described: dict[str, Any]) -> bool:
    """Whether a described tensor requires a gradient because it has a node, which goes without saying."""
    return bool(described.get("grad_fn")) and described.get("requires_grad") is True


def _tensor_text(kind: str, values: Any) -> str:
    dtype, _, shape = kind.removesuffix("]").partition("[")
    return answers.tensor_text(dtype, [int(n) for n in shape.split(",") if n], _flat(values))


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for v in values:
            yield from _flat(v)
    else:
        yield complex(*values["complex"]) if isinstance(values, dict) else values


def _tensor(text: str) -> dict[str, Any]:
    _, shape, values = answers.tensor_of(text)
    left = iter(values)

    def nested(sizes: tuple[int, ...]) -> Any:
        return [nested(sizes[1:]) for _ in range(sizes[0])] if sizes else _values(next(left))

    return {"tensor": text.partition(" ")[0], "values": nested(shape)}


def _row(answer: dict[str, Any]) -> Any:
    """An answer as it stands in the file: without warnings, mostly, it is the result alone."""
    return bare(_written(answer))


def bare(answer: dict[str, Any]) -> Any:
    """An answer without warnings is its result alone."""
    alone = [*answer] == ["result"] and not (isinstance(answer["result"], dict) and "result" in answer["result"])
    return answer["result"] if alone else answer


def _answer_of(row: Any) -> dict[str, Any]:
    found = _read(row)
    return found if isinstance(found, dict) and "result" in found else {"result": found}


class Recording:
    """torch's answers to the programs of one test file."""

    def __init__(self, test_file: str) -> None:
        path = Path(test_file)
        self.path = path.parent / "recorded" / f"{path.stem}.json"
        self.rows: dict[str, Any] = answers.read(self.path) if self.path.exists() else {}
        """As they stand in the file."""
        self.facts: dict[str, Any] = {name: _answer_of(row) for name, row in self.rows.items()}

    def expected(self, name: str, program: Program, live: bool) -> Any:
        """torch's answer: live, or as recorded."""
        torch = live_torch() if live else None
        if torch is None:
            assert name in self.facts, f"no recorded answer for {name!r}; run with torch and TORCHGRAD_RECORD=1"
            return self.facts[name]
        want = json.loads(json.dumps(outcome(program, torch)))
        if _RECORD and _NO_KERNEL not in json.dumps(want):
            self._write(name, want)
        assert name in self.facts, f"no recorded answer for {name!r}; run with TORCHGRAD_RECORD=1"
        if _NO_KERNEL in json.dumps(want) and _NO_KERNEL not in json.dumps(self.facts[name]):
            return self.facts[name]
        stale = difference(self.facts[name], want, "recorded")
        assert stale is None, f"the recorded answer is not what live torch says: {stale}"
        return want

    def _write(self, name: str, want: Any) -> None:
        if name in self.facts and difference(self.facts[name], want, name) is None:
            return  # it would only be rounded again
        self.rows[name] = _row(want)
        self.facts[name] = _answer_of(self.rows[name])
        answers.write(self.path, self.rows)

    def check(
        self,
        name: str,
        program: Program,
        live: bool,
        raises: bool | None = None,
        way: Callable[[Program], Program] | None = None,
    ) -> None:
        """Fail unless both modules gave the same: with `raises` an error, without it none, with None either.

        With `way` this package runs what that makes of the program. Its warnings are not compared then.
        """
        want = self.expected(name, program, live)
        if raises is not None:
            error = isinstance(want["result"], dict) and "raised" in want["result"]
            assert error is raises, (
                f"{name} ends in {want['result'] if error else 'no error'}: nothing else is compared"
            )
        got = json.loads(json.dumps(outcome(way(program) if way else program, torchgrad_jax)))
        if way:
            want, got = {"result": want["result"]}, {"result": got["result"]}
            if isinstance(got["result"], dict) and got["result"].get("raised") == "Unsupported":
                pytest.skip(got["result"]["text"])
        found = difference(want, got, name)
        assert found is None, found + label(program, found)
