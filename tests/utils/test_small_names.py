"""Futures, streams, exchanged tensors, weak mappings, dtypes by name, names that packages import; against torch."""

import copy
import importlib
import io
import pickle
import threading
import weakref

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def part(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


# --- futures --------------------------------------------------------------------------------------


@program
def futures_that_are_done(m):
    futures = part(m, "futures")
    f = futures.Future()
    before = f.done()
    f.set_result(3)
    seen = []
    f.add_done_callback(lambda done: seen.append(done.value()))
    doubled = f.then(lambda done: done.wait() * 2)
    return (before, f.done(), f.wait(), f.value(), doubled.wait(), seen, complaint(lambda: f.set_result(4)))


@program
def futures_that_fail(m):
    futures = part(m, "futures")
    f, g = futures.Future(), futures.Future()
    f.set_exception(ValueError("a"))
    g.set_result(1)
    waits = (f.wait, f.value, lambda: futures.wait_all([g, f]), lambda: futures.collect_all([f, g]).wait())
    bad = futures.Future().set_exception
    return ([complaint(w) for w in waits], complaint(lambda: bad(3)), complaint(lambda: futures.Future(devices=[3])))


@program
def futures_in_chains(m):
    futures = part(m, "futures")
    f = futures.Future()
    g = f.then(lambda done: done.wait() + 1)
    both = futures.collect_all([f, g])
    worker = threading.Thread(target=lambda: f.set_result(5))
    worker.start()
    found = [x.wait() for x in both.wait()]
    worker.join()
    return (found, futures.wait_all([g, f]), m.Future is futures.Future or issubclass(futures.Future, m.Future))


def test_what_a_callback_raises_reaches_who_waits():
    f = tg.futures.Future()
    f.set_result(1)
    failing = f.then(lambda done: 1 / 0)
    with pytest.raises(RuntimeError, match="error when running the callback: ZeroDivisionError: division by zero"):
        failing.wait()


# --- streams --------------------------------------------------------------------------------------


@program
def streams_of_the_cpu(m):
    s, e = m.Stream(), m.Event("cpu")
    with s as inside:
        same = inside is s
    answers = [s.query(), s.synchronize(), s.wait_event(e), e.query(), e.synchronize(), e.wait(s), s == m.Stream("cpu")]
    refused = [complaint(fn) for fn in (s.record_event, lambda: s.wait_stream(s), e.record, lambda: e.elapsed_time(e))]
    return (same, answers, refused, repr(s), repr(m.Event(enable_timing=True)), str(s.device), s.stream_id)


@program
def modules_of_devices(m):
    names = [m.get_device_module(d).__name__.rpartition(".")[2] for d in ("cpu", "cuda", m.device("cpu"))]
    stream = m.cpu.current_stream()
    with m.cpu.stream(stream):
        stream.wait_stream(stream)
    return names, complaint(lambda: m.get_device_module("meta")), isinstance(stream, m.cpu.Stream)


# --- tensors --------------------------------------------------------------------------------------


@program
def tensors_exchanged(m):
    a, b = m.ones(2), m.zeros(3, 1, requires_grad=True)
    a.mark = 1
    m.utils.swap_tensors(a, b)
    p, q = m.nn.Parameter(m.ones(2)), m.zeros(3)
    m.utils.swap_tensors(p, q)
    v, w = m.arange(4.0)[1:], m.zeros(2)
    m.utils.swap_tensors(v, w)
    kinds = [isinstance(t, m.nn.Parameter) for t in (p, q)]
    return a, b, hasattr(a, "mark"), b.mark, kinds, p, q, v, w, w.storage_offset()


@program
def gradients_exchanged(m):
    x, z = m.ones(2, requires_grad=True), m.ones(2)
    x.grad = m.full((2,), 5.0)
    m.utils.swap_tensors(x, z)
    (z * 3).sum().backward()
    return x.grad, z.grad, x.requires_grad, z.requires_grad


@program
def exchanges_refused(m):
    class Slotted(m.Tensor):
        __slots__ = ("more",)

    a, b = m.ones(2), m.ones(2)
    held = weakref.ref(a)
    slotted = m.ones(2).as_subclass(Slotted)
    return (
        complaint(lambda: m.utils.swap_tensors(a, b)),
        complaint(lambda: m.utils.swap_tensors(b, slotted)),
        held() is a,
    )


@program
def members_exchanged(m):
    accessor = part(m, "nn.utils._named_member_accessor")
    net = m.nn.Linear(2, 3)
    net.register_buffer("mean", m.ones(1))
    net.more, net.number = m.ones(4), 3
    swapped = [accessor.swap_tensor(net, n, m.zeros(5)).shape for n in ("weight", "mean", "more")]
    now = [tuple(t.shape) for t in (net.weight, net.mean, net.more)]
    missing = accessor.swap_tensor(net, "new", m.ones(7), allow_missing=True)
    there = tuple(net.new.shape)
    accessor.swap_tensor(net, "new", missing)
    wrong = [
        complaint(lambda n=n, t=t: accessor.swap_tensor(net, n, t))
        for n, t in (("absent", m.ones(1)), ("number", m.ones(1)), ("weight", 3), ("a.b", m.ones(1)), ("", m.ones(1)))
    ]
    return [list(s) for s in swapped], now, there, hasattr(net, "new"), wrong


@program
def entries_of_weak_mappings_go_with_their_keys(m):
    table = part(m, "utils.weak").WeakIdKeyDictionary()
    key, other = m.ones(1), m.ones(1)
    table[key], table[other] = 1, 2
    seen = [len(table)]
    del key
    return [*seen, len(table), [*table.values()]]


@program
def weak_mappings(m):
    table = part(m, "utils.weak").WeakIdKeyDictionary()
    a, b = m.ones(2), m.ones(2)
    table[a], table[b] = "a", "b"
    before = [table[a], table[b], len(table), a in table, sorted(table.values())]
    del b
    table[a] = "c"
    after = [len(table), next(iter(table.items()))[1], m.ones(2) in table, 3 in table]
    return before, after, table.pop(a), len(table)


@program
def assertions_and_shapes(m):
    calls = [
        lambda: m._assert_async(m.tensor(True), "a"),
        lambda: m._assert_async(m.tensor(False), "a"),
        lambda: m._assert_async(m.tensor(0)),
        lambda: m._assert_async(m.tensor([1, 2])),
    ]
    kinds = [m._has_compatible_shallow_copy_type(m.ones(2), m.ones(3, device=d)) for d in ("cpu", "meta")]
    return [complaint(c) for c in calls], m._shape_as_tensor(m.ones(2, 3)), kinds


@program
def numpy_of_what_requires_a_gradient(m):
    x = m.ones(2, requires_grad=True)
    with m.no_grad():
        quiet = [x.numpy().tolist(), x.view(-1).numpy().tolist()]
        view = x.view(-1)
    with m.inference_mode():
        quiet.append(x.numpy().tolist())
    return quiet, [complaint(t.numpy) for t in (x, view)], x.numpy(force=True).tolist()


# --- dtypes ---------------------------------------------------------------------------------------


@program
def dtypes_by_name(m):
    named = [m.complex32, m.qint8, m.quint8, m.qint32, m.uint4, m.int3, m.quint4x2, m.float4_e2m1fn_x2]
    return [
        [repr(d), d.itemsize, d.is_complex, d.is_floating_point, isinstance(d, m.dtype), d == m.float32] for d in named
    ], [
        m.chalf is m.complex32,
        repr(m.complex32.to_real()),
        pickle.loads(pickle.dumps(m.qint8)) is m.qint8,
        copy.deepcopy(m.complex32) is m.complex32,
        m.ones(1).dtype == m.complex32,
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda d: tg.zeros(2, dtype=d),
        lambda d: tg.ones(2).to(d),
        lambda d: tg.tensor(1.0, dtype=d),
        lambda d: tg.promote_types(d, tg.float32),
        lambda d: tg.ones(2).type(d),
    ],
)
@pytest.mark.parametrize("name", ["complex32", "qint8", "uint4"])
def test_no_tensor_has_a_dtype_by_name(name, make):
    with pytest.raises(NotImplementedError, match=f"torch.{name}.* not supported"):
        make(getattr(tg, name))


# --- transforms and overrides ---------------------------------------------------------------------


@program
def questions_inside_of_transforms(m):
    inside = m._C._functorch.is_batchedtensor
    active = m._C._are_functorch_transforms_active
    x = m.arange(3.0)
    return (
        inside(x),
        m.vmap(lambda r: r * (2 if inside(r) else 3))(x),
        active(),
        m.vmap(lambda r: r * (2 if active() else 3))(x),
        m.func.grad(lambda r: r.sum() * (2 if active() else 3))(x),
    )


@program
def einsum_is_seen_with_its_operands_in_a_row(m):
    class Seen(m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append([func.__name__, len(args), [type(a).__name__ for a in args]])
            return 0

    seen = []
    x = m.ones(2).as_subclass(Seen)
    m.einsum("i,i->", [x, x])
    m.einsum("i,i->", x, x)
    return seen


@program
def trees(m):
    tree = m.utils._pytree
    pair = [1, {"a": (2, 3)}]
    return [
        tree.tree_is_leaf(3),
        tree.tree_is_leaf([3]),
        tree._broadcast_to_and_flatten([1, 2], tree.tree_flatten(pair)[1]),
        tree._broadcast_to_and_flatten([1, 2, 3], tree.tree_flatten(pair)[1]),
        list in tree.SUPPORTED_NODES,
        tree._dict_flatten({"a": 1})[0],
        list(tree._list_flatten([1, 2])[0]),
        tree._get_node_type([1]) is list,
    ]


def test_what_needs_several_processes_says_so():
    distributed = part(tg, "distributed.optim")
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        distributed.ZeroRedundancyOptimizer([tg.ones(1)], tg.optim.SGD)
    with pytest.raises(NotImplementedError, match="it steps parameters in other processes"):
        distributed.DistributedOptimizer(tg.optim.SGD, [])
    with pytest.raises(NotImplementedError, match="Shard the batch"):
        part(tg, "nn.parallel.scatter_gather").scatter(tg.ones(2), [0, 1])


@program
def checkpoints_without_their_data(m):
    skip, file = part(m, "serialization").skip_data, io.BytesIO()
    with skip():
        m.save({"a": m.ones(2, 3), "b": m.arange(3)}, file)
    file.seek(0)
    empty = m.load(file)
    file = io.BytesIO()
    m.save(m.ones(3), file)
    file.seek(0)
    with skip():
        shape = m.load(file).shape
    file.seek(0)
    return empty, shape, m.load(file)


@program
def what_writers_of_modes_and_hooks_ask(m):
    modes = part(m, "utils._mode_utils")
    hooks = part(m, "nn.modules.module")._global_forward_hooks_always_called
    with modes.no_dispatch():
        return modes.all_same_mode([1, 1]), modes.all_same_mode([1, 2]), len(hooks)


# --- weak references ------------------------------------------------------------------------------


@program
def weak_mappings_of_tensors(m):
    weak = part(m, "utils.weak")
    a, b = m.ones(2), m.ones(2)
    d = weak.WeakTensorKeyDictionary({a: [1]})
    same, deep, shallow = weak.WeakTensorKeyDictionary({a: [1]}), copy.deepcopy(d), copy.copy(d)
    joined, other = d | {b: 2}, {b: 3} | d
    d |= {b: [4]}
    seen = [
        deep[a] is d[a], deep[a], shallow[a] is d[a], shallow == same, d == same, d != {a: [1], b: [4]}, d == 3,
        len(joined), joined[b], other[b], type(joined).__name__, len(deep), len(shallow), a in d, 3 in d,
    ]  # fmt: skip
    del a
    return seen, [len(x) for x in (d, deep, shallow, joined, same)], [v for _, v in d.items()]


@program
def weak_references_to_tensors(m):
    t = m.ones(2)
    known, expired = part(m, "utils.weak").TensorWeakRef(t), m._C._WeakTensorRef(t)
    before = known() is t, expired.expired()
    del t
    return before, known(), expired.expired(), complaint(lambda: part(m, "utils.weak").TensorWeakRef(3))[0]


# --- helpers of transforms ------------------------------------------------------------------------


@program
def transforms_under_older_names(m):
    eager, apis = part(m, "_functorch.eager_transforms"), part(m, "_functorch.apis")
    modules, norms = part(m, "_functorch.functional_call"), part(m, "_functorch.batch_norm_replacement")
    x = m.tensor([0.5, 2.0])
    net = m.nn.Linear(2, 1, bias=False)
    return [
        [getattr(eager, n) is getattr(m.func, n) for n in ("vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize")],
        eager.jacrev(m.sin)(x), apis.vmap(m.sin)(x), apis.grad(lambda t: t.sum())(x),
        modules.functional_call(net, {"weight": m.ones(1, 2)}, x), norms.replace_all_batch_norm_modules_.__name__,
    ]  # fmt: skip


@program
def helpers_of_transforms(m):
    eager, vmap = part(m, "_functorch.eager_transforms"), part(m, "_functorch.vmap")
    args = ("a", "b", "c")
    z = m.ones(1, dtype=m.complex64)
    return [
        eager._as_tuple(3), eager._as_tuple((3, 4)),
        [eager._slice_argnums(args, n, as_tuple=t) for n in (1, -1, (0, 2)) for t in (True, False)],
        [complaint(lambda n=n: eager._slice_argnums(args, n)) for n in ((), (1, 1), 3, -4)],
        complaint(lambda: eager.error_if_complex("jacrev", [m.ones(1), {"z": z}], is_input=False)),
        eager.error_if_complex("jacrev", m.ones(1), is_input=True),
        [vmap._num_outputs(o) for o in (1, (), (1, 2))], vmap._as_tuple(1, 3, str), vmap._as_tuple((1, 2), 2, str),
        complaint(lambda: vmap._as_tuple((1, 2), 3, lambda: "three are wanted")),
        [vmap.get_chunk_sizes(n, k) for n, k in ((7, 3), (6, 3), (2, 3), (0, 3))],
        vmap._check_randomness_arg("same"), complaint(lambda: vmap._check_randomness_arg("none")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("vmap", n) for n in ("restore_vmap", "wrap_batched", "unwrap_batched", "_flat_vmap", "vmap_impl")),
        *(("eager_transforms", n) for n in ("_create_differentiable", "_wrap_tensor_for_grad", "grad_impl")),
    ],
)
def test_what_wraps_tensors_can_be_replaced_and_refuses(module, name, monkeypatch):
    home = part(tg, f"_functorch.{module}")
    with pytest.raises(NotImplementedError, match=f"{name}: tensors are not wrapped"):
        getattr(home, name)(tg.ones(1), 1)
    monkeypatch.setattr(home, name, len)
    assert getattr(home, name)([1]) == 1


@program
def flags_of_backends(m):
    return m.backends.flags_frozen()


@program
def tolerances_of_comparisons(m):
    get, default = m.testing._comparison.get_tolerances, m.testing._comparison.default_tolerances
    x, h = m.ones(1), m.ones(1, dtype=m.float16)
    return [
        get(x, h, rtol=None, atol=None), get(m.float64, rtol=None, atol=None), get(m.int64, rtol=None, atol=None),
        get(x, rtol=0.5, atol=0), get(rtol=0.5, atol=0.25), get(m.bfloat16, m.complex64, rtol=None, atol=None, id=(1,)),
        default(x, m.complex128), default(x, h, dtype_precisions={m.float16: (1.0, 2.0)}),
        complaint(lambda: default(3))[0],
        complaint(lambda: m.testing.assert_close(x, x, rtol=1.0)),
    ]  # fmt: skip


def test_only_one_tolerance_is_refused():
    for given in ({"rtol": 1.0, "atol": None}, {"rtol": None, "atol": 0.0}):
        with pytest.raises(ValueError, match="must be either specified or omitted"):
            tg.testing._comparison.get_tolerances(tg.ones(1), **given)
