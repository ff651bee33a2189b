"""One table of torch's modules that are out of scope: their names, the reasons, and the functions that still answer.

Programs import more than they use, so `import torchgrad_jax.onnx` works. A module of this table is made when it is
imported. What programs ask in order to find their way (`xpu.is_available()`) is answered; the rest raises.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NoReturn

from .messages import UnsupportedLayoutError, no_such_name

_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Absent:
    """A module of torch that this package does not have."""

    reason: str
    refused: str = ""
    """Names, between spaces, of functions and classes that raise whatever they are called with."""
    error: Callable[[str], Exception] = NotImplementedError
    """What they raise."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What functions return whatever they are called with, by name."""
    works: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions that do what torch's do, by name."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Values that are no functions, by name."""


def _shape_as_tensor(x: Any) -> Any:
    """The sizes of a tensor as a tensor."""
    return importlib.import_module(_PACKAGE).tensor(list(x.shape))


def _same(fn: Any) -> Any:
    """The function that is marked for a compiler that is not there."""
    return fn


def _no_exporter(*descriptors: str) -> Callable[[Any], Any]:
    """A decorator that returns the function as it is: nothing is exported, so it is never called."""
    return lambda fn: fn


_SPARSE = "sparse layouts are out of scope; only torch.strided is supported"
_NESTED = "nested and jagged tensors are out of scope"
_QUANTIZED = "quantized tensors are out of scope"
_PASSES = "passes over graphs of torch.fx are out of scope; change the graph, or derive from torch.fx.Transformer"
_REMOTE = "calls and gradients between processes are out of scope; use torch.distributed's collectives"
_PIPES = "data pipes are out of scope; a DataLoader takes iterable datasets"
_ONNX = "exporting to ONNX is out of scope of torchgrad_jax"
_TABLES = "tables of torch's own operators, modules and optimizers are out of scope"
_DISPATCHER = "it needs torch's dispatcher, which is not there"
_DEVICES = "tests are not repeated for kinds of devices; use parametrize of torch.testing._internal.common_utils"
_INDUCTOR = "XLA compiles functions, and TorchInductor is not there; torch.compile says what it takes"
_SIZES = "sizes are ints when programs run; torch.export.Dim names those of an exported program"
_GUARDS = "torch.compile here observes what a function reads (docs/compile.md), and has no guards of TorchDynamo"
_NUMA = "processes are not bound to cores; numactl in front of the command does that"
_TRITON = "XLA makes the kernels, and those of Triton do not run on JAX arrays"
_MPS = "Apple's GPUs are not supported"
_QUANTIZATION = Absent(
    _QUANTIZED,
    "convert fuse_modules get_default_qat_qconfig get_default_qconfig prepare prepare_qat quantize quantize_dynamic "
    "quantize_qat FakeQuantize FakeQuantizeBase MinMaxObserver ObserverBase QConfig QuantStub DeQuantStub",
    UnsupportedLayoutError,
)

MODULES: dict[str, Absent] = {
    "autograd._functions": Absent(
        "write an autograd.Function of your own, or use Tensor.type and Tensor.view", "Resize Type"
    ),
    "_jit_internal": Absent(
        "TorchScript is out of scope; torch.jit has the marks that leave a function as it is",
        works={"_copy_to_script_wrapper": _same},
    ),
    "ao": Absent(_QUANTIZED),
    "ao.quantization": _QUANTIZATION,
    "quantization": _QUANTIZATION,
    "sparse": Absent(
        _SPARSE,
        "SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS addmm "
        "as_sparse_gradcheck check_sparse_tensor_invariants log_softmax mm sampled_addmm softmax spdiags spsolve sum "
        "to_sparse_semi_structured",
        UnsupportedLayoutError,
    ),
    "sparse._triton_ops": Absent(
        _TRITON, "broadcast_batch_dims launch_kernel prepare_inputs ptr_stride_extractor tile_to_blocksize"
    ),
    "sparse._triton_ops_meta": Absent(_TRITON, "get_meta minimize update"),
    "nested": Absent(
        _NESTED,
        "as_nested_tensor masked_select narrow nested_tensor nested_tensor_from_jagged to_padded_tensor",
        UnsupportedLayoutError,
    ),
    "_C._distributed_rpc": Absent(_REMOTE, "PyRRef", answers={"_is_current_rpc_agent_set": False}),
    "_guards": Absent(
        _GUARDS,
        "CompileContext Guard Source TracingContext",
        answers={"active_fake_mode": None, "detect_fake_mode": None},
    ),
    "_inductor": Absent(
        _INDUCTOR, "aot_compile compile list_mode_options list_options", answers={"cudagraph_mark_step_begin": None}
    ),
    "_inductor.config": Absent(_INDUCTOR),
    "_inductor.decomposition": Absent(_INDUCTOR, works={"register_decomposition": _no_exporter}),
    "_prims_common": Absent(
        "decompositions into primitives are out of scope",
        "make_contiguous_strides_for suggest_memory_format",
        answers={"alert_not_deterministic": None},
        works={"is_contiguous_or_false": lambda x: x.is_contiguous()},
    ),
    "fx.experimental.symbolic_shapes": Absent(
        _SIZES,
        "ShapeEnv",
        answers={"free_symbols": frozenset(), "free_unbacked_symbols": frozenset(), "is_symbolic": False},
        works={n: lambda x: bool(x) for n in ("guard_or_false", "guard_or_true", "statically_known_true")},
        constants={"GuardOnDataDependentSymNode": type("GuardOnDataDependentSymNode", (RuntimeError,), {})},
    ),
    "numa": Absent(_NUMA),
    "numa.binding": Absent(_NUMA, "AffinityMode NumaOptions"),
    "utils._sympy": Absent(_SIZES),
    "utils._sympy.numbers": Absent(_SIZES, "IntInfinity"),
    "utils._sympy.value_ranges": Absent(_SIZES, "ValueRanges"),
    "onnx": Absent(
        _ONNX,
        "export ONNXProgram",
        # Registered functions would be used by `export` alone.
        answers={
            "is_in_onnx_export": False,
            "register_custom_op_symbolic": None,
            "unregister_custom_op_symbolic": None,
        },
    ),
    "onnx.operators": Absent(
        _ONNX,
        works={
            "shape_as_tensor": _shape_as_tensor,
            "reshape_from_tensor_shape": lambda x, shape: x.reshape(shape.tolist()),
        },
    ),
    "onnx.symbolic_helper": Absent(_ONNX, works={"parse_args": _no_exporter}),
    "onnx.symbolic_opset11": Absent(_ONNX),
    "utils.data.datapipes.iter": Absent(_PIPES),
    "utils.data.datapipes.iter.combinatorics": Absent(_PIPES, "ShufflerIterDataPipe SamplerIterDataPipe"),
    "distributed.rpc": Absent(
        _REMOTE,
        "BackendType RRef TensorPipeRpcBackendOptions get_worker_info init_rpc remote rpc_async rpc_sync shutdown",
        answers={"is_available": False},
    ),
    "distributed.autograd": Absent(_REMOTE, "backward context get_gradients", answers={"is_available": False}),
    "distributed._composable.replicate_with_fsdp": Absent(
        "use replicate of torch.distributed._composable", "replicate replicate_mesh"
    ),
    "distributed.algorithms.model_averaging.hierarchical_model_averager": Absent(
        "parameters are averaged over one group; use PeriodicModelAverager", "HierarchicalModelAverager"
    ),
    "distributed.tensor.device_mesh": Absent("use torch.distributed.device_mesh", "DeviceMesh init_device_mesh"),
    "distributed.tensor.parallel.loss": Absent("use torch.distributed.tensor.parallel", "loss_parallel"),
    **dict.fromkeys(("fx.passes", "fx.passes.infra", "fx.passes.utils", "fx.experimental"), Absent(_PASSES)),
    # Programs read what a pass of their own returned.
    "fx.passes.infra.pass_base": Absent(
        _PASSES, "PassBase", works={"PassResult": namedtuple("PassResult", ("graph_module", "modified"))}
    ),
    "fx.passes.infra.pass_manager": Absent(_PASSES, "PassManager"),
    "fx.passes.graph_drawer": Absent(_PASSES, "FxGraphDrawer"),
    "fx.passes.shape_prop": Absent(_PASSES, "ShapeProp"),
    "fx.passes.split_module": Absent(_PASSES, "split_module"),
    "fx.passes.utils.matcher_utils": Absent(_PASSES, "SubgraphMatcher"),
    "fx.experimental.optimization": Absent(_PASSES, "fuse optimize_for_inference remove_dropout"),
    "fx.experimental.proxy_tensor": Absent(
        "programs are not traced below autograd; torch.fx.symbolic_trace records calls of public functions",
        "make_fx",
        answers={"get_proxy_mode": None},
    ),
    **dict.fromkeys(("testing._internal.opinfo", "testing._internal.opinfo.definitions"), Absent(_TABLES)),
    "testing._internal.opinfo.core": Absent(
        _TABLES, "BinaryUfuncInfo OpInfo ReductionOpInfo SampleInput UnaryUfuncInfo"
    ),
    "testing._internal.common_methods_invocations": Absent(_TABLES, "op_db"),
    "testing._internal.common_modules": Absent(_TABLES, "ModuleInfo ModuleInput module_db modules"),
    "testing._internal.common_nn": Absent(_TABLES, "ModuleTest NNTestCase"),
    "testing._internal.common_optimizers": Absent(_TABLES, "OptimizerInfo OptimizerInput optim_db optims"),
    "testing._internal.autograd_function_db": Absent(_TABLES, "autograd_function_db"),
    "testing._internal.common_device_type": Absent(
        _DEVICES,
        "deviceCountAtLeast dtypes dtypesIfCPU dtypesIfCUDA instantiate_device_type_tests onlyCPU onlyCUDA "
        "onlyNativeDeviceTypes ops precisionOverride skipCPUIf skipCUDAIf skipIf skipMeta toleranceOverride",
    ),
    "testing._internal.common_dtype": Absent(
        "groups of dtypes for tests are out of scope; list the dtypes",
        "all_types all_types_and all_types_and_complex all_types_and_complex_and floating_and_complex_types "
        "floating_and_complex_types_and floating_types floating_types_and get_all_dtypes integral_types",
    ),
    "testing._internal.common_cuda": Absent(
        "libraries of CUDA are not chosen here; XLA chooses", "tf32_off tf32_on tf32_on_and_off with_tf32_off"
    ),
    "testing._internal.common_mkldnn": Absent("there is no mkldnn", "bf32_on_and_off reduced_f32_on_and_off"),
    "testing._internal.logging_tensor": Absent(
        _DISPATCHER, "LoggingTensor LoggingTensorMode LoggingTensorReentrant capture_logs"
    ),
    "testing._internal.two_tensor": Absent(_DISPATCHER, "TwoTensor TwoTensorMode"),
    "utils.collect_env": Absent("`python -m torchgrad_jax info` prints the report", "get_pretty_env_info main"),
    "utils._triton": Absent(_TRITON, answers={"has_triton": False, "has_triton_package": False}),
    "utils.cpp_extension": Absent(
        "extensions in C++ are compiled against torch itself; torch.library registers operators written in Python, and "
        "from_jax takes JAX functions",
        "load load_inline CppExtension CUDAExtension SyclExtension BuildExtension include_paths",
        answers={"is_ninja_available": False},
        constants={"CUDA_HOME": None, "ROCM_HOME": None, "IS_HIP_EXTENSION": False},
    ),
    "profiler.itt": Absent(
        "ranges for Intel's tools are not emitted; torch.profiler.record_function names a stretch",
        "mark range range_pop range_push",
        answers={"is_available": False},
    ),
    "mps": Absent(
        _MPS,
        "current_allocated_memory driver_allocated_memory empty_cache get_rng_state recommended_max_memory "
        "set_rng_state synchronize",
        lambda text: RuntimeError(text),
        answers={"is_available": False, "device_count": 0, "manual_seed": None},
    ),
    "xpu": Absent(
        "Intel's GPUs are not supported",
        "synchronize current_device current_stream set_device get_device_name get_device_properties "
        "get_device_capability mem_get_info",
        lambda text: AssertionError("Torch not compiled with XPU enabled"),
        answers={
            "is_available": False,
            "device_count": 0,
            "is_initialized": False,
            "is_bf16_supported": False,
            "empty_cache": None,
            "reset_peak_memory_stats": None,
            "memory_allocated": 0,
            "max_memory_allocated": 0,
            "memory_reserved": 0,
            "max_memory_reserved": 0,
            "manual_seed": None,
            "manual_seed_all": None,
        },
    ),
}


def refusal(name: str, reason: str, error: Callable[[str], Exception]) -> Callable[..., NoReturn]:
    """A function that raises, whatever it is called with; a class where the name begins with a capital letter.

    Programs ask `isinstance` about such classes, and derive from them, long before they make one.
    """

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise error(f"{name}() is not supported: {reason} (see docs/non_goals.md)")

    last = name.rpartition(".")[2]
    found = type(last, (), {"__new__": refuse}) if last[0].isupper() else refuse
    found.__doc__ = f"Refused: {reason}."
    return _called(found, name)


def _answer(name: str, value: Any) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return value

    answer.__doc__ = f"{value!r}: there is nothing here that it could be about."
    return _called(answer, name)


def _called(fn: Any, name: str) -> Any:
    fn.__name__, fn.__qualname__ = name.rpartition(".")[2], name.removeprefix("torch.")
    fn.__module__ = _PACKAGE
    return fn


class _Finder:
    """The finder on `sys.meta_path` that makes the modules of the table."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        name = fullname.removeprefix(f"{_PACKAGE}.")
        if name == fullname or name not in MODULES:
            return None
        inside = any(other.startswith(f"{name}.") for other in MODULES)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=inside)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.removeprefix(f"{_PACKAGE}.")
        row, path = MODULES[name], f"torch.{name}"
        module.__doc__ = f"{path}: {row.reason} (docs/non_goals.md)."
        made = {
            **{n: refusal(f"{path}.{n}", row.reason, row.error) for n in row.refused.split()},
            **{n: _answer(f"{path}.{n}", value) for n, value in row.answers.items()},
            **{n: _called(fn, f"{path}.{n}") for n, fn in row.works.items()},
            **row.constants,
        }

        def missing(attribute: str) -> Any:
            if f"{name}.{attribute}" in MODULES:
                return importlib.import_module(f"{_PACKAGE}.{name}.{attribute}")
            raise AttributeError(no_such_name(f"{path}.{attribute}"))

        vars(module).update(made, __all__=sorted(made), __getattr__=missing)


def install() -> None:
    """Let the modules of the table be imported."""
    sys.meta_path.append(_Finder())
