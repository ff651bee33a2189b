"""Names that published packages use: they are there, or say at the call what to do instead."""

import importlib

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint
from torchgrad_jax._alias.check import resolve

program = Programs()
test_same_as_torch = program.test()


def part(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


@program
def sizes_are_known(m):
    symbolic = part(m, "fx.experimental.symbolic_shapes")
    asked = [symbolic.guard_or_false, symbolic.guard_or_true, symbolic.statically_known_true]
    return [f(x) for f in asked for x in (True, False)], len(symbolic.free_symbols(3)), symbolic.is_symbolic(3)


@program
def what_programs_ask_about_compilers(m):
    guards, inductor, prims = part(m, "_guards"), part(m, "_inductor"), part(m, "_prims_common")
    return (
        guards.detect_fake_mode([m.ones(1)]),
        inductor.cudagraph_mark_step_begin(),
        [prims.is_contiguous_or_false(x) for x in (m.ones(2, 3), m.ones(2, 3).t())],
        prims.alert_not_deterministic("here"),
    )


@program
def settings_of_a_compiler(m):
    config = part(m, "_dynamo").config
    names = ("capture_scalar_outputs", "optimize_ddp", "skip_fwd_side_effects_in_bwd_under_checkpoint")
    before = [getattr(config, name) for name in names]
    with config.patch(capture_scalar_outputs=True):
        inside = config.capture_scalar_outputs
    return before, inside, config.capture_scalar_outputs


@program
def classes_of_libraries(m):
    classes = part(m, "classes")
    return complaint(lambda: classes.pyg.CPUHashMap)[0]


@program
def products_in_groups(m):
    a, b = m.arange(32.0).view(4, 8).bfloat16(), m.arange(128.0).view(2, 8, 8).bfloat16() / 100
    return m._grouped_mm(a, b, m.tensor([1, 4], dtype=m.int32))


@program
def products_of_a_wider_dtype(m):
    a = m.tensor([[100, 100], [1, 2]], dtype=m.int8)
    return part(m, "_higher_order_ops.out_dtype").out_dtype(m.ops.aten.mm.default, m.int32, a, a)


@program
def layers_as_operators(m):
    x, w = m.arange(6.0).view(2, 3), m.ones(4, 3)
    return (
        m.ops.aten.linear(x, w),
        m.ops.aten.linear.default(x, w, m.arange(4.0)),
        m.ops.aten.one_hot(m.tensor([0, 2]), 3),
    )


@program
def classes_of_operators(m):
    classes = part(m, "_ops")
    add = m.ops.aten.add
    return isinstance(add.Tensor, classes.OpOverload), isinstance(add, classes.OpOverloadPacket)


REFUSED = [
    lambda: part(tg, "distributed._tensor.placement_types").DTensorSpec(),
    lambda: part(tg, "_subclasses.fake_tensor").FakeTensorConverter(),
    lambda: part(tg, "utils._python_dispatch").return_and_correct_aliasing(),
    lambda: part(tg, "sparse._triton_ops").prepare_inputs(),
    lambda: part(tg, "_prims_common").suggest_memory_format(tg.ones(1)),
    lambda: tg.mps.empty_cache(),
    lambda: tg._scaled_mm(tg.ones(2, 2), tg.ones(2, 2)),
    lambda: tg._nested_view_from_buffer(tg.ones(2)),
    lambda: tg._C._storage_Use_Count(3),
    lambda: tg.distributed.rpc.TensorPipeRpcBackendOptions(),
    lambda: tg._C._distributed_rpc.PyRRef(3),
    lambda: tg.onnx.ONNXProgram(),
    lambda: tg.numa.binding.NumaOptions(),
    lambda: part(tg, "utils._sympy.value_ranges").ValueRanges(),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused_says_so_at_the_call(call):
    for name in ("distributed.rpc", "_C._distributed_rpc", "numa.binding"):
        part(tg, name)
    with pytest.raises((NotImplementedError, RuntimeError), match="is not supported: "):
        call()


def test_torch_of_torch_is_torch():
    assert resolve("torch.torch.Tensor")[1] == resolve("torch.torch")[1] == "supported"


def test_a_decorator_of_a_compiler_leaves_a_function_as_it_is():
    assert part(tg, "_inductor.decomposition").register_decomposition([])(len) is len
