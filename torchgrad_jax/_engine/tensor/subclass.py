"""Tensors of the user's own classes: what makes them, and which of them cannot be made."""

from __future__ import annotations

from typing import Any

from ..._core.arrays import dtypes
from ..memory.tensor import Tensor, alias_of
from ..overrides.asking import overrides
from ..overrides.looking import activate
from .attributes import set_requires_grad, share

_POLICY = {
    "dispatch_sizes_strides_policy": None,
    "dispatch_device": False,
    "dispatch_layout": False,
    "device_for_backend_keys": None,
}


class _DisabledDispatch:
    """The `__torch_dispatch__` of classes without one; an object, so that no instance binds it."""

    __slots__ = ()

    def __call__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs or {})

    def __repr__(self) -> str:
        return "<built-in function _disabled_torch_dispatch_impl>"


disabled_torch_dispatch_impl = _DisabledDispatch()


def retyped(t: Tensor, cls: type) -> Any:
    """The same tensor, which nobody else holds, as an instance of another class."""
    if t.__class__ is cls:
        return t
    out = alias_of(t, t._m, t._al, t._vc, cls)
    out._rg, out._fn, out._onr, out._x = t._rg, t._fn, t._onr, t._x
    return out


def check_class(cls: Any) -> None:
    """Refuse what cannot be the class of a tensor here."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure "
            "your class inherits from Tensor."
        )
    if _dispatches(cls):
        raise NotImplementedError(
            f"{cls.__name__} defines __torch_dispatch__, which torchgrad_jax does not call: there is no dispatcher "
            "below autograd; define __torch_function__ instead"
        )
    if overrides(cls):
        activate()


def _dispatches(cls: type) -> bool:
    return cls.__torch_dispatch__ is not disabled_torch_dispatch_impl


def make_subclass(cls: type, data: Tensor, require_grad: bool = False, **policy: Any) -> Any:
    """A leaf of class `cls` on the storage and version counter of `data`.

    Args:
        cls: a subclass of Tensor.
        data: the tensor whose storage is used; its history is not.
        require_grad: whether the new tensor requires gradients.
        policy: torch's options for wrapper subclasses; only their defaults exist here.
    """
    for name, value in policy.items():
        if name not in _POLICY:
            raise TypeError(f"_make_subclass() got an unexpected keyword argument '{name}'")
        if value != _POLICY[name]:
            raise NotImplementedError(f"_make_subclass(): {name}={value!r} is not supported")
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {type(data).__name__}")
    if require_grad.__class__ is not bool:
        raise TypeError(
            f"_make_subclass(): argument 'require_grad' (position 3) must be bool, not {type(require_grad).__name__}"
        )
    check_class(cls)
    if require_grad and data._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    out = share(data, data._vc, cls)
    if require_grad:
        set_requires_grad(out, True)
    return out


def make_wrapper_subclass(cls: type, *args: Any, **kwargs: Any) -> Any:
    """Raise: a tensor without data of its own needs `__torch_dispatch__`."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor) or not _dispatches(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    check_class(cls)


def install() -> None:
    """Put the constructors of subclasses on Tensor."""
    make_subclass.__name__ = make_subclass.__qualname__ = "_make_subclass"
    Tensor._make_subclass = staticmethod(make_subclass)
    Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)
    Tensor.__torch_dispatch__ = disabled_torch_dispatch_impl  # type: ignore[attr-defined]
