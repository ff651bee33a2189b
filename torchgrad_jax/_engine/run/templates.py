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
from typing import Any, NamedTuple

import jax

from ..._core.arrays.meta import Meta
from ..._core.errors import warn
from ..._core.host.sized import Aval
from ..._core.jax.caches import TEMPLATES, Cache
from ..._core.jax.private import TRACE_CONTEXT
from ..._core.jax.sizes import Sizes
from .program import MOST, Program, Slice

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


_NEVER: Any = (lambda numbers: False, None)


class Template:
    """What a call does for any sizes.

    Args:
        form: the call.
        fn_of: makes a function of arrays of one of leaves.
        keys: metas of the arguments, Python's types of numbers, None for what is not there.
        numbers: the sizes among the static arguments, then those of tensors that are not 1. They become symbols.
        aval: what JAX sees of a number.
    """

    def __init__(self, form: Form, fn_of: FnOf, keys: Sequence[Any], numbers: Sequence[int], aval: Any) -> None:
        self.sizes = Sizes(numbers)
        with warn.refused():
            try:
                self._trace(form, fn_of, keys, aval)
            except Exception:
                equal = self.sizes.equal()
                if not equal:
                    raise
                self.sizes = Sizes(numbers, equal)
                self._trace(form, fn_of, keys, aval)
        self.known: dict[Any, Any] = {}
        """By the inputs and results that are differentiated, and more: what `further` gave."""
        self.derived: dict[Any, Cache] = {}
        """The templates of calls that are derived from this one: of tangents, and of recorded gradients."""
        self.holds = self.sizes.check()

    def further(self, key: Any, derive: Callable[[], Any]) -> tuple[Callable[[Sequence[int]], Any], Any]:
        """What is derived from this for any sizes, such as gradients, and whether it holds for given ones."""
        found = self.known.get(key)
        if found is None:
            try:
                with warn.refused(), self.sizes.trace():
                    value = derive()
                found = self.sizes.check(), value
            except Exception as error:  # a trace by shape says what is wrong
                _LOG.debug("%s of %s have no template: %s: %s", key, self.fn.__name__, type(error).__name__, error)
                forget_frames(error)
                found = _NEVER
            found = self.known.setdefault(key, found)
        return found

    def _trace(self, form: Form, fn_of: FnOf, keys: Sequence[Any], aval: Any) -> None:
        with self.sizes.trace():
            fn, self.avals = _of_symbols(form, fn_of, keys, self.sizes.symbols, aval)
            closed, out = jax.make_jaxpr(fn, return_shape=True)(*self.avals)
        self.strong = any(getattr(o, "weak_type", False) for o in closed.out_avals)
        """Whether results have to be kept from weak promotion."""
        if self.strong:
            fn = strong(fn)
            with self.sizes.trace():
                closed, out = jax.make_jaxpr(fn, return_shape=True)(*self.avals)
        self.fn, self.single = fn, not isinstance(out, tuple | list)
        self.passed = passed_on(closed.jaxpr)
        self.outs = [jax.ShapeDtypeStruct(o.shape, o.dtype) for o in closed.out_avals]
        self.program = Program(closed, self.sizes)
        text = "".join([f"({''.join([self.sizes.text(n) + ',' for n in o.shape])})," for o in self.outs])
        self.shapes: Callable[[Sequence[int]], Sequence[tuple[int, ...]]] = eval(f"lambda s: ({text})")
        """The shapes of the results for given sizes."""


def _of_symbols(
    form: Form, fn_of: FnOf, keys: Sequence[Any], symbols: Sequence[Any], aval: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """The function of a call, and what JAX sees of its arguments, with symbols for all sizes."""
    left = iter(symbols)
    own = [next(left) for _ in form.numbers]
    known = [] if form.shapes is None else form.shapes(own)
    shapes = [*known, *[_with_symbols(k, left) for k in keys[len(known) :]]]
    avals = [
        jax.ShapeDtypeStruct(n, k.dtype.np) if isinstance(k, Meta) else aval(k)
        for n, k in zip(shapes, keys)
        if k is not None
    ]
    return fn_of(form.run(own)), avals


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

    def __init__(self, name: str) -> None:
        self._name = name
        self._templates: list[Template] = []
        self._closed = False
        """Whether no more templates are made."""

    def find(self, numbers: tuple[int, ...], make: Callable[[], Template], suits: Callable[[Template], Any]) -> Any:
        """What `suits` gives for a template that holds for these sizes, made now if need be; None if there is none."""
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
            template = make()
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
    make: functools.partial[Template]
    """Makes one from these sizes."""

    @property
    def static(self) -> bool:
        """Whether there are sizes among the static arguments."""
        return bool(self.make.args[0].numbers)

    def derived(self, key: Any, run_of: Callable[..., Run], leaves: Sequence[Any]) -> Form:
        """What has the templates of a call that is derived from this one.

        Args:
            key: what tells it from others that are.
            run_of: makes it of the function of this one, and of what JAX sees of the arguments and results of that.
            leaves: of each of its leaves the number of an argument that has its shape, of results from -1 downwards.
        """
        template, (form, fn_of, keys, _, aval) = self.template, self.make.args

        def of(symbols: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
            fn, avals = _of_symbols(form, fn_of, keys, symbols, aval)
            outs = [jax.ShapeDtypeStruct(n, o.dtype) for n, o in zip(template.shapes(symbols), template.outs)]
            return strong(fn) if template.strong else fn, [*avals, *reversed(outs)]

        def shapes(symbols: Sequence[Any]) -> Sequence[Any]:
            avals = of(symbols)[1]
            return [None if i is None else avals[i].shape for i in leaves]

        known = template.derived.get(key) or template.derived.setdefault(key, TEMPLATES.cache())
        return Form(known, self.numbers, lambda symbols: run_of(*of(symbols)), shapes)

    def forward(self) -> Slice:
        """The steps of the forward."""
        return self.template.program.all(self.template.single, self.numbers)

    def outs(self) -> list[Aval]:
        """What is known of the results."""
        return [Aval(n, o.dtype) for n, o in zip(self.template.shapes(self.numbers), self.template.outs)]


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
            numbers = [n for k in keys[len(known) :] if k.__class__ is Meta for n in k.shape if n != 1]
            yield form, form.templates.put(key, Family(name)) if found is None else found, (*form.numbers, *numbers)


def _ones(shape: tuple[int, ...]) -> tuple[bool, ...] | None:
    """Which dimensions are 1, if any are."""
    return tuple([n == 1 for n in shape]) if 1 in shape else None
