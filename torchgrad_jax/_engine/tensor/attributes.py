"""Properties and Python protocols of Tensor; `install` puts them on the class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..._core import events
from ..._core.arrays import dtypes, formats, shapes, transfer
from ..._core.arrays.devices import FakeDevice
from ..._core.errors import messages as errors, warn
from ..._core.jax.abstract import is_abstract
from ..._core.state import DUAL, INFERENCE, MODES, OBSERVED, UNDER_JAX
from ..graph.history import check_captured, grad_fn_of, is_captured, requires_grad_of
from ..graph.node import note_reshaped
from ..graph.record import PLAIN
from ..graph.saved import note_altered
from ..memory.derivative_stops import stop_derivative_if_traced
from ..memory.escapes import before_gradients, hold_outside, refuse_escape
from ..memory.strided import is_direct, read, storage_offset
from ..memory.tensor import UNSET, Alias, Tensor, Version, alias_of, born, extras, leave_storage, uncounted, watchers
from ..modes.belonging import is_batched, is_hidden
from ..overrides.looking import own
from ..surface import ops
from . import printing, tensor_hooks
from .dual import tangent_of
from .storages import UntypedStorage as UntypedStorage, is_shared, readable, share_memory_, untyped_storage
from .values import (
    contains,
    delete_item,
    dlpack,
    dlpack_device,
    item,
    iterate,
    jax_array,
    length,
    numpy,
    to_array,
    to_complex,
    to_float,
    to_index,
    to_int,
    tolist,
    truth,
)

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
    """Return whether the elements are laid out row by row without gaps, or as another memory format says."""
    if memory_format is None:
        return self._m.contiguous
    if memory_format is not formats.contiguous_format and is_batched(self):
        raise RuntimeError(
            "NYI: querying is_contiguous inside of vmap for memory_format other than torch.contiguous_format"
        )
    if not isinstance(memory_format, formats.memory_format):
        kind = type(memory_format).__name__
        raise TypeError(f"is_contiguous(): argument 'memory_format' must be torch.memory_format, not {kind}")
    return formats.is_contiguous_in(memory_format, self._m.shape, self._m.strides)


def data_ptr(self: Tensor) -> int:
    """The address of the first element, in memory that holds the storage's elements as they are now (on CPUs)."""
    if is_batched(self):
        raise RuntimeError(errors.NO_STORAGE)
    MODES.run.uses.look_around(self)
    if self._m.numel == 0:
        return 0
    return readable(self._st) + storage_offset(self) * self._m.dtype.itemsize


def first_element(self: Tensor) -> int:
    """Elements from the start of the storage to the tensor's first element."""
    MODES.run.uses.look_around(self)
    return storage_offset(self)


def is_leaf(self: Tensor) -> bool:
    """Return whether the user made the tensor: it has no grad_fn."""
    return get_grad_fn(self) is None


def get_grad_fn(self: Tensor) -> Any:
    """The node that computed the tensor."""
    fn = None if is_hidden(self) else grad_fn_of(self)
    if fn is None and self._rg:
        MODES.run.uses.depend_on_leaf(self)
    return fn


def get_requires_grad(self: Tensor) -> bool:
    """Return whether gradients are computed for the tensor."""
    return not is_hidden(self) and requires_grad_of(self)


def set_requires_grad(self: Tensor, value: Any) -> None:
    """Turn gradients on or off for a leaf."""
    if not isinstance(value, bool):
        raise RuntimeError("requires_grad must be a bool")
    if value and self._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    if self._fn is not None:  # the node as recorded: later writes to a base do not matter here
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
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    MODES.run.uses.alter(self)
    self._rg = value or self._fn is not None
    if value and MODES.run.batch is not None:
        MODES.run.batch.own_leaves = True


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """`requires_grad` as a method that returns the tensor."""
    if not isinstance(requires_grad, bool):
        raise TypeError(
            f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {type(requires_grad).__name__}"
        )
    if requires_grad is True and self._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    if MODES.transforming():
        raise RuntimeError(errors.REQUIRES_GRAD_INSIDE)
    if not (requires_grad is True and self._fn is not None):
        set_requires_grad(self, requires_grad)
    return self


def get_grad(self: Tensor) -> Any:
    """The accumulated gradient, or None."""
    MODES.run.uses.look_at_grad(self)
    if self._g is None and self._fn is not None and not (self._x is not None and self._x.retains):
        warn.to_user(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't "
            "be populated during autograd.backward(). If you indeed want the .grad field to be populated for a "
            "non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by "
            "mistake, make sure you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for "
            "more information."
        )
    return self._g


def set_grad(self: Tensor, value: Any) -> None:
    """Assign the gradient, checking that it fits."""
    MODES.run.uses.assign_grad(self)
    if MODES.bits & UNDER_JAX and value is not self._g:
        before_gradients((self,), (value._st.array,) if isinstance(value, Tensor) else ())
        if isinstance(value, Tensor):
            hold_outside(born(self), value)
    if value is None:
        self._g = None
        return
    if not isinstance(value, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
    if value is self:
        raise RuntimeError("can't assign Variable as its own grad")
    want = grad_dtype_of(self)
    if want is not None and value._m.dtype is not want:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{_cxx(value)}' to a tensor with grad_dtype "
            f"'{_scalar(want)}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). "
            "You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set "
            "grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems "
            "that assume they match."
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


_CXX = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int64": "long int",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
    "int32": "int",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def _cxx(t: Tensor) -> str:
    """The C++ type of the elements, in which torch's messages speak."""
    name = t._m.dtype.name
    return _CXX.get(name) or (f"c10::{name.capitalize()}" if name.startswith("float8") else name)


def _scalar(dtype: Any) -> str:
    """torch's C++ name of a dtype, such as ``Float``."""
    return dtype.type_name.removesuffix("Tensor")


def grad_dtype_of(self: Tensor) -> Any:
    """The dtype that gradients of the tensor must have; None for any."""
    x = self._x
    return self._m.dtype if x is None or x.grad_dtype is UNSET else x.grad_dtype


def get_grad_dtype(self: Tensor) -> Any:
    """The dtype that gradients of a leaf are cast to; None leaves them as they come."""
    if grad_fn_of(self) is not None:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    return grad_dtype_of(self)


def set_grad_dtype(self: Tensor, value: Any) -> None:
    """Say which dtype gradients of a leaf are cast to; None leaves them as they come."""
    if grad_fn_of(self) is not None:
        get_grad(self)  # torch reads `.grad` first, which may warn
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if value is not None and not isinstance(value, dtypes.dtype):
        raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(value).__name__}")
    if value is not None and self._g is not None and self._g._m.dtype is not value:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{_scalar(value)}' because there is already a gradient with dtype "
            f"'{_cxx(self._g)}'. Please clear the gradient (.grad = None) before changing grad_dtype, or ensure the "
            "new grad_dtype matches the existing gradient's dtype."
        )
    watchers(self).grad_dtype = value


def get_version(self: Tensor) -> int:
    """Return how often the tensor, or what shares its counter, was written to in place."""
    if uncounted(self):
        raise RuntimeError("Inference tensors do not track version counter.")
    MODES.run.uses.look_at_version(self)
    return self._vc.version


def get_base(self: Tensor) -> Any:
    """The tensor this one is a view of, or None."""
    MODES.run.uses.look_around(self)
    return self._al.base if self._al is not None else None


def is_view(self: Tensor) -> bool:
    """Return whether autograd regards the tensor as a view."""
    MODES.run.uses.look_around(self)
    return self._al is not None and self._al.base is not None


def retains_grad(self: Tensor) -> bool:
    """Return whether a non-leaf keeps its gradient."""
    MODES.run.uses.depend_on_leaf(self)
    return self._x is not None and self._x.retains is not None


# --- detaching ------------------------------------------------------------------------------------


def share(self: Tensor, vc: Any, cls: type = Tensor) -> Any:
    """A tensor of class `cls` on the same storage, with the version counter `vc` and no history."""
    al = self._al
    alias = None
    if al is not None and not is_direct(self):
        alias = Alias(al.offset, None, 0, 0)
        alias.conj, alias.neg = al.conj, al.neg
    out = alias_of(self, self._m, alias, vc, cls)
    if MODES.traced or MODES.run.jax_derives:
        stop_derivative_if_traced(out, self)
    # Outside of inference mode it gets a counter of writes.
    if self._x is not None and self._x.inference:
        x = extras(out)
        x.inference, x.uncounted = True, bool(MODES.bits & INFERENCE)
    elif vc is self._vc and uncounted(self):
        extras(out).uncounted = True
    return out


def detach(self: Tensor) -> Tensor:
    """A tensor on the same storage and version counter, outside of the graph."""
    if MODES.bits & OBSERVED and MODES.observers:
        return events.op("detach", "op", (self,), lambda: _detach(self))
    return _detach(self)


def _detach(self: Tensor) -> Tensor:
    apart = self._x is not None and self._x.inference and not MODES.bits & INFERENCE
    return share(self, Version() if apart else self._vc)


def detach_(self: Tensor) -> Tensor:
    """Cut the tensor itself from the graph; in inference mode autograd does not see the call."""
    if MODES.bits & INFERENCE or (self._x is not None and self._x.inference):
        return self
    if MODES.transforms:
        check_captured(self, "detach_")
    if self._al is not None and self._al.base is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients. To fix this error, please refer to the "
            "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
        )
    _note_ended_derivatives(self, "detach_()")
    MODES.run.uses.alter(self)
    if self._fn is not None:
        note_altered(self)
    self._fn, self._onr, self._rg = None, 0, False
    if MODES.bits & DUAL:
        MODES.tangents.set_tangent(self, None)
    return self


def stop_derivative(self: Tensor, value: Any) -> None:
    """Setting `_grad_fn` to None detaches."""
    if value is not None:
        raise RuntimeError("_grad_fn can be only set to None")
    detach_(self)


def refuse_deletion(self: Tensor) -> None:
    """There is always a `_grad_fn`, which may be None."""
    raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")


def _batched(t: Tensor) -> bool:
    """Return whether a tensor stands for one example of a batch."""
    run = MODES.run
    return run.batch is not None and run.inside(t)


def get_data(self: Tensor) -> Tensor:
    """The same storage without history and with a version counter of its own."""
    if _batched(self):
        raise RuntimeError(errors.BATCHED_DATA)
    _note_ended_derivatives(self, "data")
    return share(self, Version())


def _note_ended_derivatives(t: Tensor, name: str) -> None:
    """Warn where torch would end the derivative of the innermost transform alone."""
    if MODES.transforms and MODES.transforming_levels.matters_around(t):
        warn.to_user(
            f"{name}: ends the derivatives of every level, as detach() does. In PyTorch those of levels around the "
            "innermost transform go on. Write detach() to end all of them."
        )


def _is_meta(dev: Any) -> bool:
    """Whether PyTorch has a kind of tensors of its own for a device; those of a target are like those that are here."""
    return dev.type == "meta" and not dev.on_target


def set_data(self: Tensor, new: Tensor) -> None:
    """Make this tensor refer to another one's storage."""
    if not isinstance(new, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(new).__name__}")
    if _batched(self) or _batched(new):
        raise RuntimeError(errors.SET_DATA.format(where="under vmap"))
    if MODES.transforms and not (is_captured(self) and is_captured(new)):
        raise RuntimeError(errors.SET_DATA.format(where="inside functorch"))
    if _is_meta(self._m.device) is not _is_meta(new._m.device):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
        )
    if self._rg and new._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    base = self._al.base if self._al is not None else None
    alias = None
    if new._al is not None or base is not None:
        al = new._al
        alias = Alias(0 if al is None else al.offset, base, 0, self._vc.version)
        own = self._al
        if own is not None and base is not None:  # it is a view of the same base as before
            alias.creation, alias.replay = own.creation, own.replay
            alias.chain, alias.seen = own.chain, own.seen
        if al is not None:
            alias.conj, alias.neg = al.conj, al.neg
    if MODES.bits & UNDER_JAX and new._st is not self._st:
        refuse_escape([born(self)], [new._st.array])
        hold_outside(born(self), new)
    leave_storage(self)
    if (self._m.shape, self._m.dtype) != (new._m.shape, new._m.dtype):
        note_reshaped(self)
        note_altered(self)
    if new._m.dtype is not self._m.dtype or new._m.device is not self._m.device:
        self._acc = None  # the node in older graphs keeps to gradients of the old dtype
    self._st, self._m, self._al = new._st, new._m, alias
    inference = new._x is not None and new._x.inference
    if inference != (self._x is not None and self._x.inference):
        extras(self).inference = inference


# --- text -----------------------------------------------------------------------------------------


OTHER_TEXTS: list[Callable[[Tensor], str | None]] = []
"""Functions that say how some tensors are shown, and None of all others."""


def represent(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """torch's repr."""
    for text_of in OTHER_TEXTS:
        text = text_of(self)
        if text is not None:
            return text
    return own_text(self, tensor_contents)


def own_text(self: Tensor, tensor_contents: str | None = None) -> str:
    """The text of a tensor that is shown like all."""
    array = read(self)
    unreal = is_abstract(array)
    if isinstance(array, jax.core.Tracer) and not unreal:
        run = MODES.run
        if run.batch is not None and run.inside(self):
            return _represent_batched(self, run)
        if run.may_write_outside:
            return _represent_compiled(self, run, tensor_contents)
        return f"tensor({array}, size={list(self._m.shape)})"
    # JAX has put the description of an array in the data's place.
    if not unreal and not isinstance(array, jax.Array | np.ndarray):
        return f"tensor({array})"
    shown = None
    if not unreal:
        index = printing.summary_index(self._m.shape)
        shown = np.asarray(array) if index is None else np.asarray(array[index])
    parameter = getattr(type(self), "_is_parameter", False) or getattr(self, "_is_param", False)
    tangent = None
    if MODES.bits & DUAL:
        tangent = tangent_of(self)
    return printing.format_tensor(
        shown,
        dtype=self._m.dtype.name,
        default_dtype=dtypes.get_default_dtype().name,
        shape=self._m.shape,
        device=str(self._m.device),
        requires_grad=requires_grad_of(self),
        grad_fn=_grad_fn_name(self),
        is_parameter=parameter,
        parameter_heading=False,
        class_name=_class_shown(self),
        fake=isinstance(self._m.device, FakeDevice),
        tangent=None if tangent is None else format(tangent, ""),
        tensor_contents=tensor_contents,
    )


def _class_shown(self: Tensor) -> str:
    """Return what a tensor's text begins with."""
    if isinstance(self._m.device, FakeDevice) and not self._m.device.on_target:
        return "FakeTensor"
    return "tensor" if type(self) in PLAIN else type(self).__name__


def _represent_compiled(self: Tensor, run: Any, tensor_contents: str | None) -> str:
    """A tensor inside of a compiled function: its values, if they are known."""
    if run.inside(self):
        raise errors.Unsupported(errors.untraceable())
    run.uses.look_at_values(self)
    with run.outside():
        return own_text(self, tensor_contents)


def _represent_batched(self: Tensor, run: Any) -> str:
    """A tensor inside of `vmap`: all examples, as far as the function has come."""
    (rows,) = run.whole([self])
    with run.outside():
        inner = repr(rows)
    shown = inner.replace("\n", "\n    ")
    return f"BatchedTensor(lvl={run.depth()}, bdim=0, value=\n    {shown}\n)"


def _grad_fn_name(t: Tensor) -> str | None:
    try:
        fn = grad_fn_of(t)
    except RuntimeError:  # a view that was forbidden
        return "Invalid"
    return None if fn is None else type(fn).__name__


def formatted(self: Tensor, spec: str) -> str:
    """`format(tensor, spec)`: one element formats as a number."""
    if self._m.ndim == 0 and type(self) is Tensor and self._m.device.type != "meta":
        return item(self).__format__(spec)
    if not spec:
        return str(self)
    return object.__format__(self, spec)


# --- odds and ends --------------------------------------------------------------------------------


def get_hooks(self: Tensor) -> Any:
    """The hooks of this tensor by handle id, or None."""
    return self._x.hooks if self._x is not None else None


def set_hooks(self: Tensor, hooks: Any) -> None:
    """Replace the hooks of a leaf."""
    watchers(self).hooks = hooks


def get_name(self: Tensor) -> str | None:
    """The name given to `Variable`, if any."""
    return self._x.name if self._x is not None else None


def reversed_(self: Tensor) -> Tensor:
    """The tensor with every dimension reversed."""
    return self if self._m.ndim == 0 else ops.flip(self, tuple(range(self._m.ndim)))


class layout:
    """How a tensor's elements are stored; only `strided` exists here."""

    __slots__ = ("_name",)
    _name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    __setattr__, __delattr__ = errors.immutable("torch.layout")

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> Any:
        return _the_layout, ()


def _the_layout() -> layout:
    return strided_layout


strided_layout = layout("strided")


def _array_of(self: Tensor) -> Any:
    array = transfer.as_jax_array(read(self))
    if isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer):
        return array
    raise RuntimeError("a tensor has no sharding on the meta device, and where a program is being traced")


def visualize_sharding(self: Tensor) -> None:
    """Print which device has which part of the tensor, as `jax.debug.visualize_array_sharding` draws it.

    Needs `rich` (``pip install torchgrad-jax[pictures]``).
    """
    jax.debug.visualize_array_sharding(_array_of(self), use_color=False)


PROPERTIES: dict[str, property] = {
    "sharding": property(lambda self: _array_of(self).sharding),
    "addressable_shards": property(lambda self: _array_of(self).addressable_shards),
    "shape": property(lambda self: self._m.size),
    "dtype": property(lambda self: self._m.dtype),
    "device": property(lambda self: self._m.device._seen),
    "ndim": property(dim),
    "layout": property(lambda self: strided_layout),
    "itemsize": property(element_size),
    "nbytes": property(lambda self: self._m.numel * self._m.dtype.itemsize),
    "requires_grad": property(get_requires_grad, set_requires_grad, lambda self: set_requires_grad(self, None)),
    "grad": property(get_grad, set_grad, lambda self: set_grad(self, None)),
    "_grad": property(lambda self: self._g, set_grad, lambda self: set_grad(self, None)),
    "grad_dtype": property(get_grad_dtype, set_grad_dtype),
    "grad_fn": property(get_grad_fn),
    "_grad_fn": property(get_grad_fn, stop_derivative, refuse_deletion),
    "is_leaf": property(is_leaf),
    "data": property(get_data, set_data),
    "output_nr": property(lambda self: self._onr),
    "_version": property(get_version),
    "_base": property(get_base),
    "retains_grad": property(retains_grad),
    "is_cuda": property(lambda self: self._m.device._seen.type == "cuda"),
    "is_cpu": property(lambda self: self._m.device._seen.type == "cpu"),
    "is_xla": property(lambda self: False),
    "is_meta": property(lambda self: self._m.device._seen.type == "meta"),
    "is_sparse": property(lambda self: False),
    "is_sparse_csr": property(lambda self: False),
    "is_quantized": property(lambda self: False),
    "is_nested": property(lambda self: False),
    "is_mkldnn": property(lambda self: False),
    "is_mps": property(lambda self: False),
    "is_xpu": property(lambda self: False),
    "_cdata": property(lambda self: id(self)),
    "_backward_hooks": property(get_hooks, set_hooks),
    "_post_accumulate_grad_hooks": property(lambda self: self._x.post_acc if self._x is not None else None),
    "name": property(get_name),
}

METHODS: dict[str, Any] = {
    "size": size, "stride": stride, "dim": dim, "ndimension": dim, "numel": numel, "nelement": numel,
    "visualize_sharding": visualize_sharding,
    "element_size": element_size, "is_contiguous": is_contiguous, "data_ptr": data_ptr,
    "storage_offset": first_element, "_is_view": is_view, "requires_grad_": requires_grad_,
    "detach": detach, "detach_": detach_, "item": item, "tolist": tolist, "numpy": numpy,
    "register_hook": tensor_hooks.register_hook,
    "register_post_accumulate_grad_hook": tensor_hooks.register_post_accumulate_grad_hook,
    "retain_grad": tensor_hooks.retain_grad, "untyped_storage": untyped_storage,
    "is_inference": lambda self: self._x is not None and self._x.inference,
    "get_device": lambda self: -1 if (n := self._m.device._seen.index) is None else n,
    "is_pinned": lambda self, device=None: False, "is_shared": is_shared,
    "share_memory_": share_memory_,
    "__array__": to_array, "__jax_array__": jax_array, "__dlpack__": dlpack,
    "__dlpack_device__": dlpack_device, "__bool__": truth, "__int__": to_int, "__float__": to_float,
    "__complex__": to_complex, "__index__": to_index, "__len__": length, "__iter__": iterate,
    "__contains__": contains, "__repr__": represent, "__format__": formatted,
    "__reversed__": reversed_, "__delitem__": delete_item,
}  # fmt: skip


_UNDELETABLE = {
    "requires_grad": "requires_grad must be a bool",
    "data": "Deleting tensor data is not allowed. Delete tensor instead!",
    "_backward_hooks": "Deletion of _backwards_hooks not allowed!",
}


class AttributeOfSome:
    """An attribute that only some tensors have: `of` raises AttributeError for the others, and the class has none.

    It is no `property`, of which there is one list for all tensors.
    """

    def __init__(self, name: str, of: Callable[[Tensor], Any]) -> None:
        self.name, self.of = name, of

    def __get__(self, t: Tensor | None, cls: Any = None) -> Any:
        if t is None:
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{self.name}'")
        return self.of(t)


class Attribute(property):
    """A property of Tensor, with torch's words for what cannot be set or deleted."""

    name = ""

    @classmethod
    def of(cls, name: str, prop: property) -> property:
        """A property under the name that the words are about; what can be anything stays as fast as it is."""
        if prop.fset is not None and prop.fdel is not None:
            return prop
        made = cls(prop.fget, prop.fset, prop.fdel, prop.__doc__)
        made.name = name
        return made

    def __set__(self, instance: Any, value: Any) -> None:
        if self.fset is None:
            raise AttributeError(self._read_only())
        self.fset(instance, value)

    def __delete__(self, instance: Any) -> None:
        if self.fset is None:
            raise AttributeError(self._read_only())
        if self.fdel is None:
            raise RuntimeError(_UNDELETABLE.get(self.name, f"Deletion of {self.name} not allowed!"))
        self.fdel(instance)

    def _read_only(self) -> str:
        return f"attribute '{self.name}' of 'torch._C.TensorBase' objects is not writable"


def install() -> None:
    """Put properties and protocols on Tensor."""
    for name, prop in PROPERTIES.items():
        setattr(Tensor, name, Attribute.of(name, own(prop)))
    for name, fn in METHODS.items():
        if getattr(fn, "__name__", "") == "<lambda>":
            fn.__name__ = name
        # These are Python functions in torch, too, and their errors say so.
        if fn.__module__ == tensor_hooks.__name__:
            fn.__qualname__ = f"Tensor.{name}"
        setattr(Tensor, name, own(fn, name))
    Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]
    Tensor.__module__ = "torch"
