"""Properties and Python protocols of Tensor; `install` puts them on the class."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from .._core import devices, dtypes, formats, shapes
from .._core.meta import meta
from .._core.state import DUAL, INFERENCE, MODES
from . import printing, tensor_hooks
from .history import grad_fn_of, requires_grad_of
from .record import concrete, no_grad
from .strided import elements, is_direct, read, storage_offset
from .tensor import Alias, Storage, Tensor, Version, alias_of, extras

# --- metadata -------------------------------------------------------------------------------------


def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the size of one dimension."""
    m = self._m
    if dim is None:
        return m.size
    return m.shape[shapes.wrap_dim(dim, m.ndim, scalar=False)]


def stride(self: Tensor, dim: int | None = None) -> Any:
    """The strides in elements, or the stride of one dimension."""
    m = self._m
    if dim is None:
        return m.strides
    return m.strides[shapes.wrap_dim(dim, m.ndim, scalar=False)]


def dim(self: Tensor) -> int:
    """The number of dimensions."""
    return self._m.ndim


def numel(self: Tensor) -> int:
    """The number of elements."""
    return self._m.numel


def element_size(self: Tensor) -> int:
    """Bytes per element."""
    return self._m.dtype.itemsize


def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements are laid out row by row without gaps, or as another memory format says."""
    if memory_format is None:
        return self._m.contiguous
    if not isinstance(memory_format, formats.memory_format):
        kind = type(memory_format).__name__
        raise TypeError(
            f"is_contiguous(): argument 'memory_format' must be torch.memory_format, not {kind}"
        )
    return formats.is_contiguous_in(memory_format, self._m.shape, self._m.strides)


def data_ptr(self: Tensor) -> int:
    """A number that identifies where the first element lives: storage identity plus offset."""
    if self._m.numel == 0:
        return 0
    return self._st.data_ptr() + storage_offset(self) * self._m.dtype.itemsize


def is_leaf(self: Tensor) -> bool:
    """Whether the user made the tensor: it has no grad_fn."""
    return grad_fn_of(self) is None


def get_requires_grad(self: Tensor) -> bool:
    """Whether gradients are computed for the tensor."""
    return requires_grad_of(self)


def set_requires_grad(self: Tensor, value: bool) -> None:
    """Turn gradients on or off for a leaf."""
    if not isinstance(value, bool):
        raise RuntimeError("requires_grad must be a bool")
    if value and self._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    if grad_fn_of(self) is not None:
        hint = (
            ""
            if value
            else (
                " If you want to use a computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        )
        raise RuntimeError("you can only change requires_grad flags of leaf variables." + hint)
    if value and self._x is not None and self._x.inference and not MODES.bits & INFERENCE:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )
    self._rg = value or grad_fn_of(self) is not None


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """`requires_grad` as a method that returns the tensor."""
    if requires_grad is True and self._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    if requires_grad is True and self._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    if not (requires_grad is True and grad_fn_of(self) is not None):
        set_requires_grad(self, requires_grad)
    return self


def get_grad(self: Tensor) -> Any:
    """The accumulated gradient, or None."""
    if self._g is None and self._fn is not None and not (self._x is not None and self._x.retains):
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't "
            "be populated during autograd.backward(). If you indeed want the .grad field to be populated for a "
            "non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by "
            "mistake, make sure you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for "
            "more information.",
            stacklevel=3,
        )
    return self._g


def set_grad(self: Tensor, value: Any) -> None:
    """Assign the gradient, checking that it fits."""
    if value is None:
        self._g = None
        return
    if not isinstance(value, Tensor):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type '{type(value).__name__}'"
        )
    if value is self:
        raise RuntimeError("can't assign Variable as its own grad")
    if value._m.dtype is not self._m.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{_cxx(value)}' to a tensor with dtype '{_cxx(self)}'. "
            "The gradient must match the tensor's dtype (or the tensor's grad_dtype if set)."
        )
    if value._m.device is not self._m.device:
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{value._m.device.type}' to a tensor with device type "
            f"'{self._m.device.type}'. Please ensure that the gradient and the tensor are on the same device"
        )
    if value._m.shape != self._m.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value._m.shape)}' to a tensor of size "
            f"'{list(self._m.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )
    self._g = value


def _cxx(t: Tensor) -> str:
    return {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
            "int64": "long", "int32": "int", "complex64": "c10::complex<float>",
            "complex128": "c10::complex<double>"}.get(t._m.dtype.name, t._m.dtype.name)  # fmt: skip


def get_version(self: Tensor) -> int:
    """How often the tensor, or what shares its counter, was written to in place."""
    if self._x is not None and self._x.inference:
        raise RuntimeError("Inference tensors do not track version counter.")
    return self._vc.version


def get_base(self: Tensor) -> Any:
    """The tensor this one is a view of, or None."""
    return self._al.base if self._al is not None else None


def is_view(self: Tensor) -> bool:
    """Whether autograd regards the tensor as a view."""
    return self._al is not None and self._al.base is not None


def retains_grad(self: Tensor) -> bool:
    """Whether a non-leaf keeps its gradient."""
    return self._fn is not None and self._x is not None and self._x.retains


# --- detaching ------------------------------------------------------------------------------------


def _share(self: Tensor, vc: Any, cls: type = Tensor) -> Any:
    al = self._al
    alias = None
    if al is not None and not is_direct(self):
        alias = Alias(al.offset, None, 0, 0)
        alias.conj, alias.neg = al.conj, al.neg
    out = alias_of(self, self._m, alias, vc, cls)
    if self._x is not None and self._x.inference:
        extras(out).inference = True
    return out


def detach(self: Tensor) -> Tensor:
    """A tensor on the same storage and version counter, outside of the graph."""
    return _share(self, self._vc)


def detach_(self: Tensor) -> Tensor:
    """Cut the tensor itself from the graph."""
    if is_view(self):
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients. To fix this error, please refer to the "
            "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
        )
    self._fn, self._onr, self._rg = None, 0, False
    return self


def get_data(self: Tensor) -> Tensor:
    """The same storage without history and with a version counter of its own."""
    out = _share(self, Version())
    out._x = None  # not an inference tensor, whatever it shares storage with
    return out


def set_data(self: Tensor, new: Tensor) -> None:
    """Make this tensor refer to another one's storage."""
    if not isinstance(new, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(new).__name__}")
    if self._rg and new._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        )
    base = self._al.base if self._al is not None else None
    alias = None
    if new._al is not None or base is not None:
        al = new._al
        alias = Alias(0 if al is None else al.offset, base, 0, self._vc.version)
        if al is not None:
            alias.conj, alias.neg = al.conj, al.neg
    vc = self._vc
    if vc is self._st:
        fresh = Version()
        fresh.version = vc.version
        self._vc = fresh
    self._st, self._m, self._al = new._st, new._m, alias


# --- leaving the tensor ---------------------------------------------------------------------------


def item(self: Tensor) -> Any:
    """The value of a one-element tensor as a Python number."""
    if self._m.numel != 1:
        raise RuntimeError(f"a Tensor with {self._m.numel} elements cannot be converted to Scalar")
    al = self._al
    if (
        al is not None
        and self._st.meta.contiguous
        and self._m.dtype is self._st.meta.dtype
        and not (al.conj or al.neg)
    ):
        array = self._st.array
        if not isinstance(array, jax.core.Tracer):
            return np.asarray(array).item(al.offset)  # no kernel to cut one element out
    return concrete(self).item()


def tolist(self: Tensor) -> Any:
    """The values as nested Python lists."""
    return concrete(self).tolist()


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The values as a read-only NumPy array (XLA's buffers are immutable, so nothing is shared)."""
    if not force:
        if requires_grad_of(self):
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self._al is not None and (self._al.conj or self._al.neg):
            kind, cure = ("conjugate", "conj") if self._al.conj else ("negative", "neg")
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {kind} bit set. "
                f"Use tensor.resolve_{cure}().numpy() instead."
            )
        if self._m.device.type != "cpu":
            raise TypeError(
                f"can't convert {self._m.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                "host memory first."
            )
    if self._m.dtype in (dtypes.bfloat16, *dtypes.FLOAT8) and not force:
        raise TypeError(f"Got unsupported ScalarType {dtypes.scalar_type_name(self._m.dtype)}")
    return np.array(concrete(self))


def to_array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """NumPy's protocol."""
    out = (
        numpy(self)
        if self._m.dtype not in (dtypes.bfloat16, *dtypes.FLOAT8)
        else np.array(concrete(self))
    )
    return out if dtype is None else out.astype(dtype, copy=False)


def jax_array(self: Tensor) -> jax.Array:
    """JAX's protocol: the array by reference."""
    return read(self)


def dlpack(self: Tensor, **kwargs: Any) -> Any:
    """DLPack's protocol."""
    if requires_grad_of(self):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    return read(self).__dlpack__(**kwargs)


def dlpack_device(self: Tensor) -> Any:
    """DLPack's protocol."""
    return read(self).__dlpack_device__()


def truth(self: Tensor) -> bool:
    """Truthiness, of one element only."""
    if self._m.numel != 1:
        if self._m.numel == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(concrete(self).reshape(()))


def _number(self: Tensor, kind: type) -> Any:
    value = item(self)
    if isinstance(value, complex) and kind is not complex:
        if value.imag:
            raise RuntimeError(
                f"value cannot be converted to type {'double' if kind is float else 'int64_t'} without overflow"
            )
        value = value.real
    return kind(value)


def to_int(self: Tensor) -> int:
    """`int(tensor)`."""
    return _number(self, int)


def to_float(self: Tensor) -> float:
    """`float(tensor)`."""
    return _number(self, float)


def to_complex(self: Tensor) -> complex:
    """`complex(tensor)`."""
    return _number(self, complex)


def to_index(self: Tensor) -> int:
    """`operator.index(tensor)`: one integer."""
    if self._m.numel != 1 or self._m.dtype.category >= dtypes.FLOATING:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


def length(self: Tensor) -> int:
    """The size of the first dimension."""
    if self._m.ndim == 0:
        raise TypeError("len() of a 0-d tensor")
    return self._m.shape[0]


def iterate(self: Tensor) -> Iterator[Tensor]:
    """Views along the first dimension."""
    if self._m.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    from .bind import ops

    return iter(ops.unbind(self, 0))


def contains(self: Tensor, element: Any) -> bool:
    """Whether some element equals a number or a tensor broadcast against this one."""
    if isinstance(element, Tensor | int | float | complex | bool):
        from .bind import ops

        return bool(concrete(ops.eq(self, element)).any())
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


# --- text -----------------------------------------------------------------------------------------


def represent(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """torch's repr."""
    array = read(self)
    if isinstance(array, jax.core.Tracer):
        return f"tensor({array}, size={list(self._m.shape)})"
    index = printing.summary_index(self._m.shape)
    shown = np.asarray(array) if index is None else np.asarray(array[index])
    fn = grad_fn_of(self) if self._al is None or self._al.base is None else _quiet_grad_fn(self)
    parameter = getattr(type(self), "_is_parameter", False)
    tangent = None
    if MODES.bits & DUAL:
        from .dual import tangent_of

        tangent = tangent_of(self)
    return printing.format_tensor(
        shown, dtype=self._m.dtype.name, default_dtype=dtypes.get_default_dtype().name, shape=self._m.shape,
        device=str(self._m.device), requires_grad=requires_grad_of(self),
        grad_fn=None if fn is None else type(fn).__name__,
        is_parameter=parameter, class_name="tensor" if type(self) is Tensor or parameter else type(self).__name__,
        tangent=None if tangent is None else format(tangent, ""),
    )  # fmt: skip


def _quiet_grad_fn(t: Tensor) -> Any:
    try:
        return grad_fn_of(t)
    except RuntimeError:
        return t._fn


def formatted(self: Tensor, spec: str) -> str:
    """`format(tensor, spec)`: one element formats as a number."""
    if self._m.ndim == 0 and type(self) is Tensor:
        return item(self).__format__(spec)
    if not spec:
        return str(self)
    return object.__format__(self, spec)


# --- copying --------------------------------------------------------------------------------------


def deepcopy(self: Tensor, memo: dict[int, Any]) -> Any:
    """A leaf with its own storage; views of one storage stay views of one storage."""
    if id(self) in memo:
        return memo[id(self)]
    if grad_fn_of(self) is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    with no_grad():
        st = memo.get(id(self._st))
        if st is None:
            st = memo[id(self._st)] = Storage(self._st.array, self._st.meta)
        out = alias_of(self, self._m, None, st, type(self))
        out._st = st
        if not is_direct(self):
            out._al = Alias(self._al.offset, None, 0, 0)
            out._al.conj, out._al.neg = self._al.conj, self._al.neg
        out._rg = self._rg
        memo[id(self)] = out
        if self._g is not None:
            out._g = copy.deepcopy(self._g, memo)
        if self.__dict__:
            out.__dict__ = copy.deepcopy(self.__dict__, memo)
    return out


def reduce_ex(self: Tensor, protocol: int) -> Any:
    """Pickle as values, strides and flags; the graph is not pickled."""
    if requires_grad_of(self) and grad_fn_of(self) is not None:
        raise RuntimeError(
            "Cannot pickle a tensor that is not a leaf: only Tensors created explicitly by the user support it; "
            "use tensor.detach()"
        )
    from .hooks import warn_if_has_hooks

    warn_if_has_hooks(self)
    state = dict(self.__dict__)
    return (
        rebuild,
        (None if type(self) is Tensor else type(self), concrete(self), self._m.dtype.name,
         self._m.strides if self._m.dense else None,
         str(self._m.device), requires_grad_of(self), state),
    )  # fmt: skip


def rebuild(
    cls: type | None,
    array: np.ndarray,
    dtype: str,
    strides: Any,
    device: str,
    requires_grad: bool,
    state: Any,
) -> Any:
    """Inverse of `reduce_ex`."""
    from .tensor import make_of

    dev = devices.resolve(device)
    m = meta(array.shape, dtypes.BY_NAME[dtype], dev, strides)
    m = meta(array.shape, m.dtype, dev) if m.contiguous else m
    out = make_of(cls or Tensor, jax.device_put(array, devices.to_jax(dev)), m)
    out._rg = requires_grad
    if state:
        out.__dict__.update(state)
    return out


def get_hooks(self: Tensor) -> Any:
    """The hooks of this tensor by handle id, or None."""
    return self._x.hooks if self._x is not None else None


def set_hooks(self: Tensor, hooks: Any) -> None:
    """Replace the hooks of a leaf."""
    extras(self).hooks = hooks


def reversed_(self: Tensor) -> Tensor:
    """The tensor with every dimension reversed."""
    from .bind import ops

    return self if self._m.ndim == 0 else ops.flip(self, tuple(range(self._m.ndim)))


class UntypedStorage:
    """A view of a storage's identity and size; its bytes are XLA's and cannot be handed out."""

    def __init__(self, st: Storage) -> None:
        self._storage = st

    def data_ptr(self) -> int:
        """The number that identifies the storage."""
        return self._storage.data_ptr()

    def nbytes(self) -> int:
        """Bytes of the storage."""
        return elements(self._storage.meta) * self._storage.meta.dtype.itemsize

    def size(self) -> int:
        """Bytes of the storage."""
        return self.nbytes()

    __len__ = nbytes

    @property
    def device(self) -> devices.device:
        """Where the storage lives."""
        return self._storage.meta.device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self) -> int:
        return id(self._storage)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The storage behind the tensor."""
    return UntypedStorage(self._st)


class layout:
    """How a tensor's elements are stored; only `strided` exists here."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"


strided_layout = layout("strided")

PROPERTIES: dict[str, property] = {
    "shape": property(lambda self: self._m.size),
    "dtype": property(lambda self: self._m.dtype),
    "device": property(lambda self: self._m.device),
    "ndim": property(dim),
    "layout": property(lambda self: strided_layout),
    "itemsize": property(element_size),
    "nbytes": property(lambda self: self._m.numel * self._m.dtype.itemsize),
    "requires_grad": property(get_requires_grad, set_requires_grad),
    "grad": property(get_grad, set_grad, lambda self: set_grad(self, None)),
    "_grad": property(lambda self: self._g, set_grad),
    "grad_fn": property(grad_fn_of),
    "_grad_fn": property(grad_fn_of),
    "is_leaf": property(is_leaf),
    "data": property(get_data, set_data),
    "output_nr": property(lambda self: self._onr),
    "_version": property(get_version),
    "_base": property(get_base),
    "retains_grad": property(retains_grad),
    "is_cuda": property(lambda self: self._m.device.type == "cuda"),
    "is_cpu": property(lambda self: self._m.device.type == "cpu"),
    "is_xla": property(lambda self: False),
    "is_meta": property(lambda self: False),
    "is_sparse": property(lambda self: False),
    "is_sparse_csr": property(lambda self: False),
    "is_quantized": property(lambda self: False),
    "is_nested": property(lambda self: False),
    "is_mkldnn": property(lambda self: False),
    "is_mps": property(lambda self: False),
    "is_xpu": property(lambda self: False),
    "_backward_hooks": property(get_hooks, set_hooks),
    "_post_accumulate_grad_hooks": property(
        lambda self: self._x.post_acc if self._x is not None else None
    ),
    "names": property(lambda self: (None,) * self._m.ndim),
}

METHODS: dict[str, Any] = {
    "size": size, "stride": stride, "dim": dim, "ndimension": dim, "numel": numel, "nelement": numel,
    "element_size": element_size, "is_contiguous": is_contiguous, "data_ptr": data_ptr,
    "storage_offset": storage_offset, "_is_view": is_view, "requires_grad_": requires_grad_,
    "detach": detach, "detach_": detach_, "item": item, "tolist": tolist, "numpy": numpy,
    "register_hook": tensor_hooks.register_hook,
    "register_post_accumulate_grad_hook": tensor_hooks.register_post_accumulate_grad_hook,
    "retain_grad": tensor_hooks.retain_grad, "untyped_storage": untyped_storage,
    "is_inference": lambda self: self._x is not None and self._x.inference,
    "get_device": lambda self: -1 if self._m.device.type == "cpu" else self._m.device.index,
    "is_pinned": lambda self, device=None: False, "is_shared": lambda self: True,
    "share_memory_": lambda self: self, "has_names": lambda self: False,
    "__array__": to_array, "__jax_array__": jax_array, "__dlpack__": dlpack,
    "__dlpack_device__": dlpack_device, "__bool__": truth, "__int__": to_int, "__float__": to_float,
    "__complex__": to_complex, "__index__": to_index, "__len__": length, "__iter__": iterate,
    "__contains__": contains, "__repr__": represent, "__format__": formatted,
    "__deepcopy__": deepcopy, "__reduce_ex__": reduce_ex, "__reversed__": reversed_,
}  # fmt: skip


def install() -> None:
    """Put properties and protocols on Tensor."""
    for name, prop in PROPERTIES.items():
        setattr(Tensor, name, prop)
    for name, fn in METHODS.items():
        if getattr(fn, "__name__", "") == "<lambda>":
            fn.__name__ = name
        setattr(Tensor, name, fn)
    Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]
    Tensor.__module__ = "torch"
