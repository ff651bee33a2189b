"""Names of torch about devices, checkpoints and several GPUs, against torch on a machine without a GPU."""

import warnings
from importlib import import_module

import jax
import pytest

import torchgrad_jax as tg
from tests.engine.helpers import Programs, attempt

PROGRAMS = Programs()
pytestmark = pytest.mark.skipif(any(d.platform != "cpu" for d in jax.devices()), reason="about machines without a GPU")


def complaint(fn):
    found = attempt(fn)
    return [type(found).__name__, str(found)]


@PROGRAMS
def accelerators_that_are_not_there(m):
    a = m.accelerator
    names = [
        "current_device_index",
        "current_stream",
        "synchronize",
        "empty_cache",
        "memory_stats",
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
        "reset_peak_memory_stats",
        "reset_accumulated_memory_stats",
        "get_memory_info",
        "get_device_capability",
        "empty_host_cache",
        "Graph",
    ]
    seen = [[n, complaint(getattr(a, n))] for n in names]
    seen += [complaint(lambda: a.set_device_index(0)), sorted(a.__all__), a.device_count()]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seen += [complaint(a.current_device_idx), complaint(lambda: a.set_device_idx(0))]
    seen.append([str(w.message) for w in told])
    with a.device_index(None):
        seen.append(["inside"])

    def enter():
        with a.device_index(0):
            pass

    return [*seen, complaint(enter)]


@PROGRAMS
def names_of_cuda(m):
    random, graphs = (import_module(f"{m.__name__}.cuda.{n}") for n in ("random", "graphs"))
    with m.cuda.device_of(m.ones(1)):
        inside = True
    return [
        inside,
        m.cuda.default_generators,
        sorted(random.__all__),
        sorted(graphs.__all__),
        m.cuda.random is random,
        random.get_rng_state_all(),
        random.manual_seed_all(3),
        complaint(graphs.CUDAGraph),
        complaint(m.cuda.graph_pool_handle),
        graphs.graph.__name__,
        m.version.xpu,
        m.version.rocm,
    ]


@PROGRAMS
def options_of_checkpoints(m):
    import mmap

    s = m.serialization
    seen = [s.get_default_mmap_options()]
    with s.set_default_mmap_options(mmap.MAP_SHARED):
        seen.append(s.get_default_mmap_options())
    seen.append(s.get_default_mmap_options())
    return [*seen, complaint(lambda: s.set_default_mmap_options(77))]


@PROGRAMS
def parts_of_data_parallel(m):
    p = m.nn.parallel
    line, x = m.nn.Linear(2, 2), m.ones(4, 2)
    kwargs = import_module(f"{m.__name__}.nn.parallel.scatter_gather").scatter_kwargs
    return [
        p.scatter([1, "a"], [0, 1]),
        p.scatter({"a": (1, None)}, [0]),
        p.scatter((), [0, 1]),
        kwargs((1,), {"b": 3}, [0, 1]),
        kwargs((), {"b": 3}, [0, 1]),
        kwargs((1,), None, [0]),
        p.replicate(line, []),
        complaint(lambda: p.scatter(x, ["cpu", "cpu"])),
        complaint(lambda: p.gather([x], "cpu")),
        complaint(lambda: p.replicate(line, [0])),
        complaint(lambda: p.parallel_apply([line], [x])),
        complaint(lambda: p.parallel_apply([line], [])),
        complaint(lambda: p.parallel_apply([line], [x], devices=["cpu"])),
        p.gather([{"a": None}, {"a": None}], 0),
    ]


@PROGRAMS
def products_in_groups(m):
    f = m.nn.functional
    a, b = m.arange(32.0).view(8, 4), m.arange(64.0).view(2, 4, 8)
    ends = m.tensor([2, 8], dtype=m.int32)
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    f.grouped_mm(x, y, offs=ends).pow(2).sum().backward()
    wrong = [
        lambda: f.grouped_mm(a, b),
        lambda: f.grouped_mm(a[:, :3], b[:, :3], offs=ends),
        lambda: f.grouped_mm(m.ones(8, 3), b[:, :3], offs=ends),
        lambda: f.grouped_mm(a[:, ::2], b[:, ::2], offs=ends),
        lambda: f.grouped_mm(b, b.mT, offs=ends),
        lambda: f.grouped_mm(a.double(), b, offs=ends),
        lambda: f.grouped_mm(a, b.long(), offs=ends),
        lambda: f.grouped_mm(a, b, offs=ends.long()),
        lambda: f.grouped_mm(a, b, offs=ends, bias=m.ones(8)),
        lambda: f.grouped_mm(a, b[:1], offs=ends),
        lambda: f.grouped_mm(a[:, :2], b, offs=ends),
        lambda: f.grouped_mm(a[0], b, offs=ends),
        lambda: f.grouped_mm(a, b, offs=ends, out_dtype=m.float16),
    ]
    return [
        f.grouped_mm(a, b, offs=ends),
        f.grouped_mm(b.mT.contiguous(), b),
        f.grouped_mm(a.T, a, offs=ends),
        f.grouped_mm(b.mT, a.T, offs=ends),
        f.grouped_mm(b.bfloat16(), b.mT.bfloat16()),
        x.grad,
        y.grad,
        [complaint(w) for w in wrong],
    ]


@PROGRAMS
def small_rules(m):
    x = m.tensor([[1.0, -3.0], [2.0, 0.5]], requires_grad=True)
    m.amax(x, dim=None).backward()
    bags = m.tensor([0, 1]), m.tensor([[0]])
    return [
        m.amax(x, None),
        m.amin(x, dim=None, keepdim=True),
        x.grad,
        m.rsub(x, 2.0, alpha=0.5),
        m.rsub(x, x, alpha=2),
        complaint(lambda: m.embedding_bag(x, *bags)),
    ]


test_same_as_torch = PROGRAMS.test()


def test_what_has_no_counterpart_is_refused():
    s = tg.serialization
    for call in (
        lambda: s.register_package(1, lambda x: None, lambda x, y: None),
        lambda: tg.library.triton_op("a::b", lambda x: x, mutates_args=()),
        lambda: tg.library.wrap_triton(print),
        lambda: tg.nn.functional.scaled_mm(tg.ones(2, 2), tg.ones(2, 2)),
    ):
        with pytest.raises(NotImplementedError):
            call()
