"""Names around tensors that programs use: flags, switches, functions without effect, and clear refusals."""

from operator import attrgetter

import pytest

import torchgrad_jax as tg
from torchgrad_jax.torch_version import TorchVersion

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def test_versions_compare_as_versions():
    v = TorchVersion("2.13.0+torchgrad.jax")
    assert v >= "2.9"
    assert v > (2, 9)
    assert v < "3"
    assert v == "2.13"
    assert v != "2.13.1"
    assert v <= "2.13.0"
    assert not v < "2.13.0a1"
    assert TorchVersion("2.13.0a1") < "2.13"
    assert v.split("+")[0] == "2.13.0"
    assert v != "no version"
    assert hash(v) == hash(str(v))


def test_flags_are_kept(monkeypatch):
    cudnn = tg.backends.cudnn
    before = cudnn.benchmark
    with cudnn.flags(enabled=True, benchmark=True):
        assert cudnn.benchmark
    assert cudnn.benchmark == before
    monkeypatch.setattr(cudnn, "benchmark", True)
    assert cudnn.benchmark
    assert not tg.backends.mps.is_available()
    assert not tg.backends.mkldnn.is_available()
    with tg.backends.cuda.sdp_kernel(enable_flash=False):
        assert not tg.backends.cuda.flash_sdp_enabled()
    assert tg.backends.cuda.flash_sdp_enabled()


def test_settings():
    assert tg.get_float32_matmul_precision() == "highest"
    with pytest.warns(UserWarning, match="coarse is not one of 'highest'"):
        tg.set_float32_matmul_precision("coarse")
    assert tg.get_float32_matmul_precision() == "highest"
    for wrong in (
        lambda: tg.set_float32_matmul_precision(3),  # type: ignore[arg-type]
        lambda: tg.set_num_threads("a"),  # type: ignore[arg-type]
    ):
        with pytest.raises(RuntimeError, match="expects a"):
            wrong()
    n = tg.get_num_threads()
    assert n >= 1
    tg.set_num_threads(n)
    assert tg.get_num_threads() == n
    with pytest.raises(RuntimeError, match="positive"):
        tg.set_num_threads(0)
    with pytest.raises(RuntimeError, match="int"):
        tg.set_num_threads(1.5)  # type: ignore[arg-type]
    for mode in ("warn", "error", "default"):
        tg.set_deterministic_debug_mode(mode)
        assert tg.get_deterministic_debug_mode() == ("default", "warn", "error").index(mode)
    with pytest.raises(RuntimeError, match="debug_mode"):
        tg.set_deterministic_debug_mode(7)


@pytest.mark.parametrize("name", ["graph", "code", "graph_for"])
@pytest.mark.parametrize("make", [tg.jit.script, lambda f: tg.jit.trace(f, tg.ones(2))])
@pytest.mark.parametrize("of", [lambda x: x, tg.nn.Identity()], ids=["function", "module"])
def test_graphs_of_scripts_are_refused_with_the_reason(name, make, of):
    made = make(of)
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'\ntorchgrad_jax has no"):
        getattr(made, name)
    assert not hasattr(made, name)


def test_scripting_passes_through():
    def f(x):
        return x + 1

    for made in (tg.jit.script(f), tg.jit.trace(f, tg.ones(2)), tg.jit.trace(f, (tg.ones(2),))):
        assert made(1) == 2
        assert made.__name__ == "f"
        assert isinstance(made, tg.jit.ScriptFunction)
    assert tg.jit.ignore(f) is f
    assert tg.jit.ignore(drop=True)(f) is f
    assert not tg.jit.is_scripting()
    assert not tg.jit.is_tracing()
    assert not isinstance(f, tg.jit.ScriptModule)
    assert tg.jit.isinstance([1], list[int])
    with pytest.raises(NotImplementedError, match="TorchScript"):
        type("Scripted", (tg.jit.ScriptModule,), {})


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: tg.jit.save(None, "f"), NotImplementedError),
        (lambda: tg.jit.load("f"), NotImplementedError),
        (lambda: tg.onnx.export(None), NotImplementedError),
        (lambda: tg.hub.load("a/b", "c"), NotImplementedError),
        (lambda: tg.hub.list("a/b"), NotImplementedError),
        (lambda: tg.xpu.synchronize(), AssertionError),
        (lambda: tg.multiprocessing.set_sharing_strategy("file_descriptor"), NotImplementedError),
        (lambda: setattr(tg._dynamo.config, "error_on_recompile", True), AttributeError),
    ],
)
def test_what_is_refused_says_so(call, error):
    with pytest.raises(error, match=r"torch|Torch"):
        call()


@pytest.mark.parametrize(
    "where",
    [
        "jit",
        "backends.nothing",
        "distributed",
        "compiler",
        "onnx",
        "utils",
        "utils.data",
        "cuda",
        "cpu",
        "distributions",
        "serialization",
        "multiprocessing",
        "accelerator",
        "mps",
        "xpu",
        "_dynamo",
    ],
)
def test_missing_names_say_so(where):
    with pytest.raises(AttributeError):
        attrgetter(f"{where}.surely_not_there")(tg)


def test_devices():
    assert tg.distributed.is_available()
    assert not tg.distributed.is_initialized()
    assert tg.accelerator.is_available() == tg.cuda.is_available()
    assert tg.cpu.is_available()
    assert tg.cpu.device_count() == 1
    assert not tg.mps.is_available()
    assert not tg.xpu.is_available()
    tg.cpu.synchronize()


def test_compiler_namespace():
    f = tg.compile(lambda x: x * (2 if tg.compiler.is_compiling() else 3))
    assert f(tg.ones(2)).tolist() == [2.0, 2.0]
    assert not tg.compiler.is_compiling()
    alone = tg.compiler.disable(lambda x: x + 1)
    assert alone(tg.ones(1)).tolist() == [2.0]
    with pytest.raises(RuntimeError, match="compiled whole"):
        tg.compile(lambda x: alone(x))(tg.ones(1))
    tg.compiler.reset()
    tg._dynamo.reset()


def test_what_is_there_to_compile_and_to_communicate_with():
    there = tg.distributed
    backends = [there.is_mpi_available, there.is_nccl_available]
    backends += [there.is_ucc_available, there.is_xccl_available]
    assert not any(available() for available in backends)
    assert there.is_gloo_available()
    assert there.is_backend_available("gloo")
    assert not there.is_backend_available("nccl")
    assert tg._dynamo.is_dynamo_supported() is True

    @tg.compile
    def f(x):
        tg._dynamo.graph_break()
        return x + 1

    assert f(tg.ones(1)).tolist() == [2.0]


def test_each_of_a_list():
    xs = [tg.tensor([1.0, 4.0]), tg.tensor([9.0])]
    assert [t.tolist() for t in tg._foreach_sqrt(xs)] == [[1.0, 2.0], [3.0]]
    assert [t.tolist() for t in tg._foreach_add(xs, xs, alpha=2)] == [[3.0, 12.0], [27.0]]
    assert [t.tolist() for t in tg._foreach_maximum(xs, 4)] == [[4.0, 4.0], [9.0]]
    assert [t.tolist() for t in tg._foreach_addcmul(xs, xs, xs, 0.5)] == [[1.5, 12.0], [49.5]]
    assert [t.item() for t in tg._foreach_norm(xs)] == pytest.approx([17**0.5, 9.0])
    tg._foreach_mul_(xs, [2.0, 3.0])
    assert [t.tolist() for t in xs] == [[2.0, 8.0], [27.0]]
    tg._foreach_zero_(xs)
    assert [t.tolist() for t in xs] == [[0.0, 0.0], [0.0]]
    with pytest.raises(RuntimeError, match="same number"):
        tg._foreach_add_(xs, [1.0])
    with pytest.raises(AttributeError, match="_foreach_nothing"):
        tg._foreach_nothing


def test_trees():
    tree = tg.utils._pytree
    leaves, spec = tree.tree_flatten({"a": [1, (2, None)], "b": 3})
    assert leaves == [1, 2, None, 3]
    assert tree.tree_unflatten([4, 5, 6, 7], spec) == {"a": [4, (5, 6)], "b": 7}
    assert tree.tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)]) == [11, (22,)]
    assert tree.tree_map_only(int, lambda x: -x, [1, "x"]) == [-1, "x"]
