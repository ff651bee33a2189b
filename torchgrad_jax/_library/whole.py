"""Operators of libraries in C++ that are functions of tensors here, whole as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .keys import COMPOSITE
from .operator import Operator
from .schema import parse

Kernel = Callable[..., Any]


def made(schema: str, fn: Kernel) -> Operator:
    """An operator of a function.

    Args:
        schema: with its namespace, as `torchvision::nms(...) -> Tensor`.
        fn: what computes it.
    """
    namespace, _, rest = schema.partition("::")
    found = Operator(parse(rest, namespace), isolated=False)
    found.kernels[COMPOSITE] = fn
    found.whole = True
    return found


def refused(namespace: str, name: str, there: str) -> Operator:
    """An operator that says at the call which others there are."""

    def refuse(*args: Any) -> NoReturn:
        raise NotImplementedError(
            f"{namespace}::{name} is not there: of the operators of {namespace}, torchgrad_jax has {there}"
        )

    return made(f"{namespace}::{name}(Tensor input) -> Tensor", refuse)
