"""How an op is declared, and the table that holds every declaration.

An op is one pure JAX function plus metadata. Its Python signature is torch's; the annotations say
how each argument travels into the compiled kernel:

=====================  ==========================================================================
annotation             the implementation receives
=====================  ==========================================================================
``Array``              a traced array; the caller must pass a tensor
``Array | None``       the same, or None
``Array | Scalar``     a tensor, or a Python number passed as a traced weakly typed scalar
``Scalar``             a Python number, traced: new values reuse the executable
``Arrays``             a tuple of traced arrays (the caller passes a list or tuple of tensors)
``OptArrays``          the same, where entries may be None
``TracedInt``          a Python int, traced (offsets and indices that vary from call to call)
``int float bool str`` a static value of that type (checked, and part of the cache key)
``Dims``               static: an int or a sequence of ints, handed over as a tuple
``Size``               static: a tuple of ints; as last positional it may be given as varargs
``Dtype``              static: a numpy dtype (the caller passes a torch dtype)
``Static``             static: anything hashable, unchecked
=====================  ==========================================================================

``X | None`` is allowed for all of them. Errors about shapes and values of static arguments are
raised by the implementation itself: it runs once per new combination, at trace time.
"""

from __future__ import annotations

import enum
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from .._core.jax.custom_jvp import custom_jvp

Array = jax.Array


if TYPE_CHECKING:  # what implementations receive, for the type checker
    Scalar = Any
    TracedInt = Any
    Arrays = tuple[Array, ...]
    OptArrays = tuple[Array | None, ...]
    Dims = tuple[int, ...]
    Size = tuple[int, ...]
    Dtype = np.dtype
    Static = Any
else:

    class Scalar:
        """Annotation: a Python number, traced."""

    class TracedInt:
        """Annotation: a Python int, traced."""

    class Arrays:
        """Annotation: a list of tensors."""

    class OptArrays:
        """Annotation: a list of tensors or Nones."""

    class Dims:
        """Annotation: an int or several, static."""

    class Size:
        """Annotation: a shape, static, possibly as varargs."""

    class Dtype:
        """Annotation: a dtype, static."""

    class Static:
        """Annotation: any hashable value, static."""


class Promote(enum.Enum):
    """How the tensor and number arguments are brought to one dtype before the implementation."""

    NONE = "as given"
    COMMON = "torch's result type"
    FLOAT = "torch's result type; integers and bool become the default dtype"


NONE, COMMON, FLOAT = Promote.NONE, Promote.COMMON, Promote.FLOAT


class Grad(enum.Enum):
    """What a backward pass may ask of the op. 'Zero' is a rule of the implementation, not this."""

    YES = "differentiable"
    NO = "outputs never require grad"
    IN_PLACE = "outputs never require grad; what is overwritten in place goes on doing so"
    REAL = "differentiable, but recording complex outputs raises, except of the form in place"
    MISSING = "recording it raises: torch or this package has no derivative"


class Layout(enum.Enum):
    """Strides of freshly computed outputs."""

    CONTIGUOUS = "row-major"
    ELEMENTWISE = "as torch's TensorIterator allocates from all tensor arguments"
    PRESERVE = "like the first tensor argument when it is dense"

    @staticmethod
    def steps(layout: Any) -> bool:
        """Return whether gradients are laid out by TensorIterator, whatever makes the result's memory."""
        return layout is Layout.ELEMENTWISE or getattr(layout, "elementwise", False)


class NoGradient(enum.Enum):
    """What torch does about a parameter that looks like one with a gradient, and has none."""

    REFUSED = "it has no edge, and recording raises if it requires grad"
    ZEROS = "a recorded gradient requires grad if the parameter does, and zeros come back to it"
    NOTHING = "a recorded gradient requires grad if the parameter does, and nothing comes back to it"


class Compares(enum.Enum):
    """What is only compared with something else, so that torch lets no gradient flow through it."""

    NOTHING = "every value that a gradient reads has a gradient of its own"
    INPUTS = "the gradients only compare the inputs: no gradient of a gradient goes back to them"
    IN_GRADIENTS = "what a gradient only compares gets no gradient of its own"
    IN_SECOND_GRADIENTS = "the same of what the gradients of the recorded gradients compare"


class Fits(enum.Enum):
    """Which Python numbers are refused because the dtype of the result cannot hold them."""

    ANY = "none"
    EXACTLY = "those that the dtype cannot hold"
    AS_FLOAT = "the same, where types of half precision take what float32 takes"
    BUT_HALVES = "the same, where types of half precision take anything"
    ALPHA = "the number `alpha` alone has to fit"
    AND_VALUES = "a tensor that is the `value`, too: torch reads it as a number"


class NumberDtype(enum.Enum):
    """In which dtype Python numbers that are given in place of tensors reach the implementation."""

    PROMOTED = "in that which the arguments are promoted to"
    WIDE = "the same, but a single number meets tensors of half precision in float32"
    AS_GIVEN = "the same, but numbers that are finer than the result keep their own dtype"
    ALL_OR_NONE = "the same, and numbers do not mix with tensors among the optional arguments"


class Overlap(enum.Enum):
    """What happens to an in-place write to a tensor that overlaps itself."""

    REFUSED = "an error, after those about the other arguments"
    REFUSED_EARLY = "an error, before all but those about a dimension, a size and a dtype"
    WARNED = "a warning"
    FINE = "the write"


class Apart(enum.Enum):
    """How far the operands of an in-place write must keep away from what is written to."""

    NO = "they need not"
    PARTLY = "all of the same memory, seen the same way, is fine; some of it is not"
    STORED = "the same, and the kernel reads conjugated tensors as they are stored"
    WHOLLY = "they share no memory at all"


class Out(enum.Enum):
    """Which dtype an ``out=`` tensor may have."""

    CAST = "any that the result is cast to in an in-place write"
    EXACT = "that of the result"
    COMPUTED = "any: it is the dtype to compute in, unless the caller gives another"
    PARTS = "as EXACT; the call returns nothing, as torch's copies of parts do"
    JOINED = "as CAST, but others are a TypeError"


@dataclass(frozen=True)
class InPlace:
    """The form in place of an op, where it differs from what writing the result would do.

    ``inplace=InPlace(overlaps=Overlap.WARNED)``: there is a form in place, which warns about overlapping elements.
    """

    node: str | None = None
    """The name of its backward node."""
    missing: str = ""
    """What torch's backward says of a form in place that it cannot derive."""
    check: Callable[[Any, Any, Any], Any] | None = None
    """Looks at the metas of what would be written to and of the result, and at the kinds of the others; true where
    any result may be cast."""
    apart: Apart | None = None
    """None stands for what elementwise operators do, or for nothing: see `reads_apart`."""
    overlaps: Overlap = Overlap.REFUSED

    def reads_apart(self, layout: Any) -> Apart:
        """Return how far the operands of an op of this layout keep away from what is written to."""
        if self.apart is not None:
            return self.apart
        return Apart.PARTLY if Layout.steps(layout) else Apart.NO


@dataclass(frozen=True)
class Numbers:
    """How an op takes Python numbers, where torch has rules of its own.

    ``numbers=Numbers(left_out=("alpha",), fits=Fits.ALPHA)``: `alpha` may not be None, and the result's dtype has to
    hold it.
    """

    left_out: tuple[str, ...] = ()
    """Parameters that may be left out, but are not to be None."""
    wrapped: bool = False
    """torch has no overload for numbers in place of tensors: they become tensors, with an edge."""
    fits: Fits = Fits.ANY
    dtype: NumberDtype = NumberDtype.PROMOTED


@dataclass(frozen=True)
class TorchKernel:
    """What torch's kernel does besides computing the result, where a program can see it.

    ``kernel=TorchKernel(copies=True)``: the result is a copy of the first argument.
    """

    copies: bool = False
    """The result is a copy of the first argument. One of an inference tensor, made for gradients, is recorded as a
    write to new memory."""
    conjugated: tuple[bool, ...] | None = None
    """Which operands are lazily conjugated where the result is that too."""
    made_as: Callable[..., Any] | None = None
    """``(shape of the result, **statics)`` -> the shape of the tensor that the kernel makes first and returns a view
    of, and how often it wrote to it, or None. That shows where no layer of autograd lies around the kernel."""
    writes: dict[str, int] = field(default_factory=dict)
    """Parameters that the kernel overwrites, each with the result of this number if there is one; no version counts
    that."""


@dataclass(frozen=True)
class Param:
    """One parameter of an op, as read from its signature."""

    name: str
    kind: Any  # one of the annotations above
    optional: bool  # None is accepted
    scalar: bool  # a Python number is accepted where a tensor is expected
    default: Any  # inspect.Parameter.empty when required
    kwonly: bool

    @property
    def dynamic(self) -> bool:
        """Whether it is an input of the kernel rather than part of its key."""
        return self.kind in _DYNAMIC


_DYNAMIC = (Array, Scalar, TracedInt, Arrays, OptArrays)
_STATIC = (int, float, bool, str, Dims, Size, Dtype, Static)


class Later(NamedTuple):
    """A row's implementations with the derivatives of a later version of torch."""

    impl: Callable[..., Any]
    forward: Callable[..., Any] | None = None
    """That of forward mode, where it is another one."""
    by_number: Callable[..., Any] | None = None
    """That of both modes where all arguments but the first are numbers, where it is another one."""


@dataclass(frozen=True)
class OpDef:
    """One row of the table: an implementation, and what cannot be read from it.

    ``binary("mul", jnp.multiply, operators=("__mul__",))`` says that `mul` is a function, a method and an operator.
    By default gradients follow from the implementation, and the result is laid out as elementwise operators do it. A
    field below is given only where torch does something else.
    """

    name: str
    impl: Callable[..., Any]

    # --- under which names users find it
    function: bool = True
    """As ``torch.<name>``, or in its namespace."""
    method: bool = True
    """As ``Tensor.<name>``."""
    namespace: str = ""
    """"linalg", "fft", "special" or "nn.functional"; "" is torch itself."""
    aliases: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    """``("__add__", "__radd__", "__iadd__")``: the operator itself first, then the reflected one where operands
    commute, and the one in place."""
    out: bool | Out = True
    """Whether it accepts ``out=``. True stands for `Out.CAST` of elementwise ops, and for `Out.EXACT` of others."""
    # --- arguments
    promote: Promote = Promote.NONE
    promoted: tuple[str, ...] | None = None
    """The parameters that promote; None stands for every array and every parameter that may be a number."""
    numbers: Numbers = Numbers()

    # --- the result
    returns: tuple[str, ...] | None = None
    """The field names of a named-tuple result."""
    layout: Layout | Callable[..., Any] = Layout.CONTIGUOUS
    geometry: Callable[..., Any] | None = None
    """For a view: ``(meta, **arguments)`` -> shape, strides and offset."""
    kernel: TorchKernel = TorchKernel()

    host: Callable[..., Any] | None = None
    """``(metas or types of the arguments by name, **statics)`` -> what computes small arrays on the CPU in NumPy, or
    None where the code that follows from the implementation has to do it. See `_core/host/forms.py`."""

    # --- gradients
    grad: Grad = Grad.YES
    node: str | Callable[..., str] = ""
    """The name of the backward node, or a function of the bound arguments that gives it."""
    nondiff: tuple[int, ...] = ()
    """Results that never require grad."""
    severed: Callable[..., Sequence[int]] | None = None
    """``(metas and types of the arguments, **statics)`` -> the arguments that torch's formula gives undefined
    gradients: nothing goes along their edges."""
    no_gradient: dict[NoGradient, tuple[str, ...]] = field(default_factory=dict)
    """``{NoGradient.REFUSED: ("weight",)}``: parameters without a gradient of their own, and what that means."""
    keeps: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    """What torch saves although no gradient reads it: parameters, for their own gradients, and "result"; or, for the
    gradient of each parameter, parameters and results."""
    from_inputs: bool | Callable[..., bool] = False
    """Recorded gradients read inputs alone, and not results that were saved: always, or where this says so of the
    values of the saved inputs."""
    compares: Compares = Compares.NOTHING
    forward: Callable[..., Any] | None = None
    """The implementation with the derivative of torch's forward mode, where that is another one than its reverse mode
    takes."""
    forward_by_number: bool = True
    """Whether `forward` also holds where all arguments but the first are numbers."""
    since: dict[tuple[int, int], Later] = field(default_factory=dict)
    """The derivatives of later versions of torch, by the first version that has them."""
    joins: Callable[..., Any] | None = None
    """``(ndim of the first input, **statics)`` -> the axis along which inputs stand one after the other in the
    result, or results in the input; and whether the parts lack that axis."""

    # --- in place
    inplace: InPlace | None = None
    """The form in place, ``name_``, if there is one; declared as ``inplace=True`` where it has no rules of its own."""

    # --- errors
    check: Callable[..., None] | None = None
    """Looks at concrete values before the kernel runs."""
    refused: Callable[..., Any] | None = None
    """``(metas by parameter, metas of the results, parameters that want a gradient)`` -> what torch's backward raises
    for them; with the name of a parameter, only where its gradient is asked for."""

    @functools.cached_property
    def params(self) -> tuple[Param, ...]:
        """The parameters, as the signature of the implementation has them."""
        return _params(self.impl)

    @property
    def doc(self) -> str:
        """What the implementation says of itself."""
        return inspect.getdoc(self.impl) or ""

    @property
    def view(self) -> bool:
        """Whether the result shares the first argument's storage."""
        return self.geometry is not None


class Table(dict[str, OpDef]):
    """Every declared op by unique name; sealed once the families are imported."""

    sealed = False

    def add(self, row: OpDef) -> None:
        """Enter a row, refusing duplicates and rows without a tensor argument."""
        if self.sealed:
            raise RuntimeError(f"the op table is sealed; cannot add {row.name!r}")
        if row.name in self:
            raise ValueError(f"op {row.name!r} is declared twice")
        if not any(p.kind in (Array, Arrays, OptArrays) for p in row.params):
            raise ValueError(f"op {row.name!r} has no Array parameter")
        self[row.name] = row


TABLE = Table()


@functools.cache
def _hint(text: str, module: str) -> Any:
    """Return what an annotation says, evaluated once per module."""
    return eval(text, vars(sys.modules[module]))


def _params(fn: Callable[..., Any]) -> tuple[Param, ...]:
    home = getattr(inspect.unwrap(fn), "__globals__", {}).get("__name__", fn.__module__)
    hints = {n: _hint(a, home) if isinstance(a, str) else a for n, a in fn.__annotations__.items()}
    out = []
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ValueError(f"{fn.__name__}: *args and **kwargs hide torch's signature")
        hint = hints.get(p.name)
        union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
        parts = set(typing.get_args(hint)) if union else {hint}
        optional = type(None) in parts
        parts.discard(type(None))
        scalar = Array in parts and Scalar in parts
        if scalar:
            parts.discard(Scalar)
        if len(parts) != 1 or (kind := parts.pop()) not in _DYNAMIC + _STATIC:
            raise ValueError(f"{fn.__name__}: parameter {p.name!r} has annotation {hint!r}")
        out.append(Param(p.name, kind, optional, scalar, p.default, p.kind is p.KEYWORD_ONLY))
    return tuple(out)


def camel(name: str) -> str:
    """``log_softmax`` -> ``LogSoftmax``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def op(fn: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
    """Declare an op: ``@op`` or ``@op(inplace=True, node="FooBackward0", ...)``.

    Returns the implementation unchanged, so that families can call each other's pure functions.
    """
    if fn is None:
        return lambda f: op(f, name=name, **options)
    label = name or fn.__name__.rstrip("_")
    known = OpDef.__dataclass_fields__
    unknown = [o for o in options if o not in known]
    if unknown:
        raise ValueError(f"op {label!r}: unknown options {unknown}")
    missing = options.get("grad") is Grad.MISSING
    options.setdefault("node", "NotImplemented" if missing else camel(label) + "Backward0")
    options["inplace"] = _in_place(options.get("inplace"))
    TABLE.add(OpDef(name=label, impl=fn, **options))
    return fn


elementwise_op = functools.partial(op, layout=Layout.ELEMENTWISE)


def _in_place(form: InPlace | bool | None) -> InPlace | None:
    """The form in place that ``inplace=True`` or ``inplace=False`` stands for."""
    return InPlace() if form is True else form or None


def with_rule(fn: Callable[..., Any], rule: Callable[..., Any], *, zeros: bool = False) -> Callable[..., Any]:
    """`fn` with ``rule(*primals, out, *tangents)`` as its derivative, linear in the tangents.

    An absent tangent adds nothing. With `zeros` it is a tensor of zeros, as in some of torch's forward formulas, so
    that what it meets makes NaN of it.
    """
    ruled = jax.custom_jvp(fn) if zeros else custom_jvp(fn)

    @ruled.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        out = ruled(*primals)
        return out, rule(*primals, out, *tangents)

    return ruled


def unary(
    name: str,
    fn: Callable[[Array], Any],
    *,
    promote: Promote = COMMON,
    rule: Callable[..., Any] | None = None,
    inplace: InPlace | bool = True,
    **options: Any,
) -> Callable[..., Any]:
    """An elementwise op of one tensor. ``rule(x, y, t)`` gives the tangent of ``y = fn(x)``."""
    body = with_rule(fn, rule) if rule else fn

    def impl(input: Array) -> Any:
        return body(input)

    impl.__name__ = impl.__qualname__ = name
    options.setdefault("layout", Layout.ELEMENTWISE)
    return op(impl, name=name, promote=promote, inplace=inplace, **options)


def binary(
    name: str,
    fn: Callable[[Array, Array], Any],
    *,
    promote: Promote = COMMON,
    rule: Callable[..., Any] | None = None,
    inplace: InPlace | bool = True,
    scalar: bool = True,
    forward: Callable[..., Any] | None = None,
    since: dict[tuple[int, int], tuple[Callable[..., Any], Callable[..., Any]]] | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """An elementwise op of a tensor and a tensor or number, broadcasting.

    ``rule(x, y, out, tx, ty)`` gives the tangent of ``out = fn(x, y)``; x and y arrive broadcast
    to one shape whenever there is a rule. `forward` is the rule of forward mode where that differs;
    `since` has the two rules of later versions of torch.
    """
    import jax.numpy as jnp

    from .helpers import broadcast

    def ruled_by(rule: Callable[..., Any] | None) -> Callable[..., Any]:
        body = with_rule(fn, rule) if rule else fn

        def impl(input: Array, other: Any) -> Any:
            x, y = broadcast(jnp.asarray(input), jnp.asarray(other))
            return body(x, y)

        return impl

    impl = ruled_by(rule)
    if forward is not None:
        options["forward"] = ruled_by(forward)
    if since is not None:
        options["since"] = {version: Later(ruled_by(of), ruled_by(along)) for version, (of, along) in since.items()}
    impl.__name__ = impl.__qualname__ = name
    impl.__annotations__["other"] = Array | Scalar if scalar else Array
    options.setdefault("layout", Layout.ELEMENTWISE)
    return op(impl, name=name, promote=promote, inplace=inplace, **options)


def compare(name: str, fn: Callable[[Array, Array], Any], **options: Any) -> Callable[..., Any]:
    """A binary op with a bool result and no derivative."""
    options.setdefault("grad", Grad.NO)
    return binary(name, fn, **options)


def variant(of: str, name: str, **options: Any) -> None:
    """The same implementation under another name, e.g. ``torch.special.expit``."""
    if "inplace" in options:
        options["inplace"] = _in_place(options["inplace"])
    TABLE.add(replace(TABLE[of], name=name, **options))
