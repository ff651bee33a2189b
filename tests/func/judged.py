"""Tables of expressions about transforms, each judged by what torch makes of it.

As in `tests.expressions`, but over names that a prelude defines, and looking at results as a caller of a
transform does: what their graph looks like inside is not compared.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tests.differential import Recording, describe

_INTERNAL = ("performance drop", "torch.jit", "GraphModule")
"""Marks of warnings that are about how torch is built."""


def seen(value: Any) -> Any:
    """A result as data."""
    if isinstance(value, list | tuple):
        return [type(value).__name__, *[seen(v) for v in value]]
    if isinstance(value, dict):
        return {str(k): seen(v) for k, v in value.items()}
    if not hasattr(value, "grad_fn"):
        return describe(value)
    return {
        "values": describe(value.detach().tolist()),
        "dtype": str(value.dtype).rpartition(".")[2],
        "shape": list(value.shape),
        "requires_grad": value.requires_grad,
    }


def public(text: str) -> str:
    """The part of a message that is about the call, without addresses and module names."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text.split("\nException raised")[0])
    text = text.split(" (Could this error message")[0]
    return text.replace("torchgrad_jax", "torch").rstrip(' "')


def program(prelude: str, text: str) -> Callable[[Any], Any]:
    """The prelude and an expression as a function of the module that they call `torch`."""
    loose = text.startswith("~")
    *statements, value = text.removeprefix("~").split("; ")

    def run(m: Any) -> Any:
        names: dict[str, Any] = {"torch": m}
        m.manual_seed(0)
        exec(prelude, names)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                for statement in statements:
                    exec(statement, names)
                out = seen(eval(value, names))
            except Exception as error:
                out = {"raised": type(error).__name__, "text": "" if loose else public(str(error))}
            finally:
                m.set_grad_enabled(True)
        told = [f"{w.category.__name__}: {public(str(w.message))}" for w in caught]
        return [out, [t for t in told if not any(n in t for n in _INTERNAL)]]

    return run


def table(test_file: str, prelude: str, *groups: str) -> Callable[..., None]:
    """A test function with one case per line of the given texts."""
    recording = Recording(test_file)
    rows = [line.strip() for group in groups for line in group.splitlines()]
    rows = [r for r in rows if r and not r.startswith("#")]
    assert len(rows) == len(set(rows)), [r for r in rows if rows.count(r) > 1]

    @pytest.mark.parametrize("text", rows)
    def test_expression(text: str, request: pytest.FixtureRequest) -> None:
        recorded = request.config.getoption("--oracle") == "recorded"
        live = not recorded and importlib.util.find_spec("torch") is not None
        recording.check(text, program(prelude, text), live)

    return test_expression
