"""``Tensor(...)``, ``FloatTensor(...)`` and the rest of torch's older constructors."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .._core.arrays import devices, dtypes, shapes
from .._core.arrays.meta import meta
from .._engine.entry.arguments import as_int, type_name
from .._engine.entry.bind import METHODS, composite, ops
from .._engine.entry.parser import complaint
from .._engine.memory.tensor import Alias, Tensor, alias_of, make_of
from .._engine.tensor.attributes import UntypedStorage, layout, strided_layout
from .._engine.tensor.subclass import check_class, retyped
from .arguments import check_shape, device_of, options, shape_of, unmatched
from .create import filled, from_data
from .exchange import of_user_array
from .typed_storage import TypedStorage


def construct(dt: dtypes.dtype | None, dev: devices.device, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """What the older constructors make: sizes as separate ints, or data; `dt` None leaves tensors as they are."""
    named = dict(kwargs)
    if "device" in named:
        dev = device_of("new", named.pop("device"))
    names = [k for k in ("size", "data", "other", "storage") if k in named]
    if len(names) == 1 and len(named) == 1 and not args:
        given = named.pop(names[0])
        args = (shapes.Size(given),) if names[0] == "size" else (given,)
    if named:
        raise complaint("Tensor.new", "new", args, kwargs) or unmatched("new")
    target = dt or dtypes.get_default_dtype()
    if not args:
        return _empty((0,), target, dev)
    first = args[0]
    if len(args) == 1 and isinstance(first, Tensor):
        return _same(first, dt)
    if len(args) > 1 or as_int(first) is not None:
        return _empty(shape_of("new", args), target, dev)
    if isinstance(first, UntypedStorage | TypedStorage):
        return of_storage(first, target)
    if isinstance(first, shapes.Size):
        return _empty(tuple(first), target, dev)
    if isinstance(first, str | bytes):
        raise TypeError(f"new(): invalid data type '{type_name(first)}'")
    if not isinstance(first, np.ndarray | jax.Array) and not hasattr(type(first), "__getitem__"):
        raise TypeError(f"new(): data must be a sequence (got {type_name(first)})")
    if isinstance(first, np.ndarray):  # shares the array's memory if that has the dtype
        return METHODS["to"](of_user_array(first), device=dev, dtype=target)
    return from_data(first, target, dev, False)


def _empty(shape: tuple[int, ...], dt: dtypes.dtype, dev: devices.device) -> Tensor:
    check_shape(shape, dt.itemsize)
    return make_of(Tensor, filled(0, shape, dt, dev), meta(shape, dt, dev))


def _same(t: Tensor, dt: dtypes.dtype | None) -> Tensor:
    """A view of a given tensor, which must have the constructor's dtype."""
    if dt is not None and t._m.dtype is not dt:
        names = [d.name for d in (dt, t._m.dtype)]
        raise TypeError(f"expected a tensor of dtype {names[0]} (got a tensor of dtype {names[1]})")
    return ops.alias(t)


def of_storage(storage: UntypedStorage | TypedStorage, dt: dtypes.dtype) -> Tensor:
    """A one-dimensional tensor over all of a storage."""
    if isinstance(storage, TypedStorage) and storage.dtype is not dt:
        raise RuntimeError(
            f"Expected a Storage of type {dtypes.scalar_type_name(dt)} or an UntypedStorage, but got type "
            f"{dtypes.scalar_type_name(storage.dtype)} for argument 1 'storage'"
        )
    st = storage.untyped()._storage
    n = storage.nbytes() // dt.itemsize
    holder = make_of(Tensor, st.array, st.meta)
    holder._st = holder._vc = st
    return alias_of(holder, meta((n,), dt, st.meta.device), Alias(0, None, 0, 0))


def new_tensor_object(cls: type, *args: Any, **kwargs: Any) -> Any:
    """``Tensor.__new__``: sizes or data, in the default dtype."""
    if cls is not Tensor:
        if not (isinstance(cls, type) and issubclass(cls, Tensor)):
            name = getattr(cls, "__name__", type(cls).__name__)
            raise TypeError(f"torch._C.TensorBase.__new__({name}): {name} is not a subtype of torch._C.TensorBase")
        check_class(cls)
    return retyped(construct(None, devices.default_device(), args, kwargs), cls)


def as_subclass(self: Tensor, cls: type) -> Any:
    """The same tensor as an instance of another class, by way of a view that is recorded.

    Args:
        self: the tensor.
        cls: Tensor or a subclass of it.
    """
    check_class(cls)
    return retyped(ops.alias(self), cls)


@composite(name="new", function=False)
def new(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """An older form of the ``new_*`` methods: sizes or data, in this tensor's dtype and on its device."""
    return construct(self._m.dtype, self._m.device, args, kwargs)


class _TensorType(type):
    """``torch.FloatTensor`` and its kin: callable, and what `isinstance` asks about dtype and device."""

    dtype: dtypes.dtype
    device_type: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        dev = devices.resolve(cls.device_type)
        if "dtype" in kwargs:
            options("new", kwargs["dtype"], None, None, False, False)
        return construct(cls.dtype, dev, args, kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value._m.dtype is cls.dtype and value._m.device.type == cls.device_type

    def tensor_type(cls) -> tuple[dtypes.dtype, devices.device]:
        """The dtype and device that the type stands for."""
        return cls.dtype, devices.resolve(cls.device_type)

    @property
    def is_cuda(cls) -> bool:
        """Whether its tensors live on a GPU."""
        return cls.device_type == "cuda"

    @property
    def is_sparse(cls) -> bool:
        """Whether its tensors are sparse; none are."""
        return False

    @property
    def layout(cls) -> layout:
        """How its tensors' elements are stored."""
        return strided_layout


def tensor_types(device_type: str = "cpu") -> dict[str, Any]:
    """The types of all dtypes that torch has one for, by name."""
    module = "torch" if device_type == "cpu" else f"torch.{device_type}"
    named = [d for d in dtypes.ALL if d.category != dtypes.COMPLEX and d not in dtypes.FLOAT8 and d not in _UNNAMED]
    return {
        d.type_name: _TensorType(d.type_name, (), {"dtype": d, "device_type": device_type, "__module__": module})
        for d in named
    }


_UNNAMED = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
