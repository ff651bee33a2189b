"""Caches of plans, kernels and programs keep within their limits, and nobody sees what they forget."""

import gc
import re
import threading
from pathlib import Path
from typing import Any

import jax
import pytest

import torchgrad_jax as torch
from torchgrad_jax._core.jax import caches
from torchgrad_jax._core.jax.caches import KERNELS, POOLS, Cache, Interned, Pool

PACKAGE = Path(torch.__file__).parent


@pytest.fixture
def limits():
    """Set limits for one test, and start with empty caches."""
    before = {name: pool.limit for name, pool in POOLS.items()}

    def choose(**chosen):
        torch.clear_caches()
        torch.set_cache_limits(**chosen)

    yield choose
    torch.set_cache_limits(**before)


def live_kernels():
    return len(jax.devices()[0].client.live_executables())


# --- one cache ------------------------------------------------------------------------------------


@pytest.fixture
def pool():
    made = Pool("made for a test", 8)
    yield made
    del POOLS[made.name]


def test_a_cache_keeps_what_is_used_and_never_more_than_its_limit(pool):
    cache = pool.cache()
    cache.put("used", 0)
    for i in range(50):
        cache.put(i, i)
        assert cache.get("used") == 0
        assert cache.get(i) == i
        assert len(cache) <= pool.limit
    assert cache.get(0) is None
    info = pool.info()
    assert (info.limit, info.size) == (8, len(cache))
    assert info.evictions > 40
    assert info.hits > 5
    assert info.misses == 1


def test_entries_that_fit_the_limit_are_all_kept_while_new_ones_come_and_go():
    pool = Pool("made for this test", 64)
    try:
        cache = pool.cache()
        for key in range(40):
            cache.put(("used", key), key)
        for i in range(500):
            cache.put(("new", i), i)
            assert all(cache.get(("used", key)) == key for key in range(40)), i
            assert len(cache) <= 64
    finally:
        del POOLS[pool.name]


def test_caches_of_one_pool_share_its_limit(pool):
    some = [pool.cache() for _ in range(5)]
    for i in range(40):
        some[i % 5].put(i, i)
    assert sum(map(len, some)) <= 8


def test_heavy_entries_count_for_more(pool):
    cache = pool.cache()
    for i in range(10):
        cache.put(i, i, 4)
        assert len(cache) <= 2


def test_the_first_of_two_entries_for_a_key_stays(pool):
    cache = pool.cache()
    assert cache.put("key", "first") == "first"
    assert cache.put("key", "second") == "first"
    for i in range(4):
        cache.put(i, i)
    assert "key" not in cache.young
    assert cache.put("key", "third") == "first"


def test_the_young_dictionary_stays_the_same_object(pool):
    cache = pool.cache()
    young = cache.young
    for i in range(20):
        cache.put(i, i)
    cache.clear()
    assert cache.young is young
    assert not cache
    assert not young


class Thing:
    pass


def test_an_interned_object_stays_the_one_as_long_as_it_is_held(pool):
    cache = pool.cache(Interned)
    held = cache.put("held", Thing())
    cache.put("dropped", Thing())
    for i in range(20):
        cache.put(i, Thing())
    cache.clear()
    assert cache.get("held") is held
    assert cache.put("held", Thing()) is held
    assert cache.get("dropped") is None


def test_results_of_functions_are_kept_within_the_limit(pool):
    calls = []

    @pool.memo()
    def double(x):
        calls.append(x)
        return 2 * x

    assert [double(n) for n in (1, 2, 1, 2)] == [2, 4, 2, 4]
    assert calls == [1, 2]
    for n in range(100):
        double(n)
    assert len(double.cache) <= 8


def test_many_threads_agree_on_every_entry(pool):
    cache, seen = pool.cache(), [[] for _ in range(6)]

    def run(mine):
        for i in range(3000):
            key = i % 5
            value = cache.get(key)
            mine.append((key, cache.put(key, key) if value is None else value))
            cache.put(("own", id(mine), i), i)

    threads = [threading.Thread(target=run, args=(mine,)) for mine in seen]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(key == value for mine in seen for key, value in mine)
    assert [len(mine) for mine in seen] == [3000] * 6
    assert len(cache) <= pool.limit


# --- limits and counters --------------------------------------------------------------------------


def test_the_counters_say_what_happened(limits):
    limits(kernels=16)
    before = torch.cache_info()["kernels"]
    for n in range(12):
        torch.ones(n + 1).exp()
    after = torch.cache_info()["kernels"]
    assert after.limit == 16
    assert 0 < after.size <= 16
    assert after.misses - before.misses >= 12
    assert {"kernels", "calls", "views", "layouts", "programs"} <= torch.cache_info().keys()
    torch.clear_caches()
    assert torch.cache_info()["kernels"].size == 0


@pytest.mark.parametrize("given", [{"kernels": 0}, {"kernels": 1.5}, {"kernels": True}, {"nope": 3}])
def test_wrong_limits_are_refused_and_change_nothing(given):
    before = torch.cache_info()["calls"].limit
    with pytest.raises(ValueError, match="limit"):
        torch.set_cache_limits(calls=7, **given)
    assert torch.cache_info()["calls"].limit == before


# --- programs under small limits ------------------------------------------------------------------


def losses_of_many_batch_sizes(sizes):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for n in sizes:
        optimizer.zero_grad()
        x = torch.randn(n, 3)
        loss = torch.nn.functional.cross_entropy(model(x), torch.randint(0, 2, (n,)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_forgetting_changes_no_number(limits):
    sizes = [1, 2, 1]
    expected = losses_of_many_batch_sizes(sizes)
    limits(kernels=6, calls=4, views=4, layouts=4)
    assert losses_of_many_batch_sizes(sizes) == expected


def test_few_kernels_stay_alive_however_many_shapes_there_are(limits):
    limits(kernels=8)
    before = live_kernels()
    for n in range(20):
        torch.ones(n + 1, requires_grad=True).exp().sum().backward()
        assert live_kernels() - before <= 10, n
    assert torch.cache_info()["kernels"].size <= 8


def test_few_kernels_stay_alive_over_many_batch_sizes(limits):
    limits(kernels=32)
    before = live_kernels()
    losses_of_many_batch_sizes(range(1, 31))
    assert live_kernels() - before <= 40


def test_modules_that_kernels_were_compiled_from_are_dropped(limits):
    limits(kernels=1000)
    from jax._src.interpreters import pxla

    for n in range(25):
        torch.ones(n + 1).exp()
    kept = [key[0]() for key in pxla._cached_lowering_to_hlo.cache_keys()]
    assert len([t for t in kept if t is not None and caches._is_ours(t)]) <= 16


def test_modules_that_the_users_functions_were_compiled_from_stay():
    from jax._src import pjit

    def of_the_user(x):
        return x * 2 + 1

    jitted = jax.jit(of_the_user)
    jitted(jax.numpy.ones(3))
    caches.drop_lowerings()
    kept = [key[0]() for key in pjit._pjit_lower.cache_keys()]
    names = [t.jaxpr.debug_info.func_name for t in kept if t is not None]
    assert "of_the_user" in names


def test_tensors_of_one_layout_share_its_description_after_it_was_forgotten(limits):
    x = torch.ones(7, 3)
    limits(layouts=4)
    for n in range(30):
        torch.ones(n + 1)
    assert torch.zeros(7, 3)._m is x._m


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
def test_a_compiled_function_forgets_the_shapes_that_came_longest_ago():
    f = torch.compile(lambda x: x * 2 + 1, recompile_limit=3)
    for n in (1, 2, 3, 1, 4, 1, 2):  # 4 takes the place of 2, and 2 that of 3
        assert f(torch.ones(n)).tolist() == [3.0] * n
    assert f.counts["traced"] == 5
    assert sum(map(len, f.entries.values())) == 3
    assert f(torch.ones(1)).tolist() == [3.0]
    assert f.counts["traced"] == 5


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
def test_programs_of_dropped_shapes_are_freed():
    f = torch.compile(lambda x: (x.exp() * 2).sum(), recompile_limit=2)
    f(torch.ones(1))
    before = live_kernels()
    for n in range(2, 14):
        f(torch.ones(n))
    gc.collect()  # a program refers to itself
    assert live_kernels() - before <= 4


# --- clearing while something is going on -----------------------------------------------------------


def test_clearing_between_forward_and_backward_changes_nothing():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x[1:] * x[:-1]).exp().sum()
    torch.clear_caches()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    torch.clear_caches()
    (gg,) = torch.autograd.grad(g.sum(), x)
    z = x.detach().requires_grad_()
    (h,) = torch.autograd.grad((z[1:] * z[:-1]).exp().sum(), z, create_graph=True)
    assert g.tolist() == h.tolist()
    assert gg.tolist() == torch.autograd.grad(h.sum(), z)[0].tolist()


def test_clearing_in_hooks_and_functions_changes_nothing():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            torch.clear_caches()
            return x * 2

        @staticmethod
        def backward(ctx, g):
            torch.clear_caches()
            return g * 2

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = Twice.apply(x.sin())
    y.register_hook(lambda g: torch.clear_caches())
    y.grad_fn.register_hook(lambda *_: torch.clear_caches())
    x.register_post_accumulate_grad_hook(lambda t: torch.clear_caches())
    y.sum().backward()
    assert x.grad.tolist() == (2 * x.detach().cos()).tolist()


def test_clearing_while_a_function_is_compiled_changes_nothing():
    def f(x):
        y = x.exp()
        torch.clear_caches()
        return y * 2

    compiled = torch.compile(f)
    x = torch.tensor([0.0, 1.0])
    for _ in range(3):
        assert compiled(x).tolist() == pytest.approx(f(x).tolist(), rel=1e-6)


def test_other_threads_may_clear_at_any_time(limits):
    limits(kernels=8, calls=8, views=8, layouts=8)
    done, failures = threading.Event(), []

    def compute(k):
        try:
            for n in range(6):
                x = torch.ones(2, 1 + (n + k) % 3, requires_grad=True)
                (x[:, :1] * x).mul(3).sum().backward()
                m = 1 + (n + k) % 3
                grad: Any = x.grad
                assert grad[:, 0].tolist() == [3.0 * (m + 1)] * 2
                assert grad[:, 1:].tolist() == [[3.0] * (m - 1)] * 2
        except BaseException as error:  # shown by the main thread
            failures.append(error)

    def clear():
        while not done.wait(0.01):
            torch.clear_caches()

    workers = [threading.Thread(target=compute, args=(k,)) for k in range(3)]
    cleaner = threading.Thread(target=clear)
    for t in [*workers, cleaner]:
        t.start()
    for t in workers:
        t.join()
    done.set()
    cleaner.join()
    assert not failures


# --- no other caches ------------------------------------------------------------------------------

BOUNDED_BY_THEIR_KEYS = {
    "one per dtype, device, mesh, group, kind of node, name, file, function, module, or class of modules or batches": {
        "_bridge/compile/trace/equal_steps.py", "_bridge/compile/arguments/object_trees.py",
        "_codegen/homes.py", "_core/builtin_functions.py", "_core/c_functions.py",
        "_core/arrays/devices.py", "_core/arrays/division.py", "_core/arrays/dtypes.py", "_core/arrays/numbers.py",
        "_core/arrays/transfer.py", "_core/host/compiled_curves.py", "_core/host/one_thread.py", "_core/jax/caches.py",
        "_core/homes.py", "_core/jax/linear_maps.py", "_core/jax/sizes.py",
        "_core/python_code.py", "_core/random/exchanges.py", "_core/random/normals.py",
        "_core/random/rng.py", "_core/random/rounding.py", "_engine/entry/parser.py",
        "_engine/entry/finish.py", "_engine/entry/return_types.py", "_engine/graph/node.py", "_engine/graph/record.py",
        "_engine/memory/derivative_stops.py", "_engine/overrides/asking.py", "_engine/overrides/looking.py",
        "_engine/run/kept_calls.py", "_engine/run/program.py", "_engine/run/trace_files.py",
        "_engine/surface.py", "_functions/fresh.py", "_functions/shape.py",
        "_ops/registry.py", "amp/autocast_mode.py", "cuda/streams.py", "distributed/_exchange.py",
        "distributed/checkpoint/_together.py", "distributed/device_mesh.py", "distributed/fsdp/_fully_shard.py",
        "distributed/tensor/_summands.py",
        "multiprocessing/_carrying.py", "ops.py",
    },
    "what the user registers": {
        "_bridge/jax_side/modules.py", "_bridge/jax_side/trees.py", "_core/arrays/tree.py",
        "_core/jax/programs_ahead.py", "_library/registry.py",
        "_logging/__init__.py",
        "distributed/_rendezvous.py", "distributions/_kl_registry.py", "fx/_symbolic_trace.py", "library.py",
        "nn/utils/parametrize.py", "serialization/__init__.py", "utils/_tree_nodes.py", "utils/flop_counter.py",
    },
    "as long as something else lives": {
        "_bridge/compile/new_sizes.py", "_bridge/compile/watch/code_that_reads.py", "_core/arrays/summands.py",
        "_core/jax/running_transforms.py",
        "_engine/graph/saved.py", "_engine/passes/walk.py",
        "distributed/_composable/replicate.py", "distributed/_stores.py", "utils/data/_utils/signal_handling.py",
    },
    "emptied by hand when they are full": {
        "_bridge/vmap.py", "_engine/passes/segments.py", "autograd/_passes.py", "optim/_scalars.py",
    },
}  # fmt: skip
"""Files with dictionaries that start empty, or with functions that keep all of their results, and why they may."""


WITHOUT_LIMIT = re.compile(
    r"^\w+(: .*)? = (\{\}|dict\(\)|(collections\.)?defaultdict\(.*\))$|^@(functools\.)?cache$|^@.*maxsize=None",
    re.MULTILINE,
)


def test_no_module_has_a_cache_without_a_limit():
    found = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if WITHOUT_LIMIT.search(path.read_text())}
    allowed = set().union(*BOUNDED_BY_THEIR_KEYS.values())
    assert found - allowed == set(), "use torchgrad_jax._core.jax.caches"
    assert allowed - found == set(), "no longer there"


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        ("_CACHE = {}", True),
        ("_CACHE: dict[int, int] = {}", True),
        ("_TABLE = {1: 2}", False),
        ("@functools.cache\ndef f(x): pass", True),
        ("@functools.lru_cache(maxsize=None)\ndef f(x): pass", True),
        ("@functools.lru_cache(16)\ndef f(x): pass", False),
    ],
)
def test_caches_without_a_limit_are_recognized(source, is_one):
    assert bool(WITHOUT_LIMIT.search(source)) is is_one


def test_pools_know_all_of_their_caches():
    cache = KERNELS.cache()
    assert isinstance(cache, Cache)
    cache.put("entry", "value")
    torch.clear_caches()
    assert len(cache) == 0
