"""Templates: what a call does for arrays of any sizes, traced once with symbols for the sizes.

`x * 2` of (5, 3) makes a template for float32 matrices; for (7, 3) its steps are instantiated, and nothing is traced.
A template belongs to a call, the dtypes of its arguments and the dimensions that are 1. It holds for the sizes that
give the same answers as those that it was traced with (see `_core.jax.sizes`). For others another template is made;
after `MOST` of them, and where a trace with symbols fails, the call is traced for each shape.
"""

from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._core.arrays.meta import Meta
from ..._core.errors import warn
from ..._core.host.sized import Aval
from ..._core.jax.caches import TEMPLATES, Cache
from ..._core.jax.private import TRACE_CONTEXT
from ..._core.jax.sizes import Sizes, written
from .program import MOST, Program, Slice
from .trace_files import TraceFile, file_of, text_of

_LOG = logging.getLogger(__name__)


Run = Callable[[Sequence[Any]], Any]
FnOf = Callable[[Run], Callable[..., Any]]


class Form(NamedTuple):
    """A call, in which some sizes among its static arguments may be symbols.

    ``x.view(5, 12)`` and ``x.view(6, 10)`` are two calls with the same `templates`.
    """

    templates: Cache
    """By the kinds of arguments."""
    numbers: tuple[int, ...]
    """The sizes among the static arguments."""
    run: Callable[[Sequence[Any]], Run]
    """The function of the leaves, from such sizes."""
    shapes: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    """Of a call that is derived from another: the shapes of its first leaves, from the sizes of the other."""
    name: Callable[[], str | None] = lambda: None
    """What the call is called in files; None for one that another process cannot know."""


_NEVER: Any = (lambda numbers: False, None)


class Source(NamedTuple):
    """A call with arguments of some kinds, of which templates are made."""

    form: Form
    fn_of: FnOf
    """Makes a function of arrays of one of leaves."""
    keys: Sequence[Any]
    """Metas of the arguments, Python's types of numbers, None for what is not there."""
    aval: Callable[[Any], Any]
    """What JAX sees of a number."""

    def with_symbols(self, symbols: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
        """The function of the call, and what JAX sees of its arguments, with symbols for all sizes."""
        form, left = self.form, iter(symbols)
        own = [next(left) for _ in form.numbers]
        known = [] if form.shapes is None else form.shapes(own)
        shapes = [*known, *[_with_symbols(k, left) for k in self.keys[len(known) :]]]
        avals = [
            jax.ShapeDtypeStruct(n, k.dtype.np) if isinstance(k, Meta) else self.aval(k)
            for n, k in zip(shapes, self.keys)
            if k is not None
        ]
        return self.fn_of(form.run(own)), avals


class Trace(NamedTuple):
    """What a call does for any sizes, as it is kept in files."""

    strong: bool
    """Whether results have to be kept from weak promotion."""
    single: bool
    """Whether there is one result, and not a list."""
    passed: int | None
    """Which argument the call gives back, where it does nothing else."""
    outs: list[tuple[tuple[Any, ...], np.dtype]]
    """Shapes and dtypes of the results."""
    program: Program
    shapes: Callable[[Sequence[int]], Sequence[tuple[int, ...]]]
    """The shapes of the results for given sizes."""
    holds: Callable[[Sequence[int]], bool]
    """Whether all this is so for given sizes."""


class Template:
    """What a call does for any sizes.

    Args:
        source: the call, and what tells its arguments.
        numbers: the sizes among the static arguments, then those of tensors that are not 1. They become symbols.
        file: where traces are kept, if anywhere.
    """

    def __init__(self, source: Source, numbers: Sequence[int], file: TraceFile | None = None) -> None:
        self._source, self._file = source, file
        self.equal: dict[int, int] = {}
        """By number, a symbol that has to be equal to an earlier one, and that one."""
        self.sizes = Sizes(numbers)
        with warn.refused():
            try:
                trace = self._traced()
            except Exception:
                self.equal = self.sizes.equal()
                if not self.equal:
                    raise
                self.sizes = Sizes(numbers, self.equal)
                trace = self._traced()
        self._take(trace)
        if file is not None:
            file.add((self.key, None), trace, self.sizes)

    @classmethod
    def kept(cls, source: Source, file: TraceFile) -> Iterator[Template]:
        """Give the templates that another process has left in a file."""
        for key, of in list(file.read()):
            if of is None:
                self = object.__new__(cls)
                self._source, self._file, (numbers, equal) = source, file, key
                self.equal = dict(equal)
                self.sizes = Sizes(numbers, self.equal)
                trace = file.load((key, None), self.sizes)
                if trace is not None:
                    self._take(trace)
                    yield self

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from other templates of the same call, with arguments of the same kinds."""
        return tuple(self.sizes.hints[: self.sizes.n]), tuple(self.equal.items())

    def _take(self, trace: Trace) -> None:
        self.strong, self.single, self.passed, self._outs, self.program, self.shapes, self.holds = trace
        self.dtypes = [dtype for _, dtype in self._outs]
        self.known: dict[Any, Any] = {}
        """By the inputs and results that are differentiated, and more: what `further` gave."""
        self.derived: dict[Any, Cache] = {}
        """The templates of calls that are derived from this one: of tangents, and of recorded gradients."""

    def further(self, key: Any, derive: Callable[[], Any]) -> tuple[Callable[[Sequence[int]], Any], Any]:
        """What is derived from this for any sizes, such as gradients, and whether it holds for given ones."""
        found = self.known.get(key)
        if found is None:
            found = None if self._file is None else self._file.load((self.key, key), self.sizes)
            found = self.known.setdefault(key, self._derived(key, derive) if found is None else found)
        return found

    def _derived(self, key: Any, derive: Callable[[], Any]) -> Any:
        try:
            with warn.refused(), self.sizes.trace():
                value = derive()
            found = self.sizes.check(), value
        except Exception as error:  # a trace by shape says what is wrong
            _LOG.debug("%s of %s have no template: %s: %s", key, self.fn.__name__, type(error).__name__, error)
            forget_frames(error)
            return _NEVER
        if self._file is not None:
            self._file.add((self.key, key), found, self.sizes)
        return found

    @functools.cached_property
    def _function(self) -> tuple[Callable[..., Any], list[Any]]:
        with self.sizes.trace():
            fn, avals = self._source.with_symbols(self.sizes.symbols)
        return strong(fn) if self.strong else fn, avals

    @property
    def fn(self) -> Callable[..., Any]:
        """The function of the arguments, whose sizes are the symbols."""
        return self._function[0]

    @property
    def avals(self) -> list[Any]:
        """What JAX sees of the arguments."""
        return self._function[1]

    @functools.cached_property
    def outs(self) -> list[jax.ShapeDtypeStruct]:
        """What JAX sees of the results."""
        with self.sizes.trace():
            return [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self._outs]

    def _traced(self) -> Trace:
        sizes = self.sizes
        with sizes.trace():
            fn, avals = self._source.with_symbols(sizes.symbols)
            closed, out = jax.make_jaxpr(fn, return_shape=True)(*avals)
        weak = any(getattr(o, "weak_type", False) for o in closed.out_avals)
        if weak:
            with sizes.trace():
                closed, out = jax.make_jaxpr(strong(fn), return_shape=True)(*avals)
        program = Program(closed, sizes)
        outs = [(o.shape, o.dtype) for o in closed.out_avals]
        text = "".join([f"({''.join([sizes.text(n) + ',' for n in shape])})," for shape, _ in outs])
        single, passed = not isinstance(out, tuple | list), passed_on(closed.jaxpr)
        return Trace(weak, single, passed, outs, program, written(f"lambda s: ({text})"), sizes.check())


def _with_symbols(k: Any, symbols: Iterator[Any]) -> tuple[Any, ...]:
    return tuple([n if n == 1 else next(symbols) for n in k.shape]) if isinstance(k, Meta) else ()


def passed_on(jaxpr: Any) -> int | None:
    """Which of its arguments a function gives back, where it does nothing else."""
    if jaxpr.eqns or len(jaxpr.outvars) != 1 or jaxpr.outvars[0] not in jaxpr.invars:
        return None
    return jaxpr.invars.index(jaxpr.outvars[0])


def strong(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with results that keep their dtype in whatever they meet."""

    def strong(*xs: Any) -> Any:
        out = fn(*xs)
        if isinstance(out, tuple | list):
            return tuple(jax.lax.convert_element_type(o, o.dtype) for o in out)
        return jax.lax.convert_element_type(out, out.dtype)

    strong.__name__ = strong.__qualname__ = fn.__name__
    return strong


class Family:
    """The templates of a call for arguments of the same kinds."""

    def __init__(self, name: str, file: TraceFile | None) -> None:
        self._name, self.file = name, file
        self._templates: list[Template] | None = None
        self._closed = False
        """Whether no more templates are made."""

    def find(self, numbers: tuple[int, ...], source: Source, suits: Callable[[Template], Any]) -> Any:
        """What `suits` gives for a template that holds for these sizes, made now if need be; None if there is none."""
        if self._templates is None:
            self._templates = [] if self.file is None else [*islice(Template.kept(source, self.file), MOST)]
        for t in [*self._templates]:
            if t.holds(numbers) and (found := suits(t)) is not None:
                return found
        if self._closed:
            return None
        if len(self._templates) >= MOST:
            self._closed = True
            _LOG.debug("%s is traced by its shape: %d templates hold for other sizes", self._name, MOST)
            return None
        try:
            template = Template(source, numbers, self.file)
        except Exception as error:  # the trace by shape says what is wrong with the call, if there is anything
            _LOG.debug("%s has no template: %s: %s", self._name, type(error).__name__, error)
            forget_frames(error)
            return None
        self._templates.append(template)
        return suits(template)

    def close(self) -> None:
        """A trace by shape succeeded where one with symbols did not: no more templates are made."""
        self._closed = True


def forget_frames(error: BaseException | None) -> None:
    """Let an error that nobody will see hold none of the values that the functions had which it came through."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


class Found(NamedTuple):
    """A template for given sizes."""

    family: Family
    template: Template
    numbers: tuple[int, ...]
    source: Source

    @property
    def static(self) -> bool:
        """Whether there are sizes among the static arguments."""
        return bool(self.source.form.numbers)

    def derived(self, key: Any, run_of: Callable[..., Run], leaves: Sequence[Any]) -> Form:
        """What has the templates of a call that is derived from this one.

        Args:
            key: what tells it from others that are.
            run_of: makes it of the function of this one, and of what JAX sees of the arguments and results of that.
            leaves: of each of its leaves the number of an argument that has its shape, of results from -1 downwards.
        """
        template, source, file = self.template, self.source, self.family.file

        def of(symbols: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
            fn, avals = source.with_symbols(symbols)
            outs = [jax.ShapeDtypeStruct(n, dt) for n, dt in zip(template.shapes(symbols), template.dtypes)]
            return strong(fn) if template.strong else fn, [*avals, *reversed(outs)]

        def shapes(symbols: Sequence[Any]) -> Sequence[Any]:
            avals = of(symbols)[1]
            return [None if i is None else avals[i].shape for i in leaves]

        known = template.derived.get(key) or template.derived.setdefault(key, TEMPLATES.cache())
        return Form(
            known,
            self.numbers,
            lambda symbols: run_of(*of(symbols)),
            shapes,
            lambda: file and text_of((file.name, template.key, key)),
        )

    def forward(self) -> Slice:
        """The steps of the forward."""
        return self.template.program.all(self.template.single, self.numbers)

    def outs(self) -> list[Aval]:
        """What is known of the results."""
        return [Aval(n, dt) for n, dt in zip(self.template.shapes(self.numbers), self.template.dtypes)]


def families(forms: Sequence[Form], name: str, keys: Sequence[Any]) -> Iterator[tuple[Form, Family, tuple[int, ...]]]:
    """The templates for arguments of these kinds, and the sizes at hand; none where an array is empty."""
    if any(isinstance(k, Meta) and not k.numel for k in keys):
        return
    kinds: list[Any] = [TRACE_CONTEXT()]
    for k in keys:
        kinds += (k.dtype, _ones(k.shape) or k.ndim) if k.__class__ is Meta else (k,)
    key = tuple(kinds)
    for form in forms:
        known = () if form.shapes is None else form.shapes(form.numbers)
        if all(n == k.shape for n, k in zip(known, keys) if k.__class__ is Meta):
            found = form.templates.get(key)
            if found is None:
                found = form.templates.put(key, Family(name, file_of(form.name(), kinds[1:])))
            numbers = [n for k in keys[len(known) :] if k.__class__ is Meta for n in k.shape if n != 1]
            yield form, found, (*form.numbers, *numbers)


def _ones(shape: tuple[int, ...]) -> tuple[bool, ...] | None:
    """Which dimensions are 1, if any are."""
    return tuple([n == 1 for n in shape]) if 1 in shape else None
