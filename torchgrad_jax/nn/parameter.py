"""Parameters and buffers: tensors that modules register, and those whose shape comes later."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .._core.arrays import devices, dtypes
from .._engine.memory.tensor import Tensor
from .._engine.overrides.asking import add_plain, disabled_torch_function_impl
from .._functions.create import empty

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _ParameterMeta(type):
    """Counts tensors of other classes that were made parameters as instances of `Parameter`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and bool(getattr(instance, "_is_param", False))


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module takes for one of its parameters when assigned to an attribute.

    What operators make of a parameter is a plain tensor.

    Args:
        data: the tensor whose storage becomes the parameter's; None gives an empty one. A tensor of
            a class of its own keeps that class and is marked as a parameter.
        requires_grad: whether gradients are computed for it, whatever `no_grad` says.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.nn.Parameter(torch.ones(2))
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
    """

    _is_parameter = True
    __torch_function__ = disabled_torch_function_impl  # type: ignore[assignment]

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = empty(0)
        kind = type(data)
        if kind is Tensor or kind is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        out = data.detach().requires_grad_(requires_grad)
        if type(out) is not kind:
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {kind.__name__} requires that detach() returns an "
                f"instance of the same type, but return type {type(out).__name__} was found instead. To use the type "
                "as a Parameter, please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation."
            )
        out._is_param = True
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        if found is None:
            copied = self.data.clone()
            found = memo[id(self)] = type(self)(copied, self.requires_grad)
        return found

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        shown = super().__repr__(tensor_contents=tensor_contents)
        return shown if shown.startswith("Parameter(Fake") else f"Parameter containing:\n{shown}"

    def __reduce_ex__(self, proto: Any) -> Any:
        kind = None if type(self) is Parameter else type(self)
        return rebuild_parameter, (kind, self.data, self.requires_grad, OrderedDict(), dict(self.__dict__))


def rebuild_parameter(kind: type | None, data: Tensor, requires_grad: bool, hooks: Any, state: dict[str, Any]) -> Any:
    """Inverse of `Parameter.__reduce_ex__`."""
    out = Tensor._make_subclass(kind or Parameter, data, requires_grad)
    if hooks:
        out._backward_hooks = hooks
    out.__dict__.update(state)
    return out


add_plain(Parameter)


class _BufferMeta(type):
    """Counts tensors that were made buffers as instances of `Buffer`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and bool(getattr(instance, "_is_buffer", False))


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a module takes for one of its buffers when assigned to an attribute.

    Calling the class gives a tensor of the class of `data`, marked as a buffer.

    Args:
        data: the tensor whose storage is used; None gives an empty one.
        persistent: whether the buffer belongs to the module's `state_dict`.

    Example:
        >>> import torchgrad_jax as torch
        >>> isinstance(Buffer(torch.ones(2)), Buffer)
        True
    """

    __torch_function__ = disabled_torch_function_impl  # type: ignore[assignment]

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = empty(0)
        out = data.detach().requires_grad_(data.requires_grad)
        out.persistent = persistent
        out._is_buffer = True
        return out


class UninitializedTensorMixin:
    """A parameter or buffer without a shape, until `materialize` gives it one."""

    cls_to_become: Any = None

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer with uninitialised elements.

        Args:
            shape: its shape.
            device: its device; by default the one given when the placeholder was made.
            dtype: its dtype; by default the one given when the placeholder was made.
        """
        held = self.data
        self.data = empty(
            shape, device=held.device if device is None else device, dtype=held.dtype if dtype is None else dtype
        )
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self: Any, proto: Any) -> Any:
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        attribute = getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__")
        if attribute or func in _shapeless():
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {_described(func)}. "
            "This error happens when you are using a `LazyModule` or explicitly manipulating `torch.nn.parameter."
            f"{cls.__name__}` objects. When using LazyModules Call `forward` with a dummy batch to initialize the "
            "parameters before calling torch functions"
        )


def _described(func: Any) -> str:
    """A function as torch shows it: most are methods of the class of tensors."""
    name = getattr(func, "__name__", "")
    if getattr(Tensor, name, None) is not func:
        return str(func)
    slot = name.startswith("__")
    return f"<{'slot wrapper' if slot else 'method'} '{name}' of 'torch._C.TensorBase' objects>"


_SHAPELESS = (
    "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double", "char", "short", "int", "long",
    "cuda", "cpu", "to", "get_device",
)  # fmt: skip


def _shapeless() -> list[Any]:
    """The methods that make sense without a shape."""
    return [getattr(Tensor, name) for name in _SHAPELESS if hasattr(Tensor, name)]


def _placeholder(device: Any, dtype: Any) -> Tensor:
    return empty(
        0,
        device=devices.default_device() if device is None else device,
        dtype=dtypes.get_default_dtype() if dtype is None else dtype,
    )


def is_lazy(param: Any) -> bool:
    """Return whether a parameter or buffer has no shape yet.

    Args:
        param: the parameter or buffer.

    Example:
        >>> is_lazy(UninitializedParameter())
        True
    """
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet; nothing can be computed with it.

    Args:
        requires_grad: whether the parameter will require gradients.
        device: where it will live.
        dtype: what it will hold.

    Example:
        >>> p = UninitializedParameter()
        >>> p.materialize((2, 3))
        >>> p.shape
        torch.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return Tensor._make_subclass(cls, _placeholder(device, dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        if found is None:
            held = self.data
            found = memo[id(self)] = type(self)(self.requires_grad, held.device, held.dtype)
        return found


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet; nothing can be computed with it.

    Args:
        requires_grad: whether the buffer will require gradients.
        device: where it will live.
        dtype: what it will hold.
        persistent: whether it will belong to the module's `state_dict`.
    """

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        out = Tensor._make_subclass(cls, _placeholder(device, dtype), requires_grad)
        out.persistent = persistent
        out._is_buffer = True
        return out
