"""Helpers for the tests of both profilers: an outline of a profile without torch's own kernels."""

import importlib
import re
from typing import Any


def module(m, path) -> Any:
    return importlib.import_module(f"{m.__name__}.{path}")


def profiler(m) -> Any:
    return module(m, "autograd.profiler")


# What torch runs to make the gradient of the loss; and what tells of memory alone.
_ASIDE = {"aten::ones_like", "[memory]"}


def outline(events) -> list[Any]:
    """Names and nesting, without what operators and torch's own nodes do inside."""
    return [_entry(e) for e in events if e.cpu_parent is None and e.name not in _ASIDE]


def _entry(e) -> Any:
    inside = [_entry(c) for c in e.cpu_children if c.name not in _ASIDE and _shown(e, c)]
    return [e.name, inside] if inside else e.name


def _shown(e, child) -> bool:
    if child.is_user_annotation or e.is_user_annotation or child.scope == 1:
        return True
    if e.name.startswith("autograd::engine"):
        # torch adds gradients up here, and sums them over broadcast dimensions; hooks run here too.
        return child.name not in ("aten::sum", "aten::view", "aten::add", "aten::add_")
    # Python code: the forward and backward of custom Functions.
    return not re.search(r"^aten::|Backward\d+$|^torch::", e.name)
