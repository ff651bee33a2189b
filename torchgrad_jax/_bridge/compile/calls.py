"""A call of a compiled function: its arguments, the key by which programs for such arguments are found, and what comes
of an attempt to trace the function for it.

    call = Call.of((x, 2.0), {}, mode, batches, plain_numbers=False)
    call.key      # the kind of the arguments: shapes, dtypes, flags; a number by its type, since it is an input
    call.tensors  # [x]
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import jax

from ..._core.errors.messages import AsWritten
from ..._engine.graph.history import requires_grad_of
from ..._engine.memory.tensor import Tensor
from .arguments import object_trees
from .arguments.array_arguments import is_array_input, tensor_for
from .arguments.keys import CONSTANTS, attributes_of, key_of_constant, shape_of, shared_with
from .arguments.number_arguments import is_input
from .trace.first_calls import Once


class Call(NamedTuple):
    """The arguments of one call."""

    key: tuple[Any, ...]
    """Of what kind they are."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    flat: list[Any]
    """Their leaves."""
    tensors: list[Tensor]
    """The tensors among these, and tensors for arrays that are inputs."""
    numbers: list[Any]
    """The numbers among these that are inputs."""

    @property
    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.args, self.kwargs

    @property
    def inputs(self) -> list[Any]:
        """What a program takes."""
        return self.tensors + self.numbers if self.numbers else self.tensors

    @classmethod
    def of(
        cls,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        mode: Any,
        batches: object_trees.BatchClasses,
        *,
        plain_numbers: bool,
    ) -> Call:
        """Read the arguments of a call.

        Args:
            args, kwargs: the arguments.
            mode: what is in force besides, such as autocast.
            batches: classes of objects that hold tensors, and are taken apart like a dict.
            plain_numbers: whether numbers and arrays among the arguments are constants of the program.
        """
        flat, spec = object_trees.flatten((args, kwargs), batches.__contains__)
        tensors: list[Tensor] = []
        numbers: list[Any] = []
        key: list[Any] = [mode, shape_of(spec)]
        for x in flat:
            if isinstance(x, Tensor):
                key.append((x.__class__, x._m, x._rg or requires_grad_of(x), shared_with(tensors, x)))
                if x.__dict__:
                    held = attributes_of(x)
                    key.append(id(x) if held is None else held)
                tensors.append(x)
            elif is_input(x):
                key.append((x.__class__,))
                numbers.append(x)
            elif isinstance(x, CONSTANTS):
                key.append(key_of_constant(x))
            elif not plain_numbers and is_array_input(x):
                key.append((jax.Array, jax.typeof(x)))
                tensors.append(tensor_for(x, flat))
            elif batches.is_new_each_call(x):  # its class is one of them from here on
                return cls.of(args, kwargs, mode, batches, plain_numbers=plain_numbers)
            else:
                key.append(id(x))
        return cls(tuple(key), args, kwargs, flat, tensors, numbers)


class Request(NamedTuple):
    """How a function is to be traced."""

    together: bool = False
    """Whether an argument that it also knows from elsewhere is one tensor; it is right for no other argument then."""
    stand_ins: dict[int, Tensor] = {}
    """Arguments that it also knows from elsewhere, for which others are given to it."""
    done: tuple[Once, ...] = ()
    """What an earlier trace for this call has done."""


class Ran(NamedTuple):
    """The program has run."""

    result: Any


class How(enum.Enum):
    """For how long a function runs eagerly."""

    NOW = "this call, of which nothing is noted"
    NOTED = "this call; the reason is noted"
    ARGUMENTS = "calls with these arguments"
    WASTED = "this call; if that goes on, all later ones"
    ALWAYS = "all calls from this one on"


class AsIs(NamedTuple):
    """The function has to run eagerly, and all that an attempt has done is undone."""

    why: BaseException | str
    how: How
    once: Once | None = None
    """What it did that a further trace would find done."""

    @classmethod
    def because(cls, error: BaseException) -> AsIs:
        """The function cannot be compiled for an error that says for how long."""
        if not isinstance(error, AsWritten):
            return cls(error, How.ALWAYS)
        once = Once(imports=error.imports) if error.imports else None
        return cls(error, How.ALWAYS if error.lasting else How.WASTED, once)


class Again(NamedTuple):
    """The function has to be traced in another way."""

    request: Request


class WithPlainNumbers(NamedTuple):
    """The function has to be traced once more, with constants in the place of numbers that were inputs."""

    cause: BaseException | None = None


Outcome = Ran | AsIs | Again | WithPlainNumbers
"""What an attempt to trace a function comes to; any other error is raised, once all is undone. A call comes to `Ran` or
`AsIs`."""
