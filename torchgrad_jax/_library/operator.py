"""What calling a registered operator does: cast, batch, record, and run the kernel of the device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from .._bridge.compile.watch.observer import looks_at
from .._core.arrays.dtypes import dtype
from .._core.errors import warn
from .._core.state import GRAD, MODES
from .._engine.memory.tensor import Tensor
from .._engine.passes.custom import WarnNotImplemented
from ..amp.autocast_mode import autocast, is_autocast_enabled
from ..autograd.function import Function
from ..autograd.grad_mode import no_grad
from ..autograd.graph import increment_version
from .keys import ANY_DEVICE, COMPOSITE, DEVICE_KEYS
from .schema import Schema

Kernel: TypeAlias = Callable[..., Any]

_RECORDED_BY_ITSELF = (COMPOSITE, "Autograd")


_fallback = {"mode": "warn"}
_NO_KERNEL = (
    "{}: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop through it. This "
    "may lead to silently incorrect behavior. This behavior is deprecated and will be removed in a future version of "
    "PyTorch. If your operator is differentiable, please ensure you have registered an autograd kernel to the correct "
    "Autograd key (e.g. DispatchKey::Autograd, DispatchKey::CompositeImplicitAutograd). If your operator is not "
    "differentiable, or to squash this warning and use the previous behavior, please register "
    "torch::CppFunction::makeFallthrough() to DispatchKey::Autograd."
)


def get_autograd_fallback_mode() -> str:
    """What a backward pass does about operators without a gradient."""
    return _fallback["mode"]


def set_autograd_fallback_mode(mode: str) -> None:
    """Set it to "warn" or "nothing"."""
    if mode not in ("warn", "nothing"):
        raise RuntimeError("NYI: mode='error'" if mode == "error" else _UNKNOWN_MODE)
    _fallback["mode"] = mode


_UNKNOWN_MODE = "Expected mode to be one of 'warn', 'nothing', 'error'"


class Operator:
    """An operator's schema and what has been registered for it.

    `isolated` tells that its kernels are opaque: a gradient comes from a registered formula and from
    nothing else. An operator that is not isolated has the gradients of what its kernel calls, until
    it gets a formula.
    """

    def __init__(self, schema: Schema, isolated: bool) -> None:
        self.schema = schema
        self.isolated = isolated
        self.whole = False
        """Whether it needs nothing of what a package registers for its operator in C++: it is made of functions of
        tensors, and gradients, casts and shapes follow from these."""
        self.kernels: dict[str, Kernel] = {}
        self.fake: Kernel | None = None
        self.backward: Kernel | None = None
        self.setup_context: Kernel | None = None
        self.vmap: Kernel | None = None
        self.autocast: dict[str, dtype] = {}
        self._function: type[Function] | None = None

    @property
    def shown(self) -> str:
        """``namespace.name.overload``."""
        return f"{self.schema.name.replace('::', '.')}.{self.schema.overload_name or 'default'}"

    def changed(self) -> None:
        """A formula or a rule was registered."""
        self._function = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values, named = self.schema.bind(args, kwargs)
        tensors = list(_tensors([*values, *named.values()]))
        kind = tensors[0].device.type if tensors else "cpu"
        wanted = self.autocast.get(kind)
        if wanted is not None and is_autocast_enabled(kind):
            with autocast(kind, enabled=False):
                values = _cast(values, kind, wanted)
                return self._recorded(kind, values, {k: _cast([v], kind, wanted)[0] for k, v in named.items()})
        return self._recorded(kind, values, named)

    def _recorded(self, kind: str, values: list[Any], named: dict[str, Any]) -> Any:
        own = next((self.kernels[key] for key in _RECORDED_BY_ITSELF if key in self.kernels), None)
        if own is not None and self.backward is None:
            return own(*self.schema.filled(values), **named)
        batched = self.vmap is not None and not MODES.run.at_once
        followed = (self.isolated or self.backward is not None) and any(t.requires_grad for t in _tensors(values))
        if not (batched or (followed and MODES.bits & GRAD)):
            result = self.run(kind, values, named)
            if own is None and not self.isolated and MODES.run.at_once:
                self._fall_back([*values, *named.values()], result)
            return result
        flat, spec = _flatten(values)
        call = _Call(self, kind, spec, named)
        outputs = self._as_function().apply(call, *flat)
        return call.results(outputs)

    def _fall_back(self, values: Sequence[Any], result: Any) -> None:
        """What torch does of a gradient for kernels that say nothing of one: warn of it in a backward pass."""
        if _fallback["mode"] == "nothing" or not MODES.bits & GRAD:
            return
        overload = f".{self.schema.overload_name}" if self.schema.overload_name else ""
        message = _NO_KERNEL.format(self.schema.name + overload)
        inputs, bare = list(_tensors(values)), []
        for out in _tensors(result if isinstance(result, list | tuple) else [result]):
            if not (out.is_floating_point() or out.is_complex()):
                continue
            if out.requires_grad:
                out.register_hook(lambda _: warn.to_user(message))
            elif not any(out is t for t in inputs):
                bare.append(out)
        if bare and any(t.requires_grad for t in inputs):
            WarnNotImplemented(message, inputs, bare)

    def run(self, kind: str, values: Sequence[Any], named: dict[str, Any]) -> Any:
        """The kernel alone, and the versions of what it writes to."""
        kernel = self.kernels.get(DEVICE_KEYS.get(kind, kind)) or self.kernels.get(ANY_DEVICE)
        if kernel is None:
            known = ", ".join(sorted(self.kernels)) or "none"
            raise NotImplementedError(
                f"Could not run '{self.schema.name}' with arguments from the '{DEVICE_KEYS.get(kind, kind)}' backend. "
                f"This could be because the operator doesn't exist for this backend. '{self.schema.name}' is only "
                f"available for these backends: [{known}]."
            )
        given = self.schema.filled(values)
        if self.isolated:
            with no_grad():
                result = kernel(*given, **named)
            self._check_aliases(kernel, _tensors([*given, *named.values()]), result)
            self._check_results(result)
        else:
            result = kernel(*given, **named)
        if self.isolated and self.schema.is_mutable:
            by_name = dict(zip((a.name for a in self.schema.positional), given)) | named
            for argument in self.schema.arguments:
                if argument.is_write:
                    increment_version(list(_tensors([by_name[argument.name]])))
        return result

    def _check_results(self, result: Any) -> None:
        kinds = self.schema.returns
        results = (result,) if len(kinds) == 1 else result if kinds else ()
        for kind, value in zip((r.type for r in kinds), results):
            if kind.is_tensor and not kind.is_list and not isinstance(value, Tensor) and value is not None:
                raise RuntimeError(f"Unable to cast {value} to Tensor")

    def _check_aliases(self, kernel: Kernel, given: Any, result: Any) -> None:
        seen = {id(t._st) for t in given}
        for out in _tensors([result]):
            place = id(out._st)
            if place in seen and out.numel():
                raise RuntimeError(
                    f"{self.schema.name.split('::')[1]} (with implementation in {inspect.getmodule(kernel)}): The "
                    "output of this custom operator (1) must not also be an input to this custom operator and (2) may "
                    "not alias any inputs to this custom operator or other returns. The most common way to trigger "
                    "this error is if we have y = custom_op(x) and y and x are the same Tensor. Please instead return "
                    "a clone of the offending output tensor(s) (e.g. return x.clone()) or refactor the custom "
                    "operator to not return y."
                )
            seen.add(place)

    def _as_function(self) -> type[Function]:
        if self._function is None:
            namespace, name = self.schema.name.split("::")
            members: dict[str, Any] = {"operator": self, "__module__": Function.__module__}
            if self.vmap is None:
                members["generate_vmap_rule"] = True
            else:
                members["vmap"] = staticmethod(_vmap)
            self._function = type(
                f"GeneratedBackwardFor_{namespace}_{name}_{self.schema.overload_name or 'default'}",
                (_Generated,),
                members,
            )
        return self._function


class _Call:
    """What a call knows beside its flat arguments."""

    def __init__(self, operator: Operator, kind: str, spec: list[int | None], named: dict[str, Any]) -> None:
        self.operator, self.kind, self.spec, self.named = operator, kind, spec, named
        self.output_spec: list[int | None] = []
        self.alone = False

    def flat_results(self, result: Any) -> Any:
        """A kernel's results without lists among them."""
        self.alone = not isinstance(result, tuple)
        flat, self.output_spec = _flatten([result] if self.alone else result)
        return tuple(flat)

    def results(self, flat: Any) -> Any:
        """The results as the kernel returned them."""
        flat = flat if isinstance(flat, tuple) else (flat,)
        shaped = _unflatten(flat, self.output_spec)
        return shaped[0] if self.alone else tuple(shaped)


class _Generated(Function):
    """Base of the Functions that operators with formulas run as."""

    operator: ClassVar[Operator]

    @staticmethod
    def forward(call: _Call, *flat: Any) -> Any:
        return call.flat_results(call.operator.run(call.kind, _unflatten(flat, call.spec), call.named))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        call: _Call = inputs[0]
        operator = call.operator
        ctx._call = call
        if operator.setup_context is None or not any(ctx.needs_input_grad):
            return
        given = operator.schema.filled(_unflatten(inputs[1:], call.spec))
        extra = {"keyword_only_inputs": call.named} if operator.schema.keyword_only else {}
        needed = ctx.needs_input_grad
        ctx.needs_input_grad = tuple(_unflatten(needed[1:], call.spec))
        try:
            operator.setup_context(ctx=ctx, inputs=given, output=call.results(output), **extra)
        finally:
            ctx.needs_input_grad = needed

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        call: _Call = ctx._call
        operator = call.operator
        if operator.backward is None:
            raise RuntimeError(
                f"Trying to backward through {operator.shown} but no autograd formula was registered. Please use "
                "register_autograd to add one."
            )
        needed = ctx.needs_input_grad
        ctx.needs_input_grad = tuple(_unflatten(needed[1:], call.spec))
        try:
            grads = operator.backward(ctx, *_unflatten(grad_outputs, call.output_spec))
        finally:
            ctx.needs_input_grad = needed
        return (None, *_flat_grads(operator, call.spec, grads))


def _flat_grads(operator: Operator, spec: list[int | None], grads: Any) -> list[Any]:
    grads = grads if isinstance(grads, tuple) else (grads,)
    if any(grad is not None for grad in grads[len(spec) :]):
        raise RuntimeError(
            f"the gradient of {operator.shown} returned an incorrect number of gradients (expected {len(spec)}, got "
            f"{len(grads)})"
        )
    flat: list[Any] = []
    for at, grad in enumerate(grads[: len(spec)]):
        length = spec[at]
        if length is None:
            flat.append(grad)
        elif grad is None:
            flat += [None] * length
        elif not isinstance(grad, list | tuple) or len(grad) != length:
            raise RuntimeError(
                f"Expected the gradient for argument {at} of {operator.shown} to be None or a list of {length}, as the "
                f"argument is, but got {grad}"
            )
        else:
            flat += grad
    return flat


def _vmap(info: Any, in_dims: Any, call: _Call, *flat: Any) -> Any:
    operator = call.operator
    assert operator.vmap is not None  # else the rule is generated
    given = _unflatten(flat, call.spec)
    dims = tuple(_unflatten(in_dims[1:], call.spec))
    result, out_dims = operator.vmap(info, dims, *given, **call.named)
    outputs = call.flat_results(result)
    if isinstance(out_dims, tuple | list) and not call.alone:
        flat_dims, _ = _flatten(
            [
                dim if dim_length is None or isinstance(dim, list | tuple) else [dim] * dim_length
                for dim, dim_length in zip(out_dims, call.output_spec)
            ]
        )
    else:
        flat_dims = list(out_dims) if isinstance(out_dims, list | tuple) else [out_dims] * len(outputs)
    return outputs, tuple(flat_dims)


def _tensors(values: Any) -> Any:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, Tensor))


def _flatten(values: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
    """Values with the lists of tensors among them spread out, and the lengths of those lists."""
    flat: list[Any] = []
    spec: list[int | None] = []
    for value in values:
        if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
            flat += value
            spec.append(len(value))
        else:
            flat.append(value)
            spec.append(None)
    return flat, spec


def _unflatten(flat: Sequence[Any], spec: list[int | None]) -> list[Any]:
    left = iter(flat)
    return [next(left) if n is None else [next(left) for _ in range(n)] for n in spec]


def _cast(values: list[Any], kind: str, wanted: dtype) -> list[Any]:
    def one(value: Any) -> Any:
        if isinstance(value, list):
            return [one(item) for item in value]
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.device.type != kind:
            return value
        return value if value.element_size() == 8 else value.to(wanted)

    return [one(value) for value in values]


looks_at(Operator.__call__, "kernels", "fake", "backward", "setup_context", "vmap", "autocast")
