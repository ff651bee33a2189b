"""The few private names of torch._C that public code uses; every other name raises AttributeError."""

# ruff: noqa: F401 - names with an underscore are what this module is for
from __future__ import annotations

import enum
import weakref
from typing import Any

from .._core.arrays import devices, dtypes, formats
from .._core.arrays.shapes import Size as Size
from .._core.errors.absent import refusal as _refusal
from .._core.errors.messages import LinAlgError as _LinAlgError, missing as _missing
from .._core.state import MODES
from .._engine.memory.tensor import Tensor
from .._engine.overrides import asking as _asking
from .._engine.overrides.asking import (
    DisableTorchFunction as DisableTorchFunction,
    DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
    disabled_torch_function_impl as _disabled_torch_function_impl,
)
from .._engine.overrides.looking import set_modes as _set_modes, skip_one as _skip_one
from .._engine.tensor.attributes import layout as layout
from .._engine.tensor.dual import forward_grad as _forward_grad
from .._engine.tensor.subclass import disabled_torch_dispatch_impl as _disabled_torch_dispatch_impl
from .._functions.random import Generator as Generator
from .._library.keys import DispatchKey as DispatchKey, DispatchKeySet as DispatchKeySet, Tag as Tag
from .._library.operator import (
    get_autograd_fallback_mode as _get_autograd_fallback_mode,
    set_autograd_fallback_mode as _set_autograd_fallback_mode,
)
from ..autograd._passes import Engine as _ImperativeEngine
from ..autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
)
from ..autograd.forward_ad import _is_fwd_grad_enabled as _is_fwd_grad_enabled
from ..autograd.function import _SingleLevelFunction as _FunctionBase
from ..autograd.grad_mode import (
    _flag,
    _switch,
    inference_mode as _InferenceMode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    is_multithreading_enabled as _is_multithreading_enabled,
)
from ..autograd.graph import (
    _current_graph_task_id as _current_graph_task_id,
    _will_engine_execute_node as _will_engine_execute_node,
    increment_version as _increment_version,
)
from ..overrides import (
    _pop_mode,
    has_torch_function as _has_torch_function,
    has_torch_function_unary as _has_torch_function_unary,
    has_torch_function_variadic as _has_torch_function_variadic,
)
from . import (
    _autograd as _autograd,
    _fft as _fft,
    _functions as _functions,
    _functorch as _functorch,
    _linalg as _linalg,
    _nn as _nn,
    _profiler as _profiler,
    _special as _special,
)

TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)
dtype, device, memory_format = dtypes.dtype, devices.device, formats.memory_format
_EngineBase = _ImperativeEngine


class _LegacyVariableBase:
    """The base of `Variable`, which cannot be made itself."""


class _WeakTensorRef:
    """Tells whether a tensor is gone, without keeping it."""

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"_WeakTensorRef() takes a Tensor, not {type(tensor).__name__}")
        self._ref = weakref.ref(tensor)

    def expired(self) -> bool:
        """Return whether the tensor is gone."""
        return self._ref() is None


class _TorchFunctionState(enum.Enum):
    """How far `__torch_function__` is turned off."""

    ENABLED = _asking.ENABLED
    SUBCLASSES_DISABLED = _asking.SUBCLASSES_DISABLED
    ALL_DISABLED = _asking.ALL_DISABLED


# --- modes ----------------------------------------------------------------------------------------


def _set_grad_enabled(enabled: bool, /) -> None:
    """Turn recording on or off in this thread."""
    _switch(_flag("set_grad_enabled", enabled))


def _set_fwd_grad_enabled(enabled: bool, /) -> None:
    """Turn the propagation of tangents on or off in this thread."""
    MODES.forward_grad = _forward_grad(_flag("_set_fwd_grad_enabled", enabled))


def _set_multithreading_enabled(enabled: bool, /) -> None:
    """Say whether a backward pass may use several threads."""
    MODES.multithreading = _flag("_set_multithreading_enabled", enabled)


def _get_tracing_state() -> None:
    """None: nothing is traced for TorchScript."""


def _is_tracing() -> bool:
    """False: nothing is traced for TorchScript."""
    return False


Graph, Value = (
    _refusal(f"torch._C.{name}", "there are no graphs of TorchScript", NotImplementedError)
    for name in ("Graph", "Value")
)


def _of_the_fuser(*args: Any) -> bool:
    """False: settings of TorchScript's fuser are taken and change nothing, because nothing of it runs."""
    return False


_jit_can_fuse_on_cpu = _jit_can_fuse_on_gpu = _jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = (
    _jit_set_nvfuser_enabled
) = _jit_set_nvfuser_guard_mode = _jit_set_profiling_executor = _jit_set_profiling_mode = (
    _jit_set_texpr_fuser_enabled
) = _of_the_fuser

_storage_Use_Count = _refusal(
    "torch._C._storage_Use_Count", "Python counts who holds a storage; ask sys.getrefcount", NotImplementedError
)


def _log_api_usage_once(event: str, /) -> None:
    """Do nothing, as torch does where nobody collects usage."""
    if not isinstance(event, str):
        raise TypeError(f"_log_api_usage_once(): incompatible function arguments: {event!r}")


# --- the running pass -----------------------------------------------------------------------------


def _current_autograd_node() -> Any:
    """The node that the running pass is at, or None."""
    task = MODES.graph_task
    return None if task is None else task.current


# --- __torch_function__ ---------------------------------------------------------------------------


def _is_torch_function_enabled() -> bool:
    """Return whether `__torch_function__` of classes is called."""
    return MODES.functions_disabled == _asking.ENABLED


def _is_torch_function_all_disabled() -> bool:
    """Return whether neither classes nor modes override anything."""
    return MODES.functions_disabled == _asking.ALL_DISABLED


def _is_torch_function_mode_enabled() -> bool:
    """Return whether some mode sees the calls of this thread."""
    return _asking.modes_active()


def _get_torch_function_state() -> _TorchFunctionState:
    """Return how far `__torch_function__` is turned off."""
    return _TorchFunctionState(MODES.functions_disabled)


def _set_torch_function_state(state: _TorchFunctionState, /) -> None:
    """Turn `__torch_function__` off to some degree, or on again."""
    MODES.functions_disabled = state.value


def _len_torch_function_stack() -> int:
    """Return how many modes there are."""
    return len(MODES.function_modes)


def _get_function_stack_at(level: int, /) -> Any:
    """The mode at a level, the outermost being 0."""
    return MODES.function_modes[level]


def _push_on_torch_function_stack(mode: Any, /) -> None:
    """Make a mode the innermost one."""
    _set_modes((*MODES.function_modes, mode))


def _pop_torch_function_stack() -> Any:
    """Take the innermost mode off and return it."""
    return _pop_mode()


def _skip_one_hop_torch_function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """See `torch.overrides.redispatch_function`."""
    return _skip_one(func, args, kwargs or {})


def _get_accelerator(check: bool | None = None) -> Any:
    """The accelerator; the CPU if there is none."""
    from ..accelerator import current_accelerator

    return current_accelerator() or devices.device("cpu")


def _get_default_device() -> str:
    """The type of the device on which tensors are made unless another is given."""
    return devices.default_device().type


def _is_alias_of(input: Tensor, other: Tensor, /) -> bool:
    """Return whether two tensors look at one storage."""
    return input._st is other._st


def _are_functorch_transforms_active() -> bool:
    """Return whether the code runs inside of a transform of torch.func."""
    return MODES.transforming()


__getattr__ = _missing(__name__)
