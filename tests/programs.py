"""Programs of one test file, each of them a test: torch and torchgrad_jax must do the same.

program = Programs()
test_same_as_torch = program.test()

@program
def squares(m):
    return m.arange(3) ** 2
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest


class Programs(list[Any]):
    """Programs in the order of their declaration; as a decorator it adds one."""

    def __call__(self, fn: Any) -> Any:
        self.append(fn)
        return fn

    def raises(self, fn: Any) -> Any:
        """As a decorator it adds a program that ends in an error, which is what is compared."""
        fn.raises = True
        return self(fn)

    def test(self, raises: bool = False) -> Callable[..., None]:
        """The test of all of them, also of those that are declared later; with `raises` they all end in errors."""

        @pytest.mark.parametrize("fn", self, ids=lambda f: f.__name__)
        def test_same_as_torch(fn: Any, same: Any) -> None:
            same(fn, raises=raises or getattr(fn, "raises", False))

        return test_same_as_torch


def attempt(fn: Callable[[], Any]) -> Any:
    """What a step gives, or the error that it raises, so that a program can go on."""
    try:
        return fn()
    except Exception as error:
        return error


def complaint(fn: Callable[[], Any]) -> list[str]:
    """What a call raises: the class and the text of it."""
    try:
        fn()
    except Exception as e:
        return [type(e).__name__, str(e)]
    return ["nothing", ""]


def first_line(fn: Callable[[], Any]) -> list[str]:
    """The class and the first line of what a call raises: the lines after it are not promised."""
    kind, text = complaint(fn)
    return [kind, text.partition("\n")[0]]


def result_or_error(fn: Callable[[], Any]) -> Any:
    """What a step gives, or the class and the text of the error that it raises."""
    try:
        return fn()
    except Exception as e:
        return type(e).__name__, str(e)


def text_of(call: Callable[..., Any]) -> str:
    """What a lambda calls, as it stands on its line."""
    line = linecache.getline(call.__code__.co_filename, call.__code__.co_firstlineno)
    return line.partition(": ")[2].rstrip(",\n")


def plain_subclass(m: Any) -> Any:
    """A subclass of the module's Tensor that changes nothing."""

    class Mine(m.Tensor):
        pass

    return Mine


def digest(m: Any, t: Any) -> list[Any]:
    """Shape, dtype, and a number that tells apart what tensors hold and where, for tests of something else."""
    flat = t.detach().resolve_conj()
    flat = (m.view_as_real(flat) if flat.is_complex() else flat).double().reshape(-1)
    kind = str(t.dtype).rpartition(".")[2]
    return [list(t.shape), kind, (flat * m.arange(1.0, flat.numel() + 1).double()).sum().item()]
