"""Process groups of one process, as torch's with gloo."""

import importlib.metadata
import os
from contextlib import contextmanager
from datetime import timedelta

import jax
import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


@contextmanager
def alone(m):
    m.distributed.init_process_group("gloo", rank=0, world_size=1, store=m.distributed.HashStore())
    try:
        yield m.distributed
    finally:
        m.distributed.destroy_process_group()


@program
def before_there_is_a_group(m):
    d = m.distributed
    asks = (
        d.get_rank,
        d.get_world_size,
        d.get_backend,
        d.barrier,
        d.new_group,
        d.destroy_process_group,
        lambda: d.all_reduce(m.ones(2)),
        lambda: d.broadcast(m.ones(2), 0),
    )
    return d.is_initialized(), [complaint(ask) for ask in asks]


@program
def how_a_group_is_asked_for(m):
    d = m.distributed
    asks = (
        lambda: d.init_process_group("gloo"),
        lambda: d.init_process_group("gloo", init_method="bar://x", rank=0, world_size=1),
        lambda: d.init_process_group("gloo", init_method="tcp://127.0.0.1:29511", world_size=1),
        lambda: d.init_process_group("gloo", rank=0, world_size=1),
        lambda: d.Backend(3),
    )
    return [complaint(ask) for ask in asks], [
        d.Backend("GLOO"),
        d.Backend.NCCL,
        [name for name in d.Backend.backend_list if name != "xla"],  # torch_xla's, in torch
    ]


@program
def what_a_group_says(m):
    with alone(m) as d:
        g = d.new_group([0])
        found = [
            d.is_initialized(),
            d.get_rank(),
            d.get_world_size(),
            d.get_backend(),
            d.get_rank(g),
            d.get_world_size(g),
            d.get_process_group_ranks(g),
            d.get_group_rank(g, 0),
            d.get_global_rank(g, 0),
            g.size(),
            g.rank(),
            g.name(),
            d.GroupMember.NON_GROUP_MEMBER,
            d.get_default_backend_for_device("cpu"),
            str(d.default_pg_timeout),
        ]
        twice = {"rank": 0, "world_size": 1, "store": d.HashStore()}
        asks = (lambda: d.new_group([1]), lambda: d.new_group([0, 1]), lambda: d.init_process_group("gloo", **twice))
        wrong = [complaint(ask) for ask in asks]
    return found, wrong, d.is_initialized(), str(d.ReduceOp.SUM), d.ReduceOp.MAX == d.ReduceOp.MAX


@program
def tensors_of_one_process(m):
    with alone(m) as d:
        x = m.arange(3.0)
        done = [
            d.all_reduce(x),
            d.all_reduce(x, op=d.ReduceOp.MAX),
            x._version,
            d.broadcast(x, 0),
            d.reduce(x, 0),
            d.barrier(),
            x._version,
            d.all_reduce(x, op=d.ReduceOp.AVG),
            x._version,
        ]
        outs = [m.zeros(3) for _ in range(7)]
        d.all_gather([outs[0]], x)
        d.all_gather_into_tensor(outs[1], x)
        d.reduce_scatter(outs[2], [x])
        d.reduce_scatter_tensor(outs[3], x)
        d.all_to_all_single(outs[4], x)
        d.gather(x, [outs[5]], 0)
        d.scatter(outs[6], [x], 0)
        work = d.all_reduce(x, async_op=True)
        waited = work.wait(), work.get_future().wait()
        p = m.ones(2, requires_grad=True)
        d.all_reduce(p)
    return done, x, outs, outs[0]._version, waited, p._version


@program
def objects_of_one_process(m):
    with alone(m) as d:
        lists = [[None], [{"b": 2}], [None], [None]]
        sent = {"a": [1]}
        d.all_gather_object(lists[0], sent)
        d.broadcast_object_list(lists[1], 0)
        d.gather_object(3, lists[2])
        d.scatter_object_list(lists[3], [5], 0)
    return lists, lists[0][0] is sent


@program
def what_does_not_fit_is_refused(m):
    with alone(m) as d:
        x = m.arange(3.0)
        asks = (
            lambda: d.broadcast(x, 1),
            lambda: d.all_gather([m.zeros(3), m.zeros(3)], x),
            lambda: d.all_gather([], x),
            lambda: d.all_gather([m.zeros(2)], x),
            lambda: d.all_gather([m.zeros(3).int()], x),
            lambda: d.gather(x),
            lambda: d.scatter(x),
            lambda: d.all_reduce(m.ones(2).cfloat(), op=d.ReduceOp.MAX),
        )
        kinds = [complaint(lambda: d.all_reduce(3))[0], complaint(lambda: d.all_gather(x, x))[0]]
        return [complaint(ask) for ask in asks], kinds


@program
def a_module_trained_by_one_process(m):
    m.manual_seed(0)
    layer = m.nn.Linear(2, 2)
    frozen = m.nn.Linear(2, 2).requires_grad_(False)
    wrap = m.nn.parallel.DistributedDataParallel
    found = [complaint(lambda: wrap(layer))]
    with alone(m):
        wrapped = wrap(layer)
        found.append(complaint(lambda: wrap(frozen)))
        with wrapped.no_sync():
            found.append(wrapped.require_backward_grad_sync)
        wrapped(m.ones(1, 2)).sum().backward()
        found += [sorted(wrapped.state_dict()), wrapped.module is layer]
        del wrapped  # torch's may wait forever for its group if that goes first
    return found, layer.weight.grad


@program
def which_samples_are_mine(m):
    sampler = m.utils.data.distributed.DistributedSampler
    data = list(range(5))
    found = [complaint(lambda: sampler(data, rank=0)), complaint(lambda: sampler(data, num_replicas=1))]
    with alone(m):
        mine = sampler(data, shuffle=False)
    return found, list(mine), mine.rank, mine.num_replicas


@program
def sums_with_gradients(m):
    from_one = __import__(f"{m.__name__}.distributed.nn.functional", fromlist=["all_reduce"])
    x = m.arange(3.0, requires_grad=True)
    with alone(m):
        y = from_one.all_reduce(x)
        (z,) = from_one.all_gather(x)
        w = from_one.broadcast(x, 0)
        (y * 2 + z * 3 + w).sum().backward()
        rest = (
            from_one.reduce(x, 0),
            *from_one.gather(x),
            from_one.scatter([x]),
            from_one.reduce_scatter(m.zeros(3), [x]),
            *from_one.all_to_all([m.zeros(3)], [x]),
            from_one.all_to_all_single(m.zeros(3), x),
        )
    names = [type(r.grad_fn).__name__ for r in (y, z, *rest)]
    return y, z, w, [r.tolist() for r in rest], names, x.grad


def test_the_environment_says_who_is_there(monkeypatch):
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "0")):
        monkeypatch.setenv(name, value)
    tg.distributed.init_process_group("gloo")
    assert tg.distributed.get_rank() == 0
    tg.distributed.destroy_process_group()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="rank 1 of 2 did not arrive within"):
        tg.distributed.init_process_group("gloo", timeout=timedelta(seconds=0.3))
    assert not tg.distributed.is_initialized()


def test_a_rank_that_is_not_there():
    with pytest.raises(RuntimeError, match="rank < size"):
        tg.distributed.init_process_group("gloo", rank=1, world_size=1, store=tg.distributed.HashStore())


@pytest.mark.parametrize(
    "backend, error, text",
    [("nccl", RuntimeError, "doesn't have NCCL built in"), ("foo", AssertionError, "Unknown backend type foo")],
)
def test_backends_that_are_not_there(backend, error, text):
    with pytest.raises(error, match=text):
        tg.distributed.init_process_group(backend, rank=0, world_size=1, store=tg.distributed.HashStore())


def test_nobody_to_send_to():
    with alone(tg) as d:
        for call in (d.send, d.recv, d.isend, d.irecv):
            with pytest.raises(ValueError, match="should not be the same as the rank"):
                call(tg.ones(1), 0)


def test_a_store_of_this_process():
    store = tg.distributed.HashStore()
    store.set("a", "b")
    assert store.get("a") == b"b"
    assert [store.add("n", 2), store.add("n", 3)] == [2, 5]
    assert store.check(["a", "n"])
    assert not store.check(["a", "z"])
    assert [store.num_keys(), store.delete_key("a"), store.delete_key("a")] == [2, True, False]
    with pytest.raises(RuntimeError, match="wait timeout after 10ms, keys: /z"):
        store.wait(["z"], timedelta(seconds=0.01))


def test_a_store_keeps_no_numbers(tmp_path):
    for store in (tg.distributed.HashStore(), tg.distributed.FileStore(str(tmp_path / "file"), 1)):
        store.set("a", "b")
        with pytest.raises(TypeError, match="keeps str and bytes"):
            store.set("n", 5)  # pyright: ignore[reportArgumentType]
        with pytest.raises(ValueError, match="invalid literal"):
            store.add("a", 1)
        assert [store.get("a"), store.num_keys()] == [b"b", 1]  # others can go on reading the file
        assert store.clone().get("a") == b"b"


def test_a_store_with_missing_processes_says_how_many():
    with pytest.raises(RuntimeError, match="1/2 clients joined"):
        tg.distributed.TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=0.05))


@pytest.mark.parametrize(
    ("platforms", "plugins", "there"),
    [
        ("", [], False),
        ("", ["xla_cuda13"], True),
        ("", ["xla_rocm7"], True),
        ("cpu", ["xla_cuda13"], False),
        ("cuda,cpu", [], True),
    ],
)
def test_nccl_is_there_where_jax_has_gpus(monkeypatch, platforms, plugins, there):
    named = [importlib.metadata.EntryPoint(name, "", "jax_plugins") for name in plugins]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: named)
    monkeypatch.setattr(os.path, "exists", lambda path: path.startswith("/dev/"))
    before = jax.config.jax_platforms
    jax.config.update("jax_platforms", platforms)
    d = tg.distributed
    try:
        assert [d.is_nccl_available(), d.is_backend_available("NCCL")] == [there, there]
        if there:
            d.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1, store=d.HashStore())
            assert d.get_backend() == "cpu:gloo,cuda:nccl"
            d.destroy_process_group()
    finally:
        jax.config.update("jax_platforms", before)


def test_several_devices_are_refused():
    with alone(tg), pytest.raises(NotImplementedError, match=r"jax\.sharding"):
        tg.nn.parallel.DistributedDataParallel(tg.nn.Linear(1, 1), device_ids=[0, 1])


def test_the_rank_on_this_machine(monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert tg.distributed.get_node_local_rank(2) == 2
    with pytest.raises(RuntimeError, match="LOCAL_RANK is not in the environment"):
        tg.distributed.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert tg.distributed.get_node_local_rank() == 3
