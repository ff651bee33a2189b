"""Programs that several processes run together, as far as a program knows of them.

`distributed` knows the processes. It says here which programs have such a form:

    FINDERS.append(find)  # find(candidate) gives the form of a program, or None if it has none
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from ...._core.state import MODES
from ...._engine.memory.tensor import Tensor
from .body import Body
from .compiled_backward import BackwardDescription, ForwardAndBackward
from .donation import Donating


class JointProgram(abc.ABC):
    """The form of a program that several processes run together."""

    kernel: Donating | None
    """The program over the devices of all processes; None if they only tell each other that each runs its own."""
    has_own_values = False
    """Whether each process computes with values of its own, so that each run may come to nothing."""

    @abc.abstractmethod
    def begin(self, inputs: list[Any]) -> tuple[Donating, list[Any]] | None:
        """The program and its inputs as it takes them, if all processes begin it now."""

    @abc.abstractmethod
    def lower(self, inputs: Sequence[Any]) -> jax.stages.Lowered:
        """The program for such inputs, which is not run."""

    @abc.abstractmethod
    def bring_back(self, arrays: list[Any]) -> None:
        """Make results arrays of this process; those that are stay what they are."""


class Candidate(NamedTuple):
    """A program that may have such a form."""

    body: Body
    parts: ForwardAndBackward | None
    """Its forward and backward part, if its results have a graph. What changes them runs instead of them."""
    backward: BackwardDescription | None
    platform: Any
    """The platform of the one device where its inputs are put, None if they stay where they are."""
    args: Sequence[Tensor]
    """The arguments that it was traced with."""


FINDERS: list[Callable[[Candidate], JointProgram | None]] = []


def joint_program(candidate: Candidate) -> JointProgram | None:
    """The form of a program that the processes run together; None if it has none."""
    if MODES.target is not None:  # one program for all of its devices
        return None
    return next(filter(None, (find(candidate) for find in FINDERS)), None)
