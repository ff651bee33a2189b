"""From one pure function to what the engine runs forward.

`Call` is an op with its static arguments. `Plan` is a call for given input metas: the compiled
forward and the metas of its results. Gradients (`grad_plan`) and tangents (`jvp`) are derived from a
plan. All are built once and cached.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.arrays import dtypes, shapes
from ..._core.arrays.devices import FakeDevice, fake, to_jax
from ..._core.arrays.layouts import keeps_lines
from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.numbers import check_fits, check_read, may_not_fit
from ..._core.errors import messages as errors
from ..._core.jax import abstract
from ..._core.jax.caches import KERNELS, TEMPLATES, Cache
from ..._core.state import SETTINGS
from ..._ops.registry import Fits, Grad, Later, Layout, NumberDtype, OpDef, Promote
from . import joining, templates
from .kernel import Kernel, of_steps, traced_later
from .program import Program, Slice

Key = Meta | type | None
PYTHON_NP = {
    bool: np.dtype(bool),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
_PLAN_CACHES: weakref.WeakSet[Cache] = weakref.WeakSet()


def forget_plans() -> None:
    """Drop every plan; called when the default dtype changes, which plans depend on."""
    for cache in list(_PLAN_CACHES):
        cache.clear()


_PLAIN = OpDef("", lambda: None)
"""What holds of a call that belongs to no row of the table, unless the call says otherwise."""


class Call:
    """A pure function of a fixed number of leaves (arrays, numbers or None): an op with its static arguments.

    What holds of the op in general is in its `row`. The rest depends on the arguments: ``x.sum(0)`` and ``x.sum(1)``
    are two calls of one row. A call without a row in the table names what is particular about it: ``grad=Grad.NO``.
    """

    __slots__ = (
        "__weakref__", "_plans", "argnames", "check", "edges", "forms", "forward", "full", "geometry", "inplace",
        "name", "node_name", "plain", "plans", "promoted", "result", "row", "run", "since", "statics",
    )  # fmt: skip
    in_place = False
    """Whether the result is written to the first leaf."""

    def __init__(
        self,
        name: str,
        run: Callable[[Sequence[Any]], Any],
        *,
        node_name: Any,
        argnames: tuple[str, ...] = (),
        row: OpDef = _PLAIN,
        promoted: frozenset[int] = frozenset(),
        check: Any = None,
        result: Any = None,
        edges: Any = None,
        statics: Any = None,
        geometry: Any = None,
        forward: Any = None,
        since: Mapping[tuple[int, int], Later] | None = None,
        any_size: bool = False,
        name_in_files: Callable[[], str | None] = lambda: None,
        forms: Sequence[templates.Form] = (),
        **facts: Any,
    ) -> None:
        self.row = row = replace(row, **facts) if facts else row
        self.name, self.run, self.node_name, self.argnames = name, run, node_name, argnames
        self.promoted, self.check, self.result, self.edges = promoted, check, result, edges
        self.statics, self.geometry = statics or {}, geometry
        self.forward = forward
        """`run` with the derivative of forward mode, where that is its own."""
        self.since = since or {}
        """The same of later versions of torch."""
        self.full: Call | None = None
        """Of empty tensors only: the same of ones that are not."""
        self.inplace: Any = None
        self.plain = row.kernel.conjugated is None
        """Whether the result is what the kernel gives, whatever the operands look like."""
        self._plans = KERNELS.cache()
        self.plans: dict[tuple[Key, ...], Plan] = self._plans.young
        """The plans that were used lately, in a plain dictionary: the fast path looks them up there."""
        own = templates.Form(TEMPLATES.cache(), (), lambda _: run, name=name_in_files)
        self.forms = (*forms, own) if any_size else tuple(forms)
        """What has templates for any sizes: the call, before it that with other sizes among its static arguments."""
        _PLAN_CACHES.add(self._plans)
        _PLAN_CACHES.update([form.templates for form in self.forms])

    def refusal(self, keys: Sequence[Any], outs: Any, wanted: Sequence[int]) -> Any:
        """What a backward pass raises in the place of the gradients of the wanted leaves, if it does."""
        if self.row.refused is None:
            return None
        names = self.argnames
        return self.row.refused(dict(zip(names, keys)), outs, {names[i] for i in wanted})

    @property
    def has_numbers(self) -> bool:
        """Whether there are calls that differ from this one in a number such as the slope of `leaky_relu`."""
        return any(v.__class__ in (float, complex) for v in self.statics.values())

    def derived(self, keys: Sequence[Key]) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        """`run` and `forward` with the derivatives of the version of torch that the program chose."""
        found = [later for version, later in self.since.items() if SETTINGS.torch_version >= version]
        impl, forward, by_number = found[-1] if found else (self.run, self.forward, None)
        if (by_number is None and self.row.forward_by_number) or any(isinstance(k, Meta) for k in keys[1:]):
            return impl, forward
        return by_number or impl, None

    def severed(self, keys: Sequence[Any]) -> Sequence[int]:
        """The leaves whose gradients are undefined, whatever comes in."""
        return () if self.row.severed is None else self.row.severed(keys, **self.statics)

    def plan(self, keys: tuple[Key, ...]) -> Plan:
        """The plan for these input metas, built on first use."""
        plan = self._plans.get(keys)
        return self._new_plan(keys, Plan(self, keys)) if plan is None else plan

    def known_plan(self, keys: tuple[Key, ...]) -> Plan | None:
        """The plan for these input metas, if it was built, however long ago it was used."""
        return self._plans.get(keys)

    def view_plan(self, keys: tuple[Key, ...], outs: tuple[Meta, ...], multi: bool = False) -> Plan:
        """The plan for these input metas of a call that gives views with the metas `outs`."""
        plan = self._plans.get(keys)
        return self._new_plan(keys, ViewPlan(self, keys, outs, multi)) if plan is None else plan

    def _new_plan(self, keys: tuple[Key, ...], plan: Plan) -> Plan:
        return KERNELS.plan(self._plans, keys, plan)

    def forget_plan(self, keys: tuple[Key, ...]) -> None:
        """Drop the plan for these input metas."""
        self._plans.pop(keys)

    def __repr__(self) -> str:
        return f"Call({self.name})"


_HALVES = (dtypes.float16, dtypes.bfloat16)


def aval(key: Any) -> jax.ShapeDtypeStruct:
    """What JAX sees of a leaf."""
    if isinstance(key, Meta):
        return jax.ShapeDtypeStruct(key.shape, key.dtype.np)
    np_type = jax.dtypes.canonicalize_dtype(PYTHON_NP[key])
    return jax.ShapeDtypeStruct((), np_type, weak_type=key is not bool)


def compute_dtype(call: Call, keys: tuple[Key, ...]) -> dtypes.dtype | None:
    """The dtype that the promoted leaves are brought to, or None."""
    if call.row.promote is Promote.NONE:
        return None
    dimmed, zero_dim, numbers = [], [], []
    for i in call.promoted:
        key = keys[i]
        if isinstance(key, Meta):
            (dimmed if key.ndim else zero_dim).append(key.dtype)
        elif key is not None:
            numbers.append(dtypes.of_python(key))
    target = dtypes.result_type_of(dimmed, zero_dim, numbers)
    if call.row.promote is Promote.FLOAT and target.category < dtypes.FLOATING:
        return dtypes.get_default_dtype()
    return target


def _common_device(keys: tuple[Key, ...], name: str) -> Any:
    metas = [k for k in keys if isinstance(k, Meta)]
    devices = {k.device for k in metas}
    if len(devices) == 1:
        return metas[0].device
    if any(isinstance(d, FakeDevice) for d in devices):
        return _common_fake(metas, name)
    deciding = {k.device for k in metas if k.ndim or k.device.type != "cpu"}
    if len(deciding) == 1:
        return deciding.pop()
    first, second = list(dict.fromkeys(k.device for k in metas))[:2]
    if any(d.type == "meta" for d in devices):
        raise RuntimeError(f"Tensor on device {second} is not on the expected device {first}!")
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


def _common_fake(metas: Sequence[Meta], name: str) -> Any:
    """The device of an op that takes fake tensors, of a mode that allows them to meet what else is there."""
    places = [k.device for k in metas]
    fakes = [d for d in places if isinstance(d, FakeDevice)]
    if len(fakes) < len(places) and not all(d.mixes for d in fakes):
        raise AssertionError(errors.MIXED_FAKE.format(name))
    if len({d.number for d in fakes}) > 1:
        raise AssertionError(f"Mixing fake modes NYI in aten.{name}")
    deciding = [k.device._seen for k in metas if k.ndim or k.device._seen.type != "cpu"]
    devices = list(dict.fromkeys(deciding or [d._seen for d in places]))
    if len(devices) > 1:
        raise errors.FakeTensorDeviceMismatchError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{devices[0]} and {devices[1]}!"
        )
    return fake(devices[0], fakes[0].number, fakes[0].mixes)


def _promoted(x: Any, dtype: Any) -> Any:
    """A leaf as the dtype that an op computes in.

    XLA makes ``x * float(mask)`` a choice between x and 0, which loses the NaN of NaN * 0; it does
    not see through a detour by way of integers.
    """
    if getattr(x, "dtype", None) == jnp.bool_ and jnp.issubdtype(dtype, jnp.inexact):
        x = jax.lax.convert_element_type(x, jnp.uint8)
    return jax.lax.convert_element_type(x, dtype)


def _finer(k: Key, dtype: dtypes.dtype) -> bool:
    """Whether this is a number in a tensor, of the same category."""
    if not isinstance(k, Meta) or k.ndim or dtype in _HALVES:
        return False
    return k.dtype.category == dtype.category >= dtypes.FLOATING


class Plan:
    """A call for given input metas."""

    __slots__ = ("__weakref__", "any_diff", "call", "check", "device", "diff", "fn", "forward", "fwd", "found", "grads",
                 "kernel", "keys", "out", "outs", "present", "single", "weight")  # fmt: skip

    def __init__(self, call: Call, keys: tuple[Key, ...]) -> None:
        self._begin(call, keys)
        if not any(isinstance(k, Meta) for k in keys):
            if not keys:
                call.run(())  # an empty list: the op says what it thinks of that
            given = ", ".join("None" if k is None else k.__name__ for k in keys)
            raise TypeError(f"{call.name}() received an invalid combination of arguments - got ({given})")
        if (
            call.row.numbers.dtype is NumberDtype.ALL_OR_NONE
            and len({isinstance(k, Meta) for k in keys[1:] if k is not None}) > 1
        ):
            raise TypeError(f"{call.name}() takes limits that are all tensors or all numbers")
        self.device = _common_device(keys, call.name)
        target = compute_dtype(call, keys)
        casts = {}
        if target is not None:
            widened = call.row.numbers.dtype is NumberDtype.WIDE and target in _HALVES
            for i in call.promoted:
                k = keys[i]
                if i and call.row.numbers.dtype is NumberDtype.AS_GIVEN and _finer(k, target):
                    continue
                if k is not None and not (isinstance(k, Meta) and k.dtype is target):
                    lone = not isinstance(k, Meta) or not k.ndim
                    casts[i] = np.float32 if widened and lone else target.np
            if len(set(casts.values())) == 1 and len(casts) == len(call.promoted):
                casts = dict.fromkeys(casts, target.np)
        n, present = len(keys), self.present

        def of(run: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
            def fn(*xs: Any) -> Any:
                leaves: list[Any] = [None] * n
                for i, x in zip(present, xs):
                    leaves[i] = _promoted(x, casts[i]) if i in casts else x
                return run(leaves)

            fn.__name__ = fn.__qualname__ = call.name
            return fn

        run, forward = call.derived(keys)  # which this plan keeps, and with it every graph in which it is recorded
        self.fn = fn = of(run)
        self.forward = forward and of(forward)
        self.found = found = self._of_template(of) if run is call.run else None
        if found is not None:
            self.single, self.fn = found.template.single, templates.strong(fn) if found.template.strong else fn
            steps, outs, passed = found.forward(), found.outs(), found.template.passed
        else:
            jaxpr, outs = self._traced(fn)
            steps, passed = Program(jaxpr).all(self.single), templates.passed_on(jaxpr.jaxpr)
        if self.single and passed is not None:
            self._run_by(Kernel.of_others(_forwarding(passed), "given"))
        else:
            self._compile(self.fn, steps, self._form(casts))
        unreal = self.device.type == "meta"
        if not unreal and any(isinstance(k, Meta) and k.device is not self.device for k in keys):
            self._run_by(Kernel.of_others(_moving(self.fwd, self.device)))
        self.outs = tuple(
            meta(tuple(o.shape), dtypes.from_np(o.dtype), self.device, self._strides(o, i)) for i, o in enumerate(outs)
        )
        self.out = self.outs[0] if self.single else None
        self._set_diff()
        joined = self.joined()
        if joined is not None:
            self._run_by(Kernel.of_others(joining.forward(*joined)))
        self._without_data()
        if call.row.numbers.fits is not Fits.ANY:
            self._check_numbers(call.row.numbers.fits)

    def _of_template(self, fn_of: templates.FnOf) -> templates.Found | None:
        """The template that holds for this plan's sizes, which is made if need be; None where there is none."""
        keys, failed = self.keys, []
        for form, family, numbers in templates.families(self.call.forms, self.call.name, keys):
            source = templates.Source(form, fn_of, keys, aval)
            template = family.find(numbers, source, lambda t: t)
            if template is not None:
                for other in failed:
                    other.close()
                return templates.Found(family, template, numbers, source)
            failed.append(family)
        return None

    def traced_by_shape(self) -> None:
        """Note that the call can be traced for these shapes: where there is no template, none will be made."""
        if self.found is None:
            for _, family, _ in templates.families(self.call.forms, self.call.name, self.keys):
                family.close()

    def _traced(self, fn: Callable[..., Any]) -> tuple[Any, tuple[Any, ...]]:
        """The jaxpr of a function for this plan's shapes, and its results."""
        avals = [aval(self.keys[i]) for i in self.present]
        jaxpr, out = jax.make_jaxpr(fn, return_shape=True)(*avals)
        if any(getattr(o, "weak_type", False) for o in jaxpr.out_avals):
            self.fn = fn = templates.strong(fn)  # a tensor's dtype is never up for JAX's weak promotion
            jaxpr, out = jax.make_jaxpr(fn, return_shape=True)(*avals)
        self.single = not isinstance(out, tuple | list)
        self.traced_by_shape()
        return jaxpr, (out,) if self.single else tuple(out)

    def _begin(self, call: Call, keys: tuple[Key, ...]) -> None:
        self.call, self.keys = call, keys
        self.present = tuple(i for i, k in enumerate(keys) if k is not None)
        # Gradient plans by mask, jvp calls by the leaves with tangents.
        self.grads: dict[Any, Any] = {}
        self.kernel: Kernel | None = None
        self.check: Callable[[Sequence[Any]], None] | None = None
        """Refuses numbers and values before the kernel runs; what does both is then `fwd`."""
        self.weight = 0  # how many kernels were compiled for it

    def forget(self) -> None:
        """Let go of what refers to this plan, so that its kernels are freed at once when nobody uses it."""
        derived = list(self.grads.values())
        self.grads.clear()
        for plan in derived:
            if hasattr(plan, "forget"):
                plan.forget()

    def _form(self, casts: dict[int, Any]) -> Callable[..., Any] | None:
        """The row's own NumPy code for these arguments, of which no tensor has to be cast first."""
        call = self.call
        if call.row.host is None or any(isinstance(self.keys[i], Meta) for i in casts):
            return None
        return call.row.host(dict(zip(call.argnames, self.keys)), **call.statics)

    def _run_by(self, kernel: Kernel) -> None:
        """Have a kernel compute the results, without checks."""
        self.kernel, self.check, self.fwd = kernel, None, kernel.run or kernel

    def _compile(self, fn: Callable[..., Any], steps: Slice | None = None, form: Any = None) -> None:
        """Have `fn` compute the results; it is traced when it is called, unless its steps are known."""
        me = weakref.ref(self)
        if steps is None:
            self._run_by(traced_later(fn, self.device, me, is_forward=True))
        else:
            numbers = self.call.has_numbers
            self._run_by(of_steps(fn, steps, self.device, me, numbers=numbers, form=form, is_forward=True))

    def _without_data(self) -> None:
        """Let the forward of tensors without data only describe its results."""
        if self.device.type == "meta":
            self._run_by(Kernel.of_others(abstract.kernel(self.fwd, self.outs, self.single)))

    def _check_numbers(self, how: Fits) -> None:
        """Let the forward refuse numbers that do not fit the dtype of the result."""
        dt = self.outs[0].dtype
        if dt in _HALVES and how is Fits.BUT_HALVES:
            return
        if dt in _HALVES and how is Fits.AS_FLOAT:
            dt = dtypes.float32
        places = [n for n, i in enumerate(self.present) if not isinstance(self.keys[i], Meta)]
        if how is Fits.ALPHA:
            names = self.call.argnames
            places = [n for n in places if names[self.present[n]] == "alpha"]
        if dt is dtypes.complex128:  # holds all numbers
            places = []
        if dt is dtypes.float64:  # all but complex ones
            places = [n for n in places if self.keys[self.present[n]] is complex]
        read = [
            n
            for n, i in enumerate(self.present)
            if how is Fits.AND_VALUES
            and self.call.argnames[i] == "value"
            and isinstance(key := self.keys[i], Meta)
            and may_not_fit(key.dtype, dt)
        ]
        if not places and not read:
            return
        assert self.kernel is not None
        kernel = self.kernel

        def check(xs: Sequence[Any]) -> None:
            for n in places:
                if isinstance(xs[n], int | float | complex):
                    check_fits(xs[n], dt)
            for n in read:
                check_read(xs[n], dt)

        def checked(*xs: Any) -> Any:
            check(xs)
            return (kernel.run or kernel)(*xs)

        self.check, self.fwd = check, checked

    def joined(self) -> tuple[Any, Meta, int, bool] | None:
        """For a call that joins more tensors than one kernel should: how it does."""
        if self.call.row.joins is None or len(self.keys) <= joining.PER_KERNEL:
            return None
        assert self.out is not None
        first = next((k for k in self.keys if k.shape != (0,)), self.keys[0])  # type: ignore[union-attr]
        return self.keys, self.out, *self.call.row.joins(first.ndim, **self.call.statics)  # type: ignore[union-attr]

    def _set_diff(self) -> None:
        row = self.call.row
        self.diff = tuple(
            k for k, m in enumerate(self.outs) if k not in row.nondiff and m.dtype.category >= dtypes.FLOATING
        )
        self.any_diff = bool(self.diff) and row.grad is not Grad.NO

    def _strides(self, out: Any, which: int) -> tuple[int, ...] | None:
        layout = self.call.row.layout
        if layout is Layout.CONTIGUOUS:
            return None
        if len(out.shape) < 2 and layout is not Layout.PRESERVE and not keeps_lines(layout):
            return None
        metas = [k for k in self.keys if isinstance(k, Meta)]
        shape = tuple(out.shape)
        if layout is Layout.ELEMENTWISE:
            if out.size and all(m.strides == shapes.contiguous_strides(m.shape) for m in metas):
                return None
            # A number that torch makes a tensor of is an operand of another shape.
            # (Exponents and bounds stay numbers.)
            named = [i for i, name in enumerate(self.call.argnames) if name in ("input", "other")]
            numbers = [
                ((), ())
                for i in {*self.call.promoted, *named}
                if self.keys[i] is not None
                and not isinstance(self.keys[i], Meta)
                and self.call.argnames[i] not in ("exponent", "min", "max")
            ]
            # One of another dtype is converted first, which gives an expanded one its own memory.
            target, promoted = compute_dtype(self.call, self.keys), {*self.call.promoted}
            if target is None and out.dtype != jnp.bool_:  # the row has promoted them by itself
                target, promoted = dtypes.BY_NP[out.dtype], {*named}
            converted = {
                i
                for i in promoted
                if target is not None and isinstance(k := self.keys[i], Meta) and k.dtype is not target
            }
            operands = [
                (k.shape, shapes.preserve_strides(k.shape, k.strides) if i in converted else k.strides)
                for i, k in enumerate(self.keys)
                if isinstance(k, Meta)
            ]
            strides = shapes.elementwise_strides(shape, [*operands, *numbers])
        elif layout is Layout.PRESERVE:
            strides = shapes.preserve_strides(shape, metas[0].strides) if shape == metas[0].shape else None
        else:
            # Some need the static arguments too, and some to know which result it is.
            more: tuple[Any, ...] = (self.call.statics,) if getattr(layout, "statics", False) else ()
            more += (which,) if getattr(layout, "numbered", False) else ()
            given = self.keys if getattr(layout, "of_keys", False) else metas
            strides = layout(given, shape, *more)
        return None if strides == shapes.contiguous_strides(shape) else strides


class ViewPlan(Plan):
    """A view for given metas: nothing runs forward, only gradients are ever derived."""

    __slots__ = ()

    def __init__(self, call: Call, keys: tuple[Key, ...], outs: tuple[Meta, ...], multi: bool) -> None:
        self._begin(call, keys)
        self.device = outs[0].device
        present, n = self.present, len(keys)

        def of(run: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
            def fn(*xs: Any) -> Any:
                leaves: list[Any] = [None] * n
                for i, x in zip(present, xs):
                    leaves[i] = x
                return run(leaves)

            fn.__name__ = fn.__qualname__ = call.name
            return fn

        self.fn = fn = of(call.run)
        self.forward = None
        self._compile(fn)
        self.single, self.outs, self.out = not multi, outs, outs[0]
        self.found = self._of_template(of)
        self._without_data()
        self._set_diff()


def _forwarding(at: int) -> Callable[..., Any]:
    """A function that only passes one of its inputs on (arrays are immutable), without a kernel."""
    return lambda *xs: xs[at]


def _moving(fwd: Callable[..., Any], dev: Any) -> Callable[..., Any]:
    """Wrap a forward whose 0-dim CPU operands join tensors on another device."""
    target = to_jax(dev)
    return lambda *xs: fwd(*[jax.device_put(x, target) if isinstance(x, jax.Array | np.ndarray) else x for x in xs])
