"""Run one program under torch and under torchgrad_jax, and compare everything observable.

A program is a function of the module (``m``) that returns whatever it wants looked at. The answer
of live torch is what is expected; where torch is not installed, its answer as recorded in
``recorded/<file>.json`` beside the test is. ``TORCHGRAD_RECORD=1`` makes the tests write it anew.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torchgrad_jax

Program = Callable[[Any], Any]
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "complex64": 2e-6}
_RECORD = os.environ.get("TORCHGRAD_RECORD") == "1"
# What torch says where this processor lacks what one of its kernels needs, bfloat16 LSTMs for example.
_NO_KERNEL = "could not create a primitive descriptor"


def describe(value: Any) -> Any:
    """A value as data that JSON can hold and that says everything a user could see of it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, str):
        return _anonymous(value)
    if isinstance(value, BaseException):
        return {"raised": type(value).__name__, "text": _anonymous(str(value))}
    if isinstance(value, dict):
        return {str(k): describe(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [describe(v) for v in value]
    if isinstance(value, type):
        return {"class": value.__name__}
    if hasattr(value, "requires_grad") and hasattr(value, "grad_fn"):
        return _describe_tensor(value)
    if hasattr(value, "next_functions") and callable(getattr(value, "name", None)):
        return {
            "node": value.name(),
            "next": [[n and n.name(), nr] for n, nr in value.next_functions],
        }
    return _anonymous(re.sub(r"\btorch(grad_jax)?\.", "", repr(value)))


_PROMISED = ("values", "dtype", "shape")
_RECORDED = re.compile("Backwards?[0-9]*Backward")
"""In the name of a node that `create_graph=True` recorded: its name, edges and layout are not promised."""


def _anonymous(text: str) -> str:
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r" \(Triggered internally at .*\)", "", text)
    return text.replace("torchgrad_jax.", "torch.").replace("torchgrad_jax", "torch")


def _describe_tensor(t: Any) -> dict[str, Any]:
    """Strides, version and view-ness only of tensors in a graph: those of plain ones, gradients
    above all, tell how torch allocated; a program that cares returns them by themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grad = t.grad
    seen = {
        "values": _values(t.detach().tolist()),
        "dtype": str(t.dtype).rpartition(".")[2],
        "shape": list(t.shape),
    }
    if t.requires_grad:
        fn = t.grad_fn
        seen |= {
            "strides": list(t.stride()),
            "leaf": t.is_leaf,
            "version": t._version,
            "view": t._is_view(),
        }
        seen |= {"grad_fn": fn and fn.name()}
    if grad is not None:
        seen["grad"] = _describe_gradient(t, grad)
    return seen


def _describe_gradient(t: Any, grad: Any) -> dict[str, Any]:
    """What is promised of a gradient: the numbers, and of a leaf's that it is laid out like the leaf."""
    seen = {k: v for k, v in _describe_tensor(grad).items() if k in _PROMISED}
    return seen | {"strides": list(grad.stride())} if t.is_leaf and t.requires_grad else seen


def _values(x: Any) -> Any:
    if isinstance(x, list):
        return [_values(v) for v in x]
    return {"complex": [x.real, x.imag]} if isinstance(x, complex) else x


def outcome(program: Program, module: Any) -> Any:
    """What a program gives under a module: its result, or what it raised, and its warnings.

    Also those that come once per process, so that what ran before makes no difference.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module.set_warn_always(True)
        try:
            result = describe(program(module))
        except Exception as error:
            result = describe(error)
        finally:
            module.set_warn_always(False)
    seen = [[w.category.__name__, _anonymous(str(w.message))] for w in caught]
    kept = [w for w in seen if w[0] != "DeprecationWarning" and "reference cycle" not in w[1]]
    return {"result": result, "warnings": kept}


def difference(want: Any, got: Any, path: str = "", tolerance: float = 0.0) -> str | None:
    """Where two descriptions first differ, or None."""
    if isinstance(want, dict) and isinstance(got, dict):
        if _RECORDED.search(str([got.get(k) for k in ("grad_fn", "node")])):
            keep = ("values", "dtype", "shape", "requires_grad", "leaf", "grad")
            want, got = ({k: v for k, v in d.items() if k in keep} for d in (want, got))
        if set(want) != set(got):
            return f"{path}: expected {want}, got {got}"
        if "dtype" in want:
            tolerance = TOLERANCE.get(want["dtype"], 1e-12)
        found = (difference(want[k], got[k], f"{path}.{k}", tolerance) for k in want)
        return next((f for f in found if f), None)
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return f"{path}: expected {want}, got {got}"
        for i, (a, b) in enumerate(zip(want, got)):
            found = difference(a, b, f"{path}[{i}]", tolerance)
            if found:
                return found
        return None
    if isinstance(want, float) and isinstance(got, float):
        if want == got or (math.isnan(want) and math.isnan(got)):
            return None
        if math.isclose(want, got, rel_tol=tolerance or 1e-6, abs_tol=tolerance):
            return None
    elif type(want) is type(got) and want == got:
        return None
    return f"{path}: expected {want!r}, got {got!r}"


def live_torch() -> Any:
    """torch where it is installed, else None."""
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


class Recording:
    """torch's answers to the programs of one test file."""

    def __init__(self, test_file: str) -> None:
        path = Path(test_file)
        self.path = path.parent / "recorded" / f"{path.stem}.json"
        self.facts: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def expected(self, name: str, program: Program, live: bool) -> Any:
        """torch's answer: live, or as recorded."""
        torch = live_torch() if live else None
        if torch is None:
            assert name in self.facts, (
                f"no recorded answer for {name!r}; run with torch and TORCHGRAD_RECORD=1"
            )
            return self.facts[name]
        want = json.loads(json.dumps(outcome(program, torch)))
        if _RECORD:
            self.facts[name] = want
            self.path.parent.mkdir(exist_ok=True)
            rows = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(self.facts.items()))
            self.path.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        assert name in self.facts, f"no recorded answer for {name!r}; run with TORCHGRAD_RECORD=1"
        if _NO_KERNEL in json.dumps(want) and _NO_KERNEL not in json.dumps(self.facts[name]):
            return self.facts[name]
        stale = difference(self.facts[name], want, "recorded")
        assert stale is None, f"the recorded answer is not what live torch says: {stale}"
        return want

    def check(self, name: str, program: Program, live: bool) -> None:
        """Fail unless both modules gave the same."""
        want = self.expected(name, program, live)
        got = json.loads(json.dumps(outcome(program, torchgrad_jax)))
        found = difference(want, got, name)
        assert found is None, found
