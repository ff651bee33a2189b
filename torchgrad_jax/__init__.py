"""PyTorch-style autograd running on XLA.

This file only assembles: names come from the op table, the registered functions and the submodules,
and methods are put on Tensor here and nowhere else.
"""

import importlib as _importlib
import importlib.util as _importlib_util
import math as _math
import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

import jax as _jax

from ._core.jax import x64 as _x64

if _x64.IS_GUEST:
    _x64.give_copies_of_jax()
else:
    _jax.config.update("jax_enable_x64", True)

from . import _functions as _functions, autograd as autograd
from ._bridge.compile.compile import compile as compile
from ._bridge.compile.watch.observer import loads_lazily as _loads_lazily
from ._bridge.jax_side import control as _control  # noqa: F401 - what torch.cond and while_loop are in compiled code
from ._bridge.jax_side.interop import from_jax as from_jax
from ._bridge.vmap import vmap as vmap
from ._core.arrays import dtypes as _dtypes, formats as _formats
from ._core.arrays.devices import (
    device as device,
    give_threads_to_many_cpu_devices as _give_threads_to_many_cpu_devices,
)
from ._core.arrays.dtypes import dtype as dtype, finfo as finfo, iinfo as iinfo
from ._core.arrays.formats import memory_format as memory_format
from ._core.arrays.shapes import Size as Size
from ._core.errors import absent as _absent
from ._core.errors.messages import (
    UnsupportedLayoutError as UnsupportedLayoutError,
    imported as _imported,
    no_such_name as _no_such_name,
)
from ._core.host import compiled_curves as _compiled_curves
from ._core.jax import (
    compiling as _compiling,
    kernel_files as _kernel_files,
    own_kernels as _own_kernels,
    programs_ahead as _programs_ahead,
)
from ._core.jax.caches import (
    cache_info as cache_info,
    clear_caches as clear_caches,
    set_cache_limits as set_cache_limits,
)
from ._engine.entry import bind as _bind
from ._engine.memory.tensor import Tensor as Tensor
from ._engine.overrides import asking as _asking, looking as _looking
from ._engine.overrides.asking import (
    DisableTorchFunction as DisableTorchFunction,
    DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
)
from ._engine.tensor import attributes as _attributes, copying as _copying, subclass as _subclass
from ._engine.tensor.attributes import UntypedStorage as UntypedStorage, layout as layout
from ._functions import (
    complex_views as _complex_views,
    constructors as _constructors,
    indexing as _indexing,
    shape as _shape,
)
from ._functions.random import Generator as Generator, default_generator as default_generator
from ._functions.symbolic import (
    AcceleratorError as AcceleratorError,
    OutOfMemoryError as OutOfMemoryError,
    SymBool as SymBool,
    SymFloat as SymFloat,
    SymInt as SymInt,
)
from ._functions.typed_storage import TypedStorage as TypedStorage
from ._library.keys import Tag as Tag
from .autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
    set_anomaly_enabled as set_anomaly_enabled,
)
from .autograd.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from .version import __version__ as __version__

if _TYPE_CHECKING:  # for editors: where each function is declared
    from ._names.top import *  # noqa: F403

_SUBMODULES = (
    "_C", "_VF", "__config__", "__future__", "_custom_ops", "_dynamo", "_functorch", "_guards", "_higher_order_ops",
    "_inductor", "_jit_internal", "_logging", "_prims_common", "_settings", "_subclasses", "_tensor", "_tensor_str",
    "_utils", "_vmap_internals", "accelerator", "amp", "ao", "backends", "classes", "compiler", "cpu", "cuda",
    "distributed",
    "distributions", "export", "fft", "func", "functional", "futures", "fx", "hub", "interop", "jit", "library",
    "linalg", "masked", "monitor", "mps", "multiprocessing", "nested", "nn", "onnx", "ops", "optim", "overrides",
    "profiler", "quantization", "quasirandom", "random", "return_types", "serialization", "signal", "sparse",
    "special", "storage", "testing", "torch_version", "types", "utils", "version", "xpu",
)  # fmt: skip

# Names whose modules are imported when they are first asked for.
_LAZY = {
    **dict.fromkeys(("save", "load"), "serialization"),
    **dict.fromkeys(("autocast", "GradScaler"), "amp"),
    "scan_layers": "nn._scan_layers",
    **dict.fromkeys(
        (
            "is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype",
            "is_autocast_cpu_enabled", "get_autocast_gpu_dtype", "get_autocast_cpu_dtype", "is_autocast_cache_enabled",
            "set_autocast_cache_enabled", "clear_autocast_cache",
        ),
        "amp.autocast_mode",
    ),
    **dict.fromkeys(
        (
            "compiled_with_cxx11_abi", "get_deterministic_debug_mode", "get_float32_matmul_precision",
            "get_num_interop_threads", "get_num_threads", "is_vulkan_available", "set_deterministic_debug_mode",
            "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads", "set_num_threads",
        ),
        "_settings",
    ),
    **dict.fromkeys(("Stream", "Event"), "_streams"),
    "Future": "futures",
    "PyTorchFileReader": "serialization._options",
    "ScriptModule": "jit",
    "get_device_module": "accelerator",
    "thread_safe_generator": "random",
    "install_as_torch": "_alias",
}  # fmt: skip
_UNLISTED = {"set_vital": "_settings"}
"""Names that torch has and does not list."""


def _install_methods() -> None:
    """Everything that tensors can do: properties and protocols, methods, operators."""
    _attributes.install()
    _copying.install()
    _subclass.install()
    _asking.install()
    for name, fn in {**_bind.METHODS, **_bind.OPERATORS}.items():
        setattr(Tensor, name, _bind.on_tensor(fn, name))
    Tensor.__getitem__ = _bind.on_tensor(_indexing.getitem, "__getitem__")
    Tensor.__setitem__ = _bind.on_tensor(_indexing.setitem, "__setitem__")
    Tensor.__new__ = staticmethod(_constructors.new_tensor_object)
    Tensor.as_subclass = _constructors.as_subclass
    Tensor.backward = _backward
    for name, getter in {
        "T": _shape.transposed,
        "mT": _shape.matrix_transposed,
        "H": _shape.hermitian,
        "mH": _shape.matrix_hermitian,
    }.items():
        setattr(Tensor, name, _attributes.Attribute.of(name, property(_looking.own(getter))))
    for name, getter, setter in (
        ("real", _complex_views.real, _indexing.set_real),
        ("imag", _complex_views.imag, _indexing.set_imag),
    ):
        setattr(Tensor, name, _attributes.Attribute.of(name, property(_looking.own(getter), setter)))


def _backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulate the gradients of the graph's leaves with respect to this tensor."""
    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _names() -> dict[str, object]:
    """Public names that are not imported above."""
    names: dict[str, object] = {}
    names.update(_bind.NAMESPACES[""])
    names.update({d.name: d for d in (*_dtypes.ALL, *_dtypes.NAMED)})
    names.update({**_dtypes.ALIASES, "chalf": _dtypes.complex32})
    names.update(_formats.MEMORY_FORMATS)
    names.update({"pi": _math.pi, "e": _math.e, "inf": _math.inf, "nan": _math.nan, "newaxis": None})
    names["strided"] = _attributes.strided_layout
    # Layouts that no tensor here has; scripts compare with them.
    names.update(
        {n: layout(n) for n in ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")}
    )
    names.update(_constructors.tensor_types())
    return names


_backward.__name__, _backward.__qualname__ = "backward", "Tensor.backward"
_install_methods()
_absent.install()
globals().update(_names())
StorageBase = UntypedStorage
__all__ = sorted(n for n in globals() if not n.startswith("_"))


def to_jax(f: object, *, buffers: bool = False) -> object:
    """Tensor code, or a module, as a pure JAX function; see `torchgrad_jax.interop.to_jax`."""
    from .interop import to_jax

    return to_jax(f, buffers=buffers)  # type: ignore[arg-type]


def __getattr__(name: str) -> object:
    if name.startswith("_foreach_"):
        foreach = _importlib.import_module(f"{__package__}._functions.foreach").FUNCTIONS
        if name in foreach:
            return foreach[name]
    home = _LAZY.get(name) or _UNLISTED.get(name)
    if home is not None:
        found = getattr(_imported(f"{__package__}.{home}"), name)
        globals()[name] = found
        return found
    if name in _SUBMODULES and _importlib_util.find_spec(f"{__package__}.{name}"):
        return _imported(f"{__package__}.{name}")
    raise AttributeError(_no_such_name(f"torch.{name}"))


_loads_lazily(__getattr__)


def __dir__() -> list[str]:
    found = [n for n in _SUBMODULES if n[0] != "_" and _importlib_util.find_spec(f"{__package__}.{n}")]
    return sorted({*__all__, *found, *_LAZY, "__version__", "__doc__", "__file__", "__name__", "__path__"})


_kernel_files.keep_kernels()
_programs_ahead.look_in_cache()
_own_kernels.mark_kernels()
if _x64.IS_GUEST:
    _own_kernels.keep_64_bits_of_kernels()
_compiled_curves.keep_curves()
_give_threads_to_many_cpu_devices()
_compiling.watch_compiling()


if "MASTER_ADDR" in _os.environ and _os.environ.get("TORCHGRAD_JAX_DISTRIBUTED") != "0":
    _importlib.import_module(f"{__name__}.distributed._beginning").meet_before_opening()

if _os.environ.get("TORCHGRAD_JAX_EAGER"):
    _importlib.import_module(f"{__name__}.interop._eager").start()
