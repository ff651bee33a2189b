"""Tables of expressions over `torch`, each judged by what torch makes of it.

An expression is text: statements and a final value separated by "; ". Its answer is the described
value, or the exception, and the warnings. "~" in front means that only the type of the exception
counts, where torch's own text is about its build or its internals.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.differential import Recording, describe

_INTERNAL = (
    ", but expected one of",
    " (Could this error message",
    " (Triggered internally",
    "\nException raised",
)


def exact(t: Any) -> str:
    """A tensor's values to the last bit."""
    t = t.detach()
    return (
        (t if t.element_size() > 2 or not t.is_floating_point() else t.float())
        .numpy()
        .tobytes()
        .hex()
    )


def seen(value: Any) -> Any:
    """A value as data; of a tensor everything that can be asked about it."""
    if isinstance(value, list | tuple):
        return [seen(v) for v in value]
    if not hasattr(value, "grad_fn"):
        return describe(value)
    inference = value.is_inference()
    return {
        "values": describe(value.detach().tolist()),
        "dtype": str(value.dtype).rpartition(".")[2],
        "shape": list(value.shape),
        "strides": list(value.stride()),
        "version": None if inference else value._version,
        "view": value._is_view(),
        "requires_grad": value.requires_grad,
        "grad_fn": value.grad_fn and value.grad_fn.name(),
    }


def program(text: str) -> Callable[[Any], Any]:
    """The expression as a function of the module that it calls `torch`."""
    loose = text.startswith("~")
    *statements, value = text.removeprefix("~").split("; ")

    def run(m: Any) -> Any:
        names = {
            "torch": m,
            "np": np,
            "math": math,
            "inf": math.inf,
            "nan": math.nan,
            "exact": exact,
        }
        m.manual_seed(0)
        m.set_warn_always(True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                for statement in statements:
                    exec(statement, names)
                out = seen(eval(value, names))
            except Exception as error:
                out = {"raised": type(error).__name__, "text": "" if loose else _public(str(error))}
            finally:
                m.set_warn_always(False)
                m.set_default_dtype(m.float32)
                m.set_grad_enabled(True)
        return [
            out,
            [] if loose else [f"{w.category.__name__}: {_public(str(w.message))}" for w in caught],
        ]

    return run


def _public(text: str) -> str:
    """The part of a message that is about the call."""
    for mark in _INTERNAL:
        text = text.split(mark)[0]
    return text.replace("torchgrad_jax", "torch").rstrip(' "')


class Expressions:
    """The expressions of one test file, and the test of all of them."""

    def __init__(self, test_file: str) -> None:
        self.recording = Recording(test_file)

    def test(self, *groups: str, setup: str = "") -> Callable[..., None]:
        """A test function with one case per line of the given texts, each run after the setup."""
        rows = [line.strip() for group in groups for line in group.splitlines()]
        rows = [r for r in rows if r and not r.startswith("#")]
        assert len(rows) == len(set(rows)), [r for r in rows if rows.count(r) > 1]

        @pytest.mark.parametrize("text", rows)
        def test_expression(text: str, request: pytest.FixtureRequest) -> None:
            recorded = request.config.getoption("--oracle") == "recorded"
            live = not recorded and importlib.util.find_spec("torch") is not None
            self.recording.check(text, program(setup + text), live)

        return test_expression
