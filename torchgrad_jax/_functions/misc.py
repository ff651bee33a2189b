"""Questions about tensors and dtypes, and settings of the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.arrays import devices, dtypes
from .._core.errors import warn
from .._core.errors.checks import fail_if
from .._core.state import MODES, SETTINGS
from .._engine.entry.bind import composite, ops
from .._engine.graph.deferred import now_or_later
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor
from .._engine.run.trace import forget_plans
from .._engine.tensor import printing
from .._engine.tensor.attributes import UntypedStorage
from .arguments import dtype_of, factory, flag, is_number, number, register, tensor_argument, unmatched, wrong
from .convert import parse_type_name, tensor_type_name
from .fresh import from_host
from .typed_storage import TypedStorage

# --- tensors --------------------------------------------------------------------------------------


@factory
def is_tensor(obj: Any, /) -> bool:
    """Return whether an object is a tensor."""
    return isinstance(obj, Tensor)


@factory
def is_storage(obj: Any, /) -> bool:
    """Return whether an object is a storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)


@composite
def is_floating_point(input: Any) -> bool:
    """Return whether the dtype is floating (complex ones are not)."""
    return tensor_argument("is_floating_point", input)._m.dtype.is_floating_point


@composite
def is_complex(input: Any) -> bool:
    """Return whether the dtype is complex."""
    return tensor_argument("is_complex", input)._m.dtype.is_complex


@composite
def is_signed(input: Any) -> bool:
    """Return whether the dtype has negative numbers."""
    return tensor_argument("is_signed", input)._m.dtype.is_signed


@composite
def is_nonzero(input: Any) -> bool:
    """The truth of a tensor of one element."""
    return bool(tensor_argument("is_nonzero", input))


@composite
def is_same_size(input: Any, other: Any) -> bool:
    """Return whether two tensors have the same shape."""
    return (
        tensor_argument("is_same_size", input)._m.shape == tensor_argument("is_same_size", other, "other", 2)._m.shape
    )


@composite(method=False)
def is_inference(input: Any) -> bool:
    """Return whether a tensor was made in inference mode."""
    return tensor_argument("is_inference", input).is_inference()


@composite(method=False)
def numel(input: Any) -> int:
    """The number of elements."""
    return tensor_argument("numel", input)._m.numel


@composite(name="_assert_async", method=False)
def _assert_async(input: Any, assert_msg: str | None = None) -> None:
    """Raise if the one element of a tensor is zero.

    Args:
        input: the tensor.
        assert_msg: what to say then.
    """
    text = "Expected Tensor with single nonzero value, but got zero"

    def check(arrays: Sequence[Any]) -> None:
        fail_if(~arrays[0].astype(bool).all(), lambda: RuntimeError(text if assert_msg is None else assert_msg))

    if isinstance(input, Tensor) and input._m.numel == 1:
        now_or_later((input,), check)
    elif not is_nonzero(input):
        raise RuntimeError(text if assert_msg is None else assert_msg)


def _for_all_examples(reduce: Any, t: Tensor) -> Tensor:
    """A reduction of all elements of all examples of the surrounding `vmap`s: the examples share one result."""
    run = MODES.run
    if run.inside(t):
        if run.tape is None or not run.tape.holds(read(t)):  # JAX is tracing
            return reduce(t)
        same = run.for_all(t)
        t = run.whole([t])[0] if same is None else same
    with run.outside():
        return _for_all_examples(reduce, t)


@composite
def _is_all_true(input: Any) -> Tensor:
    """Return whether all elements of a tensor of bools are true; inside of `vmap`, whether all of all examples are."""
    return _for_all_examples(ops.all, _bools("_is_all_true", input))


@composite
def _is_any_true(input: Any) -> Tensor:
    """Return whether some element of a tensor of bools is true; inside of `vmap`, whether some of any example is."""
    return _for_all_examples(ops.any, _bools("_is_any_true", input))


def _bools(name: str, t: Any) -> Tensor:
    if tensor_argument(name, t)._m.dtype is not dtypes.bool_:
        raise RuntimeError(f"{name}: expected a tensor of bools, not of {t._m.dtype}")
    return t


@composite(name="_shape_as_tensor", method=False)
def _shape_as_tensor(input: Any) -> Tensor:
    """The sizes of a tensor as a tensor."""
    shape = tensor_argument("_shape_as_tensor", input)._m.shape
    return from_host(np.array(shape, np.int64), devices.CPU)


@composite(name="_has_compatible_shallow_copy_type", method=False)
def _has_compatible_shallow_copy_type(input: Any, other: Any) -> bool:
    """Return whether one tensor may become the `.data` of the other: both have data, or both have none."""
    return input.is_meta is other.is_meta


@composite(method=False)
def get_device(input: Any) -> int:
    """The index of the tensor's device; -1 on the CPU."""
    return tensor_argument("get_device", input).get_device()


@composite
def is_distributed(input: Any) -> bool:
    """Return whether a tensor is spread over processes; none is."""
    tensor_argument("is_distributed", input)
    return False


@factory
def typename(obj: Any, /) -> str:
    """The name of an object's type: ``torch.FloatTensor`` for a tensor."""
    if isinstance(obj, Tensor):
        return tensor_type_name(obj._m.dtype, obj._m.device)
    kind = obj if isinstance(obj, type) else type(obj)
    module = getattr(obj, "__module__", None) or kind.__module__
    name = getattr(obj, "__qualname__", kind.__qualname__)
    return name if module in ("builtins", "__builtin__") else f"{module}.{name}"


def _needs_accelerator() -> None:
    if devices.no_accelerator():
        raise RuntimeError("Cannot access accelerator device when none is available.")


@composite(function=False)
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: XLA copies from host memory as it is. Without an accelerator it is an error, as in torch."""
    _needs_accelerator()
    if self._m.device.type != "cpu":
        raise RuntimeError(
            f"cannot pin '{tensor_type_name(self._m.dtype, self._m.device)}' only dense CPU tensors can be pinned"
        )
    return self


@composite(function=False)
def record_stream(self: Tensor, stream: Any) -> None:
    """Do nothing: XLA keeps memory for as long as something that is under way needs it."""
    _needs_accelerator()


@composite(function=False)
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Any:
    """Return what `load_state_dict` swaps in for this tensor, given the one of the checkpoint."""
    return other.detach() if assign else self.copy_(other).detach()


# --- dtypes ---------------------------------------------------------------------------------------


@composite(method=False)
def result_type(*args: Any, **kwargs: Any) -> dtypes.dtype:
    """The dtype of an operation on two tensors or numbers."""
    given = [*args, *kwargs.values()]
    if len(given) != 2 or not all(isinstance(v, Tensor) or is_number(v) for v in given):
        raise unmatched("result_type")
    dimmed = [v._m.dtype for v in given if isinstance(v, Tensor) and v._m.ndim]
    zero_dim = [v._m.dtype for v in given if isinstance(v, Tensor) and not v._m.ndim]
    numbers = [dtypes.of_python(type(number("result_type", "scalar", v))) for v in given if not isinstance(v, Tensor)]
    return dtypes.result_type_of(dimmed, zero_dim, numbers)


def _dtype_at(fn: str, name: str, value: Any, position: int) -> dtypes.dtype:
    try:
        return dtype_of(fn, value)
    except TypeError:
        raise wrong(fn, name, "torch.dtype", value, position) from None


@factory
def can_cast(from_: Any, to: Any) -> bool:
    """Return whether torch casts from one dtype to the other by itself, as in-place operations may need to."""
    return dtypes.can_cast(_dtype_at("can_cast", "from_", from_, 1), _dtype_at("can_cast", "to", to, 2))


@factory
def promote_types(type1: Any, type2: Any) -> dtypes.dtype:
    """The smallest dtype that holds the values of both."""
    return dtypes.promote_types(
        _dtype_at("promote_types", "type1", type1, 1), _dtype_at("promote_types", "type2", type2, 2)
    )


@factory
def get_default_dtype() -> dtypes.dtype:
    """The dtype of tensors made of Python floats."""
    return dtypes.get_default_dtype()


_DEFAULTS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


@factory
def set_default_dtype(d: Any, /) -> None:
    """Choose the dtype of tensors made of Python floats; complex numbers follow."""
    if not isinstance(d, dtypes.dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if d not in _DEFAULTS:
        raise TypeError(f"{d!r} is not supported as the default type; use one of {', '.join(map(repr, _DEFAULTS))}")
    if d is not SETTINGS.default_dtype:
        SETTINGS.default_dtype = d
        forget_plans()


@factory
def set_default_tensor_type(t: Any, /) -> None:
    """Choose default dtype and device by a tensor type; deprecated."""
    warn.once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    dt, dev = parse_type_name(t) if isinstance(t, str) else t.tensor_type()
    set_default_dtype(dt)
    MODES.default_device = None if dev.type == "cpu" else dev


# --- devices --------------------------------------------------------------------------------------


@factory
def get_default_device() -> devices.device:
    """Where tensors are made when nobody says."""
    return devices.default_device()


@factory
def set_default_device(device: Any) -> None:
    """Choose where this thread makes tensors when nobody says; None goes back to JAX's default."""
    dev = None if device is None else devices.resolve(device)
    if dev is not None and dev.type != "meta":
        devices.to_jax(dev)
    MODES.default_device = dev


# --- settings -------------------------------------------------------------------------------------


@factory
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors are printed."""
    printing.set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode)


@factory
def use_deterministic_algorithms(mode: Any, *, warn_only: bool = False) -> None:
    """Ask for deterministic results; XLA's kernels on the CPU always are."""
    flag("use_deterministic_algorithms", "mode", mode, 1)
    SETTINGS.deterministic, SETTINGS.deterministic_warn_only = mode, bool(mode and warn_only)


@factory
def are_deterministic_algorithms_enabled() -> bool:
    """Return what `use_deterministic_algorithms` last said."""
    return SETTINGS.deterministic


@factory
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether `use_deterministic_algorithms` asked for warnings only."""
    return SETTINGS.deterministic_warn_only


register("set_warn_always", warn.set_warn_always)
register("is_warn_always_enabled", warn.is_warn_always_enabled)
