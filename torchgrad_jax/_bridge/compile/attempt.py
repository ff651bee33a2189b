"""One attempt to make a program of a function for a call: a trace, what follows from it, and how it is undone.

attempt = Attempt(function, call, Request(), patience)
outcome = attempt.trace()  # None: there is a program, `attempt.program`
attempt.undo()             # everything is as it was before
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ..._core.errors.messages import AsWritten, NeedsPlainNumbers, Unsupported
from ..._engine.memory.tensor import Tensor
from . import explain
from .arguments import object_trees
from .arguments.changed_numbers import drifted_numbers
from .arguments.number_arguments import NumberArguments
from .calls import Again, AsIs, Call, How, Outcome, Request, WithPlainNumbers
from .function_modes import under_autocast
from .patience import Patience
from .program.build import build_program
from .program.donation import surely
from .program.program import CompiledProgram
from .stance import POLICY
from .trace.apart import stand_in
from .trace.python_watch import PythonWatch


class Function(NamedTuple):
    """What is traced."""

    fn: Callable[..., Any]
    batches: object_trees.BatchClasses
    """Classes of objects that hold tensors."""
    checks: bool
    """Whether what an eager call checks is checked."""
    exact: bool = False
    """Whether its program is to give eager code's bits."""


class Attempt:
    """A trace that is about to begin; nothing has run yet.

    Args:
        function: what is traced.
        call: the call.
        request: how it is to be traced.
        patience: what is known of the function.

    Raises:
        NeedsPlainNumbers: the numbers among the arguments cannot be inputs.
    """

    def __init__(self, function: Function, call: Call, request: Request, patience: Patience) -> None:
        self.call, self.request, self.patience = call, request, patience
        self._given, known_twice = _with_stand_ins(call.given, request.stand_ins)
        self.stands_in = bool(known_twice)
        """Whether it is given other tensors for some arguments."""
        self._tensors = [known_twice.get(id(t), t) for t in call.tensors]
        self._function, mode, is_batch = function, call.key[0], function.batches.__contains__
        self._fn = function.fn if isinstance(mode, int) else under_autocast(function.fn, *mode[1:])
        self.watch = PythonWatch(self._fn, call.given, call.flat, is_batch)
        self.watch.done = request.done
        self._arguments = NumberArguments(self._given, call.flat, call.tensors, patience.plain_numbers, is_batch)
        carried = () if patience.plain_places else patience.carried.values()
        self.numbers = self.watch.log_numbers(self._arguments, carried)
        self.way = patience.way
        """In which way it is traced."""
        self.meets_arguments = False
        """Whether the function also reached an argument in another way."""
        self._program: CompiledProgram | None = None
        self.seconds = 0.0
        """How long the trace took."""

    @property
    def program(self) -> CompiledProgram:
        """What the trace gave."""
        assert self._program is not None
        return self._program

    def trace(self) -> Outcome | None:
        """Trace the function: what speaks against the program, or None."""
        began = time.perf_counter()
        outcome = self.look() or self._of_what_it_left()
        self.seconds = time.perf_counter() - began
        return outcome

    def look(self) -> Outcome | None:
        """Trace the function for a program that is not to be run; what it has left behind is not looked at."""
        name = functools.partial(explain.argument, self._function.fn, self.call.key[1])
        kept, checks, exact = self._arguments.constants_of_key, self._function.checks, self._function.exact
        with self.watch:
            self._program = build_program(
                self._fn,
                kept,
                self.watch,
                self._tensors,
                self.numbers,
                self._given,
                checked=checks,
                exact=exact,
                name=name,
            )
            return self._of_what_it_reaches()

    def _of_what_it_reaches(self) -> Outcome | None:
        """What follows from the tensors and containers that the function was seen to reach."""
        call, watch, request = self.call, self.watch, self.request
        if call.numbers and watch.reaches_arguments() and not self.patience.plain_numbers:
            return WithPlainNumbers()
        if (unknown := self.program.unknown_tensor(watch)) is not None:
            shape = tuple(unknown.shape)
            return AsIs(f"it takes a tensor {shape} that nothing which it reads leads to", How.WASTED)
        reached = watch.guards.reached_tensors
        twice = {id(t): t for t in call.tensors if id(t) in reached}
        self.meets_arguments = bool(twice)
        if twice and not (request.together or request.stand_ins or watch.guards.compares_identity):
            return Again(request._replace(stand_ins=twice))
        return None

    def _of_what_it_left(self) -> Outcome | None:
        """What follows from what the function has put where others see it."""
        if self.numbers.is_held():  # where nobody can put a plain number in its place
            return WithPlainNumbers() if self.numbers.reads_arguments() else AsIs(_HELD_NUMBER, How.WASTED)
        effect = self.watch.describe_effect(self.program.traced, self.numbers)
        if effect is None:
            return None
        carries_more = self.patience.carry(drifted_numbers(self.watch.guards))
        return Again(Request()) if carries_more else AsIs(effect, How.WASTED, self.watch.once)

    def outcome_of(self, error: BaseException) -> AsIs | WithPlainNumbers | None:
        """What follows from what was raised by the trace or the first run; None if it is the user's."""
        lenient = (POLICY.suppress_errors or POLICY.graph_breaks) and not self.patience.fullgraph
        if isinstance(error, AsWritten) or (lenient and isinstance(error, Unsupported)):
            return AsIs.because(error)
        if isinstance(error, NeedsPlainNumbers):
            return WithPlainNumbers()
        # Numbers that it was given in the place of plain ones may be what it failed for.
        given = self.numbers.reads_arguments() or bool(self.patience.carried and not self.patience.plain_places)
        if self._program is None and given and isinstance(error, Exception):
            return WithPlainNumbers(error)
        return None

    def undo(self) -> None:
        """After an error, or before another trace: everything is as it was before the call."""
        surely(self.numbers.restore)
        surely(self.watch.undo_call)

    def undo_trace(self, outcome: AsIs) -> None:
        """Before the function runs eagerly: nobody may see an effect of it twice."""
        surely(self.numbers.restore)
        left = self.watch.undo_trace()
        if left is not None:
            why = outcome.why
            raise why if isinstance(why, Exception) else Unsupported(f"{why} (and {left})")


def _with_stand_ins(given: Any, reached: Any) -> tuple[Any, dict[int, Tensor]]:
    """The arguments, with others in the place of tensors that the function also knows from elsewhere; and those."""
    if not reached:
        return given, {}
    args, kwargs = given
    known_twice = {id(x): stand_in(x) for x in (*args, *kwargs.values()) if id(x) in reached}
    args = tuple([known_twice.get(id(x), x) for x in args])
    return (args, {name: known_twice.get(id(x), x) for name, x in kwargs.items()}), known_twice


_HELD_NUMBER = (
    "a number that is another one in each call is put into an object that the function makes, "
    "into a closure or into a cache"
)
