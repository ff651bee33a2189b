"""torch.library: operators of your own, with gradients, rules for vmap and kernels per device.

`custom_op` makes an operator of an annotated function; `Library`, `define` and `impl` build one from
a schema. Both are then found below `torch.ops`. Kernels are Python functions over tensors, which
torch.compile and the transforms of torch.func see through, so that `register_fake` is needed by
`opcheck` alone.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from . import ops
from ._core.arrays.devices import device
from ._core.arrays.dtypes import dtype as Dtype
from ._core.errors.messages import missing as _missing
from ._library import registry
from ._library.check import opcheck as opcheck
from ._library.infer_schema import infer_schema as infer_schema
from ._library.keys import ANY_DEVICE, COMPOSITE, DEVICE_KEYS, DISPATCH_KEYS
from ._library.operator import Kernel, Operator
from ._library.schema import parse

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "impl", "impl_abstract", "infer_schema", "opcheck",
    "register_autocast", "register_autograd", "register_fake", "register_kernel", "register_vmap",
]  # fmt: skip

_RESERVED = ("prim",)
_KINDS = ("DEF", "IMPL", "FRAGMENT")
_undefined_fakes: dict[str, Kernel] = {}
_custom_ops: weakref.WeakValueDictionary[str, CustomOpDef] = weakref.WeakValueDictionary()


class CustomOpDef:
    """An operator made by `custom_op`: call it, and register what else belongs to it."""

    def __init__(self, qualname: str, text: str, fn: Kernel) -> None:
        schema = parse(f"{qualname}{text}")
        self._qualname = qualname
        self._namespace, self._name, _ = registry.parts(qualname)
        self._schema = text
        self._init_fn = fn
        self._operator = Operator(schema, isolated=True)
        self._opoverload = ops.CustomOverload(self._operator)
        registry.add(self._opoverload, qualname)
        _custom_ops[qualname] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Kernel | None = None, /) -> Any:
        """Set the function that runs on tensors of some types of device; None means all."""

        def register(fn: Kernel) -> Kernel:
            for key in _device_keys(device_types):
                self._operator.kernels[key] = fn
            return fn

        return register if fn is None else register(fn)

    def register_fake(self, fn: Kernel, /) -> Kernel:
        """Set the function that tells shapes and dtypes of results; `opcheck` compares it with the operator."""
        self._operator.fake = fn
        return fn

    def register_autograd(self, backward: Kernel, /, *, setup_context: Kernel | None = None) -> None:
        """Set the gradient.

        Args:
            backward: ``backward(ctx, *grads)``, as in `autograd.Function`.
            setup_context: ``setup_context(ctx, inputs, output)``, run after the operator; with arguments that go
                by name alone, it takes ``keyword_only_inputs`` too.
        """
        if self._operator.schema.is_mutable or not self._operator.schema.returns:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self!r} with schema "
                f"{self._operator.schema}. Please create a functional operator and register an autograd formula for "
                "that."
            )
        _set_formula(self._operator, backward, setup_context)

    def register_vmap(self, func: Kernel | None = None) -> Any:
        """Set the rule for vmap: ``func(info, in_dims, *args)`` returns results and where their batch is.

        Without one, vmap goes through the kernel.
        """

        def register(func: Kernel) -> Kernel:
            self._operator.vmap = func
            self._operator.changed()
            return func

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Dtype) -> None:
        """Under `autocast`, cast floating point arguments to a dtype and run the operator without it."""
        _set_autocast(self._operator, device_type, cast_inputs)


def custom_op(
    name: str,
    fn: Kernel | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Make an operator of a function.

    Args:
        name: ``namespace::name``; it is then found at ``torch.ops.namespace.name``.
        fn: the function, whose annotations state the schema; without it, a decorator is returned.
        mutates_args: names of the tensors that it writes to, or "unknown" for all.
        device_types: the devices that the function is for; None means all.
        schema: in place of annotations, ``(Tensor x, float k=2.0) -> Tensor``.
        tags: accepted and not used.

    Returns:
        A `CustomOpDef`. Results must not share storage with arguments.

    Example:
        >>> import torchgrad_jax as torch
        >>> @torch.library.custom_op("readme::scale", mutates_args=())
        ... def scale(x: torch.Tensor, by: float) -> torch.Tensor:
        ...     return x * by
        >>> scale.register_autograd(
        ...     lambda ctx, g: (g * ctx.by, None),
        ...     setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
        ... )
        >>> x = torch.ones(2, requires_grad=True)
        >>> torch.ops.readme.scale(x, 3.0).sum().backward()
        >>> x.grad
        tensor([3., 3.])
    """
    registry.parts(name)
    mutated = mutates_args if isinstance(mutates_args, str) else set(mutates_args)

    def make(fn: Kernel) -> CustomOpDef:
        text = infer_schema(fn, mutates_args=mutated) if schema is None else schema
        made = CustomOpDef(name, text, fn)
        made.register_kernel(device_types, fn)
        return made

    return make if fn is None else make(fn)


class Library:
    """Definitions and kernels of operators in one namespace.

    Args:
        ns: the namespace.
        kind: "DEF", "FRAGMENT" or "IMPL"; operators are defined with the first two.
        dispatch_key: the key that `impl` registers for when it is given none.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in _KINDS:
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED:
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if ns == "aten":
            raise NotImplementedError(
                "torch.library.Library('aten', ...): torch's own operators cannot be redefined here; override them "
                "with __torch_function__"
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list[tuple[str, Any]] = []
        self._kernels: list[tuple[Operator, str]] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator: ``lib.define("name(Tensor x) -> Tensor")`` returns its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise RuntimeError(
                f"{schema}: a library of kind IMPL registers kernels for operators that others define; use DEF or "
                "FRAGMENT"
            )
        parsed = parse(schema, self.ns)
        qualname = f"{parsed.name}.{parsed.overload_name}" if parsed.overload_name else parsed.name
        if registry.find(qualname) is not None:
            raise RuntimeError(
                f"Tried to register an operator ({parsed}) with the same name and overload name multiple times. Each "
                "overload's schema should only be registered with a single call to def()."
            )
        operator = Operator(parsed, isolated=False)
        operator.fake = _undefined_fakes.pop(qualname, None)
        overload = ops.CustomOverload(operator)
        registry.add(overload, qualname)
        self._defined.append((qualname, overload))
        return parsed.name.split("::")[1]

    def impl(
        self,
        op_name: str | ops.OpOverload,
        fn: Kernel,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Register a kernel for a dispatch key such as "CPU", "CUDA" or "CompositeImplicitAutograd"."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if with_keyset:
            raise NotImplementedError("Library.impl(with_keyset=True): there are no sets of dispatch keys here")
        key = dispatch_key or self.dispatch_key or COMPOSITE
        if key not in DISPATCH_KEYS:
            raise RuntimeError(f"could not parse dispatch key: {key}")
        name = op_name._qualname if isinstance(op_name, ops.CustomOverload) else f"{self.ns}::{op_name}"
        operator = _operator(name)
        if operator.whole:
            return
        if key == "Meta":
            operator.fake = fn
            return
        if key.startswith("Autocast") or (key.startswith("Autograd") and key != "Autograd"):
            raise NotImplementedError(
                f"Library.impl({key!r}): register gradients with register_autograd and casts with register_autocast"
            )
        operator.kernels[key] = fn
        self._kernels.append((operator, key))

    def _destroy(self) -> None:
        """Forget what this library has defined and registered."""
        for qualname, overload in self._defined:
            registry.remove(qualname, overload)
        for operator, key in self._kernels:
            operator.kernels.pop(key, None)
        self._defined.clear()
        self._kernels.clear()


def define(
    qualname: str | Library, schema: str, alias_analysis: str = "", *, lib: Library | None = None, tags: Any = ()
) -> Any:
    """Define the operator ``namespace::name`` by a schema like ``(Tensor x) -> Tensor``.

    The older form ``define(library, "name(Tensor x) -> Tensor")`` returns a decorator for its kernel.
    """
    if isinstance(qualname, Library):
        library = qualname
        qualname.define(schema, alias_analysis, tags=tags)
        name = schema.split("(", 1)[0].strip()

        def register(func: Kernel) -> Kernel:
            library.impl(name, func)
            return func

        return register
    namespace, _, _ = registry.parts(qualname)
    if not schema.strip().startswith("("):
        raise ValueError(
            'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got '
            f'"{schema}"'
        )
    (lib or Library(namespace, "FRAGMENT")).define(qualname.split("::")[1] + schema)
    return None


def impl(
    qualname: str | CustomOpDef | Library, types: str | Sequence[str], func: Any = None, *, lib: Library | None = None
) -> Any:
    """Register a kernel for types of device ("cpu", "cuda", ..., or "default" for all), or for a dispatch key.

    The older form ``impl(library, "name", dispatch_key)`` is a decorator.
    """
    if isinstance(qualname, Library):
        library = qualname

        def register_in_library(kernel: Kernel) -> Kernel:
            library.impl(str(types), kernel, func or "")
            return kernel

        return register_in_library
    operator = _operator(qualname)
    kinds = (types,) if isinstance(types, str) else types
    keys = [kind if kind in DISPATCH_KEYS else _device_keys(None if kind == "default" else kind)[0] for kind in kinds]

    def register(func: Kernel) -> Kernel:
        for key in keys:
            operator.kernels[key] = func
            if lib is not None:
                lib._kernels.append((operator, key))
        return func

    return register if func is None else register(func)


def register_kernel(
    op: Any, device_types: str | Sequence[str] | None, func: Kernel | None = None, /, *, lib: Library | None = None
) -> Any:
    """Set the function that runs on tensors of some types of device; None means all."""
    return impl(op, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(
    op: Any,
    func: Kernel | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Set the function that tells shapes and dtypes of an operator's results.

    Differs from torch: the operator may be defined later, or never, where a package brings functions
    for operators of a C++ library that cannot be loaded here.
    """

    def register(func: Kernel) -> Kernel:
        qualname = _qualname(op)
        registry.parts(qualname)
        found = registry.find(qualname)
        if found is None:
            _undefined_fakes[qualname] = func
        else:
            found.operator.fake = func
        return func

    return register if func is None else register(func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Kernel, /, *, setup_context: Kernel | None = None, lib: Library | None = None
) -> None:
    """Set an operator's gradient; see `CustomOpDef.register_autograd`."""
    made = _custom_ops.get(_qualname(op))
    if made is not None:
        made.register_autograd(backward, setup_context=setup_context)
        return
    operator = _operator(op)
    if operator.schema.is_mutable or not operator.schema.returns:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operator.shown} with schema "
            f"{operator.schema}. Please create a functional operator and register an autograd formula for that."
        )
    _set_formula(operator, backward, setup_context)


def register_vmap(op: Any, func: Kernel | None = None, /, *, lib: Library | None = None) -> Any:
    """Set an operator's rule for vmap; see `CustomOpDef.register_vmap`."""

    def register(func: Kernel) -> Kernel:
        operator = _operator(op)
        operator.vmap = func
        operator.changed()
        return func

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Dtype, /, *, lib: Library | None = None) -> None:
    """Under `autocast`, cast floating point arguments of an operator to a dtype."""
    _set_autocast(_operator(op), device_type, cast_inputs)


def _qualname(op: Any) -> str:
    if isinstance(op, CustomOpDef):
        return op._qualname
    if isinstance(op, ops.CustomOverload):
        return op._qualname
    if not isinstance(op, str):
        raise ValueError(f"expected the name of an operator or an operator, but got {op!r} of {type(op)}")
    return op


def _operator(op: Any) -> Operator:
    qualname = _qualname(op)
    registry.parts(qualname)
    found = registry.find(qualname)
    if found is None:
        raise RuntimeError(f"operator {qualname} does not exist")
    return found.operator


def _set_formula(operator: Operator, backward: Kernel, setup_context: Kernel | None) -> None:
    if operator.whole:
        return
    if not callable(backward):
        raise TypeError(f"backward: expected a callable but got {type(backward)}")
    if setup_context is not None and operator.schema.keyword_only:
        parameters = inspect.signature(setup_context).parameters
        if "keyword_only_inputs" not in parameters:
            raise TypeError(
                f"setup_context of {operator.shown} has to take (ctx, inputs, keyword_only_inputs, output), because "
                "the operator has arguments that go by name alone"
            )
    operator.backward, operator.setup_context = backward, setup_context
    operator.changed()


def _set_autocast(operator: Operator, device_type: str, cast_inputs: Dtype) -> None:
    operator.autocast[device(device_type).type] = cast_inputs


def _device_keys(device_types: str | Sequence[str] | None) -> list[str]:
    if device_types is None:
        return [ANY_DEVICE]
    kinds: Mapping[str, str] = DEVICE_KEYS
    names = (device_types,) if isinstance(device_types, str) else device_types
    return [kinds.get(device(name).type, device(name).type) for name in names]


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any, schema: str | None = None) -> NoReturn:
    """Refused: an operator's Python function is an opaque step, and kernels of Triton are launched by torch's compiler.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"torch.library.triton_op({name!r}): kernels of Triton do not run on JAX arrays. Write the kernel with Pallas, "
        "or register a Python function with torch.library.custom_op"
    )


def wrap_triton(triton_kernel: Any, /) -> NoReturn:
    """Refused, as `triton_op`.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("torch.library.wrap_triton: kernels of Triton do not run on JAX arrays")


__getattr__ = _missing(__name__)
