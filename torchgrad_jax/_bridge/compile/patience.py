"""What a compiled function has learned from its calls: how it is to be traced, and how long it is worth the trouble.

Whatever makes a call run eagerly comes to `Patience.book`, as an `AsIs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..._core.errors.messages import Unsupported
from . import explain
from .arguments.keys import OftenAnew
from .calls import AsIs, How, WithPlainNumbers
from .inspection import operators_of
from .program.program import CompiledProgram
from .stance import ProgramCounter
from .watch.facts import Scalar


class Patience:
    """How long, and in which way, a function is compiled.

    Args:
        fn: the function.
        fullgraph: whether it must not run eagerly.
        written: whether it runs eagerly from the beginning, since there is no use in compiling it.
        counts: how often its programs ran, among others.
        counter: told of each program, if the program that compiles asked for it.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        fullgraph: bool,
        written: bool,
        counts: dict[str, int],
        counter: ProgramCounter | None = None,
    ) -> None:
        self._fn, self.fullgraph, self._counts, self._counter = fn, fullgraph, counts, counter
        self.written = self.is_generator = written
        """Whether it runs eagerly from now on; a generator does from the beginning."""
        self.reasons: list[str] = []
        """Why it was traced again or ran eagerly, in order."""
        self.plain_numbers = False
        """Whether numbers among the arguments are constants, since tracing with other ones failed."""
        self.plain_places = False
        """Whether all other numbers are constants, too."""
        self.carried: dict[Any, Scalar] = {}
        """Places of Python numbers that the function itself was seen to change, by identity."""
        self._wasted = 0
        """How many programs in a row could not be used a second time for what the function does in Python."""
        self._run_before = 0
        """`counts["run"]` after the program that was traced last had run."""

    @property
    def way(self) -> Any:
        """In which way the function is traced now; programs that were traced in another one do not compare."""
        return self.plain_numbers, self.plain_places, len(self.carried)

    @property
    def constants(self) -> tuple[bool, bool]:
        """Whether numbers among the arguments, and whether all others, are constants."""
        return self.plain_numbers, self.plain_places

    @constants.setter
    def constants(self, now: tuple[bool, bool]) -> None:
        self.plain_numbers, self.plain_places = now

    def reset(self) -> None:
        """Begin again; the reasons stay."""
        self.carried.clear()
        self.written, self._wasted = self.is_generator, 0

    def carry(self, places: Iterable[Scalar]) -> bool:
        """Remember the places of numbers that the function changes: whether one of them is new."""
        found = {place.at: place for place in places}
        new = found.keys() - self.carried.keys()
        self.carried.update(found)
        return bool(new)

    # -- programs
    def trace_begins(self, reason: str | None) -> None:
        """Note why there is another trace."""
        if self._counts["traced"]:
            why = reason or "arguments of other shapes, dtypes, flags or values"
            self.reasons.append(why)
            explain.traced_again(self._fn, why)

    def program_was_right(self) -> None:
        """A program was found for a call."""
        self._wasted = 0

    def new_program(self, program: CompiledProgram, reason: str | None) -> bool:
        """Count a new program, which is about to run: whether later calls find what it needs, so that it is kept."""
        self._look_whether_programs_were_of_use()
        self._counts["traced"] += 1
        self._counts["run"] += 1
        if self._counter is not None:
            self._counter.count(len(operators_of(program.traced.jaxpr)))
        self._run_before = self._counts["run"]
        once = bool(program.traced.new_state)
        self._wasted = self._wasted + 1 if once or isinstance(reason, OftenAnew) else 0
        # What made state, or changed what it depends on, does other things the next time.
        return not (once or program.traced.state_seen)

    def program_has_run(self, reason: str | None) -> None:
        """A new program has run; where that goes on, it was the last one."""
        if self._wasted > _MOST:
            self._give_up(reason or "it makes tensors that are kept outside, new ones in each call")

    def take_constants(self, outcome: WithPlainNumbers) -> AsIs | None:
        """Let more numbers be constants; if all of them are already, the function runs eagerly."""
        if self.plain_places:
            return AsIs("it asks for the type of a number that is followed", How.ALWAYS)
        self.plain_places, self.plain_numbers = self.plain_numbers, True
        explain.plain_numbers(self._fn, outcome.cause)
        return None

    # -- calls that run eagerly
    def book(self, outcome: AsIs) -> None:
        """Note that a call runs eagerly, and decide what becomes of later ones.

        Raises:
            Unsupported: if it must not.
        """
        text = str(outcome.why)
        if outcome.how is How.WASTED:
            self._book_wasted(text)
        elif self.fullgraph and outcome.how in (How.ARGUMENTS, How.ALWAYS):
            raise Unsupported(f"torch.compile: {text}")
        elif outcome.how is How.ALWAYS:
            self.written = True
            self.reasons.append(text)
            if isinstance(outcome.why, Exception):
                explain.unsupported(self._fn, outcome.why)
            else:
                explain.never_compiled(self._fn, outcome.why)
        elif outcome.how is not How.NOW:
            self._note(text)

    def _book_wasted(self, why: str) -> None:
        """A trace gave no program. If that goes on, there is no use in compiling the function."""
        self._look_whether_programs_were_of_use()
        self._wasted += 1
        self._note(why)
        if self._wasted > (_MOST_OF_FULLGRAPH if self.fullgraph else _MOST):
            if self.fullgraph:
                raise Unsupported(f"torch.compile: {why}")
            self._give_up(why)

    def _look_whether_programs_were_of_use(self) -> None:
        if self._counts["run"] > self._run_before:
            self._wasted = 0
        self._run_before = self._counts["run"]

    def _note(self, why: str) -> None:
        if why not in self.reasons:
            self.reasons.append(why)

    def _give_up(self, why: str) -> None:
        """Run the function eagerly from now on, and say so once."""
        self.written = True
        self.reasons.append(f"from now on it runs eagerly: {why}")
        explain.given_up(self._fn, why)


_MOST = 3
"""After how many programs of no further use a function is no longer compiled."""
_MOST_OF_FULLGRAPH = 1
"""The same where it must not run eagerly; what only its first call did, such as an import, is none of it."""
