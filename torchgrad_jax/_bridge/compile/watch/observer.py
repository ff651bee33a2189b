"""Sees each function of Python that runs while a function is traced, and each function written in C that it calls.

    observer = Observer()
    with observer:
        step(x)
    observer.reads  # what the functions that ran can have read of the outside
    observer.ran    # their code

A function written in C that may act outside (`_core/c_functions.py`) ends the trace before it is called: `AsWritten`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import random
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from traceback import walk_stack
from typing import Any

import numpy as np

from ...._core.arrays.python_numbers import Number, following_math
from ...._core.c_functions import EFFECT, HOLDER, READER, STATE, TEMPLATE, VARIABLE, describe, teller_of, verdict
from ...._core.errors.messages import AsWritten
from ...._core.python_code import CALLERS, OURS, USERS
from ...._core.signals import contextmanager, uninterrupted
from .ages import Ages
from .code_that_reads import NAMED_BY_CALLER, PASSED, Code, code_of, names_in, not_looked_at
from .kinds import layer_called
from .notes import ATOMS
from .places import LOCKS, MISSING
from .reads import Reads

_ARGUMENTS = 0x04, 0x08
"""Flags of code that takes further arguments, by position and by name."""


_IMPORTS = "<frozen importlib"


class _ThreadState(threading.local):
    observer: Observer | None = None
    """Who sees what this thread does."""


_thread = _ThreadState()


class Observer:
    """What runs while a function is traced, and what it can have read."""

    def __init__(self, *, refuses: bool = True) -> None:
        self._refuses = refuses
        """Whether what may act outside ends the trace."""
        self._outer = of_this_thread()
        """Who sees it, too: the trace of a compiled function around that of a function of JAX."""
        self.ages = Ages() if self._outer is None else self._outer.ages
        self.reads = Reads(self.ages)
        self.ran: dict[int, Code] = {}
        """The code of functions that ran, without this package's own, by its identity."""
        self.stopped: AsWritten | None = None
        """What ended the trace, which the function may have caught."""
        self.started = False
        self.takes_a_lock = False
        """Whether the function took a lock from outside and gave it back."""
        self._globals: set[tuple[int, int]] = set()
        self._outer_profile: Any = None
        self._profile = self._seen  # one bound method, so that it can be compared
        self._outer_hook: Any = None
        self._random: Any = None
        self._numpy: Any = None
        self._given_away: dict[int, tuple[Any, Any]] = {}
        """Storages of which the function has a NumPy array, and what was in them before."""
        self._stack = contextlib.ExitStack()

    # -- beginning and end
    def __enter__(self) -> Observer:
        self._random, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the old generator
        self._outer_profile = sys.getprofile()
        if self._outer_profile is not None and self._outer is None and self._refuses:
            raise AsWritten("a profiler is on, in whose place torch.compile would have to be", lasting=False)
        _thread.observer = self
        if self._outer is None:
            self._stack.enter_context(self.ages)
            self._stack.enter_context(following_math())
        self.started = True
        self._outer_hook, sys.unraisablehook = sys.unraisablehook, self._not_raised
        sys.setprofile(self._profile)
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        self.leave()

    def leave(self) -> None:
        """See nothing any more; once more after an interrupt, what was left to do."""
        if self.started:
            sys.setprofile(self._outer_profile)
            sys.unraisablehook = self._outer_hook
            self.started = False
        if _thread.observer is self:
            _thread.observer = self._outer
        self._stack.close()
        self.reads.forget()

    def _not_raised(self, error: Any) -> None:
        """What ended the trace inside a `__del__` is raised later."""
        if error.exc_value is not self.stopped:
            self._outer_hook(error)

    def check(self) -> None:
        """Raise what has ended the trace, where the function caught it, or another tool has taken the hook away."""
        self._raise_stopped()
        if self.started and sys.getprofile() is not self._profile:
            raise AsWritten("a profiler that was started in it hides from torch.compile what it calls", lasting=False)
        drawn: Any = np.random.get_state()  # noqa: NPY002 - the old generator
        if random.getstate() != self._random:
            raise AsWritten("a number was drawn from the module random", lasting=False)
        if drawn[2:] != self._numpy[2:] or not np.array_equal(drawn[1], self._numpy[1]):
            raise AsWritten("a number was drawn from numpy.random", lasting=False)

    def memory_given_away(self, st: Any) -> None:
        """The function gets a NumPy array of a tensor's memory, to which it may write while it is traced."""
        self._given_away.setdefault(id(st), (st, st.array))

    def restore(self) -> None:
        """Put the random numbers back that were drawn, and the elements that were written to by way of NumPy."""
        for st, array in self._given_away.values():
            if st.array is not array:
                st.array = array
        if self._random is not None:
            random.setstate(self._random)
            np.random.set_state(self._numpy)  # noqa: NPY002 - the old generator

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it nothing is seen: the package's own work, in which no code of the user's runs."""
        if not self.started or sys.getprofile() is not self._profile:
            yield
            return
        sys.setprofile(None)
        try:
            yield
        finally:
            if self.started:
                sys.setprofile(self._profile)

    # -- what happens
    def _seen(self, frame: types.FrameType, event: str, about: Any) -> None:
        if id(frame.f_code) in PASSED:
            return
        if self._outer is not None:
            self._outer._seen(frame, event, about)
        code = code_of(frame.f_code, frame.f_globals)
        if code.whose is OURS:
            if code.tells is None:
                PASSED.add(id(frame.f_code))
            elif event == "call":
                self._guarded(code.tells, self, frame)
            return
        if code.whose is CALLERS and self._caller_of(frame) is not USERS:
            return
        if event == "c_call":
            self._guarded(self._calls, frame, code, about)
        elif event == "call":
            self._guarded(self._begins, frame, code)
            self.reads.handlers += code.catches
        elif event == "return" and self.stopped is None:
            self.reads.handlers -= code.scan().catches
            # Where `__enter__` returns, `__exit__` has to follow: what ends the trace is raised a little later.
            with contextlib.suppress(AsWritten):
                self._guarded(self._returns, frame, about)

    def _guarded(self, what: Any, *args: Any) -> None:
        try:
            self._raise_stopped()
            what(*args)
        except AsWritten as error:
            if self._refuses:
                self.stopped, error.was_seen = error, True
                raise

    def _raise_stopped(self) -> None:
        if self.stopped is not None:
            raise self.stopped

    def _caller_of(self, frame: types.FrameType | None) -> str:
        """Whose a function is that works for its caller."""
        while frame is not None:
            kind = code_of(frame.f_code).whose
            if kind is not CALLERS:
                return kind
            frame = frame.f_back
        return OURS

    def _begins(self, frame: types.FrameType, code: Code) -> None:
        code.scan()
        if code.is_module and code.is_package:
            return
        if code.is_module and frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(_IMPORTS):
            name = frame.f_globals.get("__name__")
            text = f"the module {name} is imported for the first time{_at(frame.f_back)}"
            raise AsWritten(text, lasting=False, imports=name)
        if id(code) not in self.ran:
            self.ran[id(code)] = code
        held = frame.f_globals
        if (id(code), id(held)) not in self._globals:
            self._globals.add((id(code), id(held)))
            self.reads.globals_of(code, held)
        of, values = frame.f_code, frame.f_locals
        count = of.co_argcount + of.co_kwonlyargcount + sum(bool(of.co_flags & flag) for flag in _ARGUMENTS)
        if of.co_name in NAMED_BY_CALLER and of.co_argcount > 1:
            self.reads.add_names(code, (values[of.co_varnames[1]],))
        for name in of.co_varnames[:count]:
            value = values.get(name)
            if type(value) not in ATOMS or type(value) is Number:
                self.reads.root(code, value)
        if of.co_argcount and of.co_name.startswith("__"):
            self.reads.method_called(code, values.get(of.co_varnames[0]), of.co_name)
        for name in of.co_freevars:
            value = values.get(name)
            if type(value) not in ATOMS:
                self.reads.root(code, value, placed=True)

    def _returns(self, frame: types.FrameType, value: Any) -> None:
        caller = frame.f_back
        if caller is None:
            return
        to = code_of(caller.f_code)
        if to.whose is OURS or (to.whose is CALLERS and self._caller_of(caller) is not USERS):
            return
        to.scan()
        of = frame.f_code
        if type(value) not in ATOMS and not self.reads.result_kept(of, to, value):
            self.reads.root(to, value)
        if of.co_name == "__exit__" and value:
            raise AsWritten(f"a `with` statement swallows an error{_at(caller)}", lasting=False)
        for name in of.co_varnames[: of.co_argcount]:
            given = frame.f_locals.get(name)
            if type(given) not in ATOMS:
                self.reads.again(to, given)

    def _calls(self, frame: types.FrameType, code: Code, function: Any) -> None:
        what = verdict(function)
        if what is EFFECT:
            owner = getattr(function, "__self__", None)
            made = (
                owner is not None
                and not issubclass(type(owner), types.ModuleType | type)
                and not self.ages.is_old(owner)
            )
            if not (made and _acts_on_itself(owner)):
                if made and isinstance(owner, io.IOBase):
                    owner.close()  # nobody else can, once the trace has ended
                raise AsWritten(f"{describe(function)} was called{_at(frame)}", lasting=False)
        elif what is VARIABLE:
            if function.__name__ == "set" and function.__self__.get(MISSING) is MISSING:  # which nobody can undo
                raise AsWritten(f"a context variable without a value is set{_at(frame)}", lasting=False)
            self.reads.variable(function.__self__, code.scan())
        elif what is HOLDER and isinstance(function.__self__, LOCKS):
            if self.ages.is_old(function.__self__):
                self._takes_a_lock()
            self.reads.root(code.scan(), function.__self__)
        elif what is READER:
            self.reads.whole(code.scan(), getattr(function, "__self__", None))
        elif what is TEMPLATE:
            self.reads.add_names(code.scan(), names_in(function.__self__))
            self.reads.walk()
        elif what is STATE:
            self.reads.state(teller_of(function))

    def _takes_a_lock(self) -> None:
        self.takes_a_lock = True
        if self._outer is not None:
            self._outer._takes_a_lock()

    def acts(self, frame: types.FrameType) -> None:
        """A function of this package that acts outside is called."""
        raise AsWritten(f"torch.{frame.f_code.co_name}() was called{_at(frame.f_back)}", lasting=False)

    def loads(self, frame: types.FrameType) -> None:
        """A part of this package is about to be loaded, whose flags nobody has looked at."""
        name, held = frame.f_locals["name"], frame.f_globals
        module = f"{held['__name__']}.{name}"
        if name in held["_SUBMODULES"] and module not in sys.modules and importlib.util.find_spec(module) is not None:
            text = f"{module} is loaded for the first time{_at(frame.f_back)}"
            raise AsWritten(text, lasting=False, imports=module)

    def module_called(self, frame: types.FrameType) -> None:
        """A layer is called."""
        layer_called(self.reads, _OF_CALLS.scan(), frame.f_locals["self"])


def _acts_on_itself(owner: Any) -> bool:
    """Return whether what a C object does stays in it: a buffer of text, an iterator, a generator of random numbers."""
    if isinstance(owner, io.IOBase):
        return isinstance(owner, io.StringIO | io.BytesIO)
    return hasattr(type(owner), "__next__")


def _at(frame: types.FrameType | None) -> str:
    """The line of the user's code that a frame is at, of text that a library made the line that called it."""
    lines = [(f.f_code.co_filename, n) for f, n in walk_stack(frame) if code_of(f.f_code).whose is USERS]
    return next((f" at {file}:{n}" for file, n in [*[at for at in lines if at[0] != "<string>"], *lines]), "")


def of_this_thread() -> Observer | None:
    """Who sees what this thread does, if a function is being traced in it."""
    return _thread.observer


def unobserved() -> contextlib.AbstractContextManager[None]:
    """A block of another library's code, which nobody needs to see."""
    observer = of_this_thread()
    return contextlib.nullcontext() if observer is None else observer.paused()


def _calls_of_layers() -> None:
    """Stands for the code by which a layer is called."""


_OF_CALLS = code_of(_calls_of_layers.__code__)


def _calls_from_outside() -> Any:
    """Stands for the code that calls a function which is traced, and names what a call looks up."""
    called: Any = _calls_from_outside
    return called.__call__, called.__wrapped__, called.forward


CALLER = code_of(_calls_from_outside.__code__).scan()


def acts_outside(*functions: Any) -> None:
    """Functions of this package that run eagerly, and so does what calls them."""
    for function in functions:
        code_of(function.__code__).tells = Observer.acts


def loads_lazily(function: Any) -> None:
    """Let an observer know when a package's `__getattr__` is about to load a part of it."""
    code_of(function.__code__).tells = Observer.loads


def looks_at(function: Any, *names: str) -> None:
    """Let an observer know which attributes of `self` a method of this package looks at."""
    looks_at_parts(function, lambda given: [(given["self"], vars(given["self"]), name) for name in names])


def looks_at_parts(function: Any, parts: Callable[[dict[str, Any]], Iterable[tuple[Any, dict[Any, Any], Any]]]) -> None:
    """Let an observer know what a function of this package is about to look at, or to put something else in place of.

    Args:
        function: the function.
        parts: gets its arguments by name, and gives objects, dicts of these, and keys.
    """

    def tell(observer: Observer, frame: types.FrameType) -> None:
        observer.reads.parts_of(parts(frame.f_locals), _OF_CALLS.scan())

    code_of(function.__code__).tells = tell


def tell_of_calls(function: Any) -> None:
    """Let an observer know when a function of this package is called for a layer, its `self`."""
    code_of(function.__code__).tells = Observer.module_called
    not_looked_at(function)
