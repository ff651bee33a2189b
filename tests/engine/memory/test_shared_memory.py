"""Tensors and NumPy arrays on one memory: each side sees what the other writes, as in torch."""

import copy
import ctypes
import gc
import pickle
import tempfile
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint
from torchgrad_jax._core.arrays import placement
from torchgrad_jax._engine.memory import shared, shared_values

program = Programs()
test_same_as_torch = program.test()

DTYPES = (
    "float32",
    "float64",
    "float16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "complex128",
)
SIZES = (1, 4, 1000, 20_000, 1_000_000)
WAYS = {
    "from_numpy": lambda m, n: m.from_numpy(n),
    "as_tensor": lambda m, n: m.as_tensor(n),
    "asarray": lambda m, n: m.asarray(n),
    "from_dlpack": lambda m, n: m.from_dlpack(n),
    "frombuffer": lambda m, n: m.frombuffer(n, dtype=getattr(m, n.dtype.name)),
}
BACK = {
    "numpy": lambda t: t.numpy(),
    "force": lambda t: t.numpy(force=True),
    "asarray": np.asarray,
    "__array__": lambda t: t.__array__(),
    "detach": lambda t: t.detach().numpy(),
    "data": lambda t: t.data.numpy(),
    "storage": lambda t: t.view(t.shape).numpy(),
}
if np.from_dlpack(np.zeros(1)).flags.writeable:  # NumPy 2.0 gives what it gets so for reading alone
    BACK["from_dlpack"] = np.from_dlpack


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_a_tensor_on_an_array_is_that_memory(way, size):
    n = np.zeros(size, np.float32)
    t = WAYS[way](tg, n)
    n[0] = 1
    assert t[0].item() == 1
    t.add_(1)
    assert n[0] == 2
    assert n[-1] == (2 if size == 1 else 1)
    n[-1] = 5
    assert t.max().item() == 5
    assert t.data_ptr() == n.ctypes.data


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("back", BACK)
def test_an_array_of_a_tensor_is_its_memory(back, size):
    t = tg.zeros(size)
    n = BACK[back](t)
    n[0] = 3
    assert t.sum().item() == 3
    t.mul_(2)
    assert n[0] == 6
    again = BACK[back](t)
    assert np.shares_memory(n, again)
    again[-1] = 1
    assert t[-1].item() == n[-1] == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_dtype_is_shared(dtype):
    n = np.zeros(5, dtype)
    t = tg.from_numpy(n)
    n[2] = 1
    assert t.tolist() == n.tolist()
    t[3] = 1
    assert n.tolist() == t.tolist()
    back = t.clone().numpy()
    assert back.dtype == n.dtype
    mine = tg.zeros(2, 5, dtype=t.dtype)
    mine.numpy()[:, 1] = 1
    assert mine.sum().item() == 2


VIEWS = {
    "rows": lambda a: a[1:],
    "columns": lambda a: a[:, 1::2],
    "transposed": lambda a: a.T,
    "one": lambda a: a[2, 3],
    "row": lambda a: a[1],
    "flat": lambda a: a.reshape(-1),
    "last": lambda a: a[2:, 4:],
}


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8"])
@pytest.mark.parametrize("view", VIEWS)
def test_views_of_either_side_share(view, dtype):
    whole = np.zeros((3, 5), dtype)
    part = VIEWS[view](whole)
    if isinstance(part, np.ndarray):
        t = tg.from_numpy(part)
        t.fill_(2)
        assert whole.sum() == 2 * part.size
        whole[...] = 3
        assert t.sum().item() == 3 * part.size
    t = tg.zeros(3, 5, dtype=getattr(tg, dtype))
    seen = VIEWS[view](t)
    n = seen.numpy()
    n[...] = 2
    assert t.sum().item() == 2 * n.size
    seen.fill_(1)
    assert n.sum() == n.size
    t.zero_()
    assert not n.any()


@program
def strides_of_both(m):
    a = np.arange(24.0).reshape(2, 3, 4)
    found = []
    for n in (a, a.T, a[:, ::2], a[1, 1:, 1::3], a[None], a.transpose(1, 0, 2), a[:0], np.asfortranarray(a)):
        t = m.from_numpy(n)
        found.append(
            (tuple(t.shape), t.stride(), t.storage_offset(), t.numpy().strides if n.size else None, t.tolist())
        )
    t = m.from_numpy(np.broadcast_to(np.array([1.0, 2.0]), (3, 2)).copy().T)
    return found, t.numpy().strides, m.zeros(3).expand(2, 3).numpy().strides


@program
def refused(m):
    a = np.zeros(4)
    w = m.ones(2, requires_grad=True)
    half = m.ones(2, dtype=m.bfloat16)
    c = m.complex(m.ones(2), m.ones(2))
    return [
        complaint(f)
        for f in (
            lambda: m.from_numpy(a[::-1]),
            lambda: m.as_tensor(a[::-1]),
            lambda: m.from_numpy(np.zeros(3, ">f4")),
            lambda: m.from_numpy(np.float32(3)),
            lambda: w.numpy(),
            lambda: np.asarray(w),
            lambda: np.from_dlpack(w),
            lambda: half.numpy(),
            lambda: c.conj().numpy(),
            lambda: c.conj().imag.numpy(),
            lambda: (w * 2).detach().numpy().sum() and None,
        )
    ]


@program
def resizing(m):
    x = m.zeros(4)
    n = x.numpy()
    y = m.from_numpy(n)
    small = m.from_numpy(a := np.arange(4.0)).resize_(2)
    small += 1
    return (
        complaint(lambda: x.resize_(8)),
        complaint(lambda: y.resize_(8)),
        complaint(lambda: x.untyped_storage().resize_(0)),
        x.untyped_storage().resizable(),
        small.tolist(),
        a.tolist(),
    )


@program
def capsules(m):
    found = []
    for t in (m.arange(4.0), m.arange(6).view(2, 3).T, m.ones(2, 2, dtype=m.bool), m.zeros(3, 0)):
        capsule = m.utils.dlpack.to_dlpack(t)
        other = m.from_dlpack(capsule)
        other[1:] = 0
        t[:1] = 9
        again = complaint(lambda c=capsule: m.from_dlpack(c))
        found.append((t.tolist(), other.tolist(), other.stride(), again))
    half = m.from_dlpack(m.utils.dlpack.to_dlpack(m.ones(2, dtype=m.bfloat16)))
    return found, str(half.dtype), half.tolist()


@program
def parameters(m):
    m.manual_seed(0)
    layer = m.nn.Linear(2, 2)
    layer.weight.data.numpy()[:] = 5
    n = layer.weight.detach().numpy()
    with m.no_grad():
        inside = layer.weight.numpy()
        inside += 1
        layer.weight.mul_(2)
    return layer.weight.tolist(), n.tolist(), layer.weight.requires_grad, layer.weight._version


OPTIMIZERS = {
    "SGD": {"momentum": 0.9},
    "Adam": {},
    "AdamW": {},
    "Adagrad": {},
    "RMSprop": {},
    "NAdam": {},
    "Adadelta": {},
    "Rprop": {},
}


@program
def optimizers(m):
    found = []
    for name, options in OPTIMIZERS.items():
        p = m.nn.Parameter(m.ones(3))
        n = p.detach().numpy()
        opt = getattr(m.optim, name)([p], lr=0.1, **options)
        for i in range(3):
            opt.zero_grad()
            (p * p).sum().backward()
            opt.step()
            found.append((name, n.tolist()))
            n[i] = 2
    return found


@program
def in_place_ops(m):
    found = []
    for name, args in (
        ("add_", (1,)),
        ("mul_", (2,)),
        ("fill_", (3,)),
        ("zero_", ()),
        ("copy_", (m.arange(6.0),)),
        ("clamp_", (1, 2)),
        ("exp_", ()),
        ("index_fill_", (0, m.tensor([1, 2]), 7.0)),
        ("masked_fill_", (m.arange(6) > 3, 9.0)),
        ("scatter_", (0, m.tensor([0, 5]), m.tensor([1.0, 2.0]))),
        ("addcmul_", (m.ones(6), m.ones(6))),
        ("neg_", ()),
        ("cumsum_", (0,)),
        ("swap", ()),
    ):
        n = np.arange(6, dtype=np.float32)
        t = m.from_numpy(n)
        if name == "swap":
            t[:3], t[3:] = t[3:].clone(), t[:3].clone()
        else:
            getattr(t, name)(*args)
        found.append((name, n.tolist(), t.tolist()))
        out = m.from_numpy(np.zeros(6, np.float32))
        seen = out.numpy()
        m.add(t, t, out=out)
        found.append(seen.tolist())
    return found


@program
def in_place_with_a_graph(m):
    w = m.ones(3, requires_grad=True)
    y = w * 2
    n = y.detach().numpy()
    y.mul_(3)
    y[0] = 1
    y.sum().backward()
    return n.tolist(), w.grad.tolist()


@program
def gradients_are_shared_too(m):
    w = m.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    n = w.grad.numpy()
    (w * 2).sum().backward()
    n[0] = 0
    first = w.grad.tolist(), n.tolist()
    w.grad.zero_()
    return first, n.tolist()


@program
def modes(m):
    with m.inference_mode():
        t = m.from_numpy(n := np.zeros(3))
        t += 1
        x = m.ones(2)
        x.numpy()[:] = 4
    return n.tolist(), x.tolist(), t.is_inference()


@program
def buffers(m):
    b = bytearray(16)
    t = m.frombuffer(b, dtype=m.float32)
    part = m.frombuffer(b, dtype=m.uint8, count=4, offset=4)
    t.fill_(1.0)
    b[8:12] = b"\0\0\0\0"
    return t.tolist(), part.tolist(), list(b)


@program
def overlapping_arrays(m):
    n = np.arange(6.0)
    a, b, whole = m.from_numpy(n[:4]), m.from_numpy(n[2:]), m.from_numpy(n)
    a.add_(1)
    b.mul_(2)
    n = None
    whole[3] = 100
    return a.tolist(), b.tolist(), whole.tolist()


@program
def older_constructors(m):
    n, wide, i = np.zeros(3, np.float32), np.zeros(3), np.arange(3)
    same = [m.Tensor(n), m.FloatTensor(n), m.zeros(1).new(n), m.LongTensor(i), m.DoubleTensor(wide)]
    others = [m.Tensor(wide), m.Tensor(i), m.LongTensor(wide), m.zeros(1).new_tensor(n)]
    n[0] = wide[0] = i[0] = 5
    same[0][1] = 7
    return [t.tolist() for t in (*same, *others)], n.tolist(), complaint(lambda: m.Tensor(n[::-1]))


@program
def written_by_other_ways(m):
    x = m.zeros(6)
    n = x.numpy()
    memoryview(n)[1] = 5.0  # type: ignore[call-overload]
    (ctypes.c_float * 6).from_address(x.data_ptr())[2] = 4.0
    n[3:].sort()
    np.add.at(n, [0, 0], 1)
    np.copyto(n[4:], 3)
    n.shape = (2, 3)
    n[1, 0] = 8
    n.view(np.int32)[1, 1] = 0x3F800000
    x.untyped_storage()[20:24] = 0
    return x.tolist(), n.tolist(), [[x.untyped_storage()[k] for k in (2, 3)]]


@program
def files(m):
    with tempfile.NamedTemporaryFile() as file:
        n = np.memmap(file.name, np.int16, "w+", shape=(4, 4))
        t = m.from_numpy(n[1:3, ::2])
        t += 1
        n.flush()
        written = np.fromfile(file.name, np.int16).tolist()
        n[1, 0] = 7
        return written, t.tolist()


@program
def copies_do_not_share(m):
    n = np.zeros(3)
    t = m.from_numpy(n)
    others = [
        t.clone(),
        m.tensor(n),
        t.to(m.float32),
        copy.deepcopy(t),
        pickle.loads(pickle.dumps(t)),
        t + 0,
        m.asarray(n, copy=True),
    ]
    kept = [np.array(t), t.tolist()]
    n[:] = 1
    return [o.tolist() for o in others], [np.asarray(k).tolist() for k in kept], t.tolist()


@program
def versions(m):
    t = m.from_numpy(n := np.zeros(3))
    n += 1
    before = t._version
    t += 1
    return before, t._version


@program
def other_dtype_and_bits(m):
    c = m.zeros(2, dtype=m.complex64)
    n = c.numpy()
    m.view_as_real(c)[0, 1] = 5
    c.imag[1] = 2
    bits = m.zeros(2).view(m.int32)
    bits.numpy()[:] = 0x3F800000
    return n.tolist(), bits.view(m.float32).tolist()


@program
def nan_and_signed_zero(m):
    n = np.array([0.0, np.nan])
    t = m.from_numpy(n)
    first = (1 / t).tolist()
    n[0] = -0.0
    return first[0], (1 / t)[0].item(), m.isnan(t).tolist()


def test_values_saved_for_backward_are_those_of_the_forward():
    """torch reads what NumPy wrote in between, and says nothing."""
    for size in (3, 20_000):
        for kept in ("input", "output", "before"):
            v = tg.ones(size, dtype=tg.float64, requires_grad=True)
            if kept == "input":
                n = np.ones(size)
                z = tg.from_numpy(n) * v
            elif kept == "output":
                z = v.exp().mul(1)
                n = None
            else:
                x = tg.ones(size, dtype=tg.float64)
                z = x * v
                n = x.numpy()
            if n is not None:
                n[:] = 9
            z.sum().backward()
            want = np.e if kept == "output" else 1.0
            np.testing.assert_allclose(v.grad.numpy(), np.full(size, want))


def test_saved_results_and_second_derivatives():
    v = tg.ones(3, dtype=tg.float64, requires_grad=True)
    y = v.exp()
    n = y.detach().numpy()
    n[:] = 0
    y.sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), np.full(3, np.e))
    c = np.full(3, 2.0)
    v = tg.ones(3, dtype=tg.float64, requires_grad=True)
    z = (v * v * tg.from_numpy(c)).sum()
    c[:] = 100
    (g,) = tg.autograd.grad(z, v, create_graph=True)
    assert g.tolist() == [4.0] * 3
    g.sum().backward()
    assert v.grad.tolist() == [4.0] * 3


def test_a_write_of_a_tensor_is_counted():
    n = np.ones(3)
    t = tg.from_numpy(n)
    v = tg.ones(3, dtype=tg.float64, requires_grad=True)
    z = (t * v).sum()
    t.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_saved_tensor_of_a_function_is_the_one_of_the_forward():
    class Times(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x, c):
            ctx.save_for_backward(c)
            return x * c

        @staticmethod
        def backward(ctx, g):
            (c,) = ctx.saved_tensors
            return g * c, None

    n = np.ones(3)
    v = tg.ones(3, dtype=tg.float64, requires_grad=True)
    z = Times.apply(v, tg.from_numpy(n)).sum()
    n[:] = 5
    z.backward()
    assert v.grad.tolist() == [1.0] * 3


@pytest.mark.parametrize("size", [3, 20_000])
def test_compiled_steps_read_and_write_the_memory(size):
    @tg.compile
    def step(x, w):
        x.mul_(2)
        w.add_(x)
        return x + 1

    n, w = np.ones(size, np.float32), tg.zeros(size)
    x, seen = tg.from_numpy(n), w.numpy()
    for i in range(4):
        before, sum_before = n.copy(), seen.copy()
        out = step(x, w)
        np.testing.assert_array_equal(n, 2 * before)
        np.testing.assert_array_equal(seen, sum_before + n)
        np.testing.assert_array_equal(out.numpy(), n + 1)
        n[0] += i
        seen[-1] = i


def test_compiled_training_steps_write_to_shared_parameters():
    def run(wrap):
        p = tg.nn.Parameter(tg.ones(3))
        n = p.detach().numpy()
        opt = tg.optim.SGD([p], 0.1, momentum=0.9)

        def step():
            opt.zero_grad()
            loss = (p * p).sum()
            loss.backward()
            opt.step()
            return loss.detach()

        step, found = wrap(step), []
        for i in range(5):
            found.append((step().item(), n.tolist()))
            n[i % 3] = 2
        return found

    assert np.allclose(
        [x for loss, n in run(tg.compile) for x in (loss, *n)], [x for loss, n in run(lambda f: f) for x in (loss, *n)]
    )


def test_a_function_compiled_with_a_closed_over_array_sees_its_memory():
    n = np.ones(3, np.float32)
    t = tg.from_numpy(n)
    step = tg.compile(lambda x: x * t)
    assert step(tg.ones(3)).tolist() == [1.0] * 3
    n[1] = 4
    assert step(tg.ones(3)).tolist() == [1.0, 4.0, 1.0]


def test_vmap_reads_the_memory():
    n = np.arange(6.0).reshape(2, 3)
    t, c = tg.from_numpy(n), tg.from_numpy(k := np.ones(3))
    double = tg.vmap(lambda row: row * c)
    n[0] = 1
    k[0] = 2
    assert double(t).tolist() == [[2.0, 1.0, 1.0], [6.0, 4.0, 5.0]]
    tg.vmap(lambda row: row.mul_(2))(t)
    assert n.tolist() == [[2.0, 2.0, 2.0], [6.0, 8.0, 10.0]]
    with pytest.raises(RuntimeError):
        tg.vmap(lambda row: row.numpy())(t)
    assert tg.func.grad(lambda x: (x * x).sum())(t).tolist() == (2 * n).tolist()


def test_jax_functions_get_values_that_stay():
    n = np.ones(3, np.float32)
    t = tg.from_numpy(n)
    array = jnp.asarray(t)
    n[:] = 7
    assert array.tolist() == [1.0] * 3
    assert jax.jit(lambda x: x * 2)(jnp.asarray(t)).tolist() == [14.0] * 3


@pytest.mark.parametrize("size", [4, 1_000_000])
def test_a_storage_is_an_ordinary_one_again_when_nobody_holds_the_array(size):
    gc.collect()
    live = len(shared_values.LIVE)
    t = tg.zeros(size)
    n = t.numpy()
    part = n[1:3]
    assert shared.is_shared(t._st)
    part[0] = 5
    del n
    assert (t + 1)[1].item() == 6
    assert shared.is_shared(t._st)
    del part
    assert t[1].item() == 5
    assert not shared.is_shared(t._st)
    assert len(shared_values.LIVE) == live
    u = tg.from_numpy(np.full(size, 3.0))
    assert u.sum().item() == 3 * size
    assert not shared.is_shared(u._st)
    u.add_(1)
    assert u[-1].item() == 4


def test_an_array_outlives_its_tensor_and_a_tensor_its_array():
    t = tg.ones(3)
    n = t.numpy()
    del t
    n += 1
    assert n.tolist() == [2.0] * 3
    t = tg.from_numpy(n)
    view = t[1:]
    del n, t
    assert view.tolist() == [2.0] * 2
    view += 1
    assert view.tolist() == [3.0] * 2


def test_constants_are_not_written_through():
    a, b = tg.zeros(3), tg.zeros(3)
    a.numpy()[:] = 1
    assert b.tolist() == tg.zeros(3).tolist() == [0.0] * 3
    c = tg.ones(4)
    d = c.clone()
    c.numpy()[0] = 9
    assert d.tolist() == [1.0] * 4
    e = copy.deepcopy(c)
    e.numpy()[1] = 8
    assert c.tolist() == [9.0, 1.0, 1.0, 1.0]


def test_read_only_arrays():
    n = np.arange(3.0)
    locked = n[:]
    locked.flags.writeable = False
    t = _quietly(lambda: tg.from_numpy(locked))
    n[0] = 7
    assert t.tolist() == [7.0, 1.0, 2.0]
    assert not t.numpy().flags.writeable
    t.add_(1)
    assert t.tolist() == [8.0, 2.0, 3.0]
    assert n.tolist() == [7.0, 1.0, 2.0]
    fixed = _quietly(lambda: tg.from_numpy(np.asarray(jnp.arange(3.0))))
    assert not shared.is_shared(fixed._st)


def _quietly(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def test_protocol_of_numpy_copies_where_it_is_asked_to():
    t = tg.zeros(3)
    n = np.asarray(t)
    for other in (np.array(t), np.asarray(t, np.float64), np.asarray(t, copy=True)):
        assert not np.shares_memory(n, other)
    assert np.shares_memory(n, np.asarray(t, copy=False))
    assert np.shares_memory(n, np.asarray(t, np.float32))
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, np.float64, copy=False)


def test_saved_files_hold_what_numpy_wrote(tmp_path):
    t = tg.zeros(3)
    n = t.numpy()
    n[1] = 4
    tg.save({"t": t}, tmp_path / "t.pt")
    assert tg.load(tmp_path / "t.pt")["t"].tolist() == [0.0, 4.0, 0.0]


def test_threads_write_to_their_parts():
    t = tg.zeros(8, 1000)
    n = t.numpy()
    errors = []

    def work(i):
        try:
            for _ in range(50):
                n[i] += 1
                t[i].sum().item()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    assert not errors
    assert (t == 50).all()


def test_threads_add_in_place():
    t = tg.zeros(100)
    n = t.numpy()
    threads = [threading.Thread(target=lambda: [t.add_(1) for _ in range(50)]) for _ in range(4)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    assert n.tolist() == t.tolist() == [200.0] * 100


def test_views_by_autograd_and_hooks_of_saving():
    n = np.ones(3)
    t = tg.from_numpy(n)
    packed = []
    with tg.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x) or x.clone(), lambda x: x):
        v = tg.ones(3, dtype=tg.float64, requires_grad=True)
        z = (t * v).sum()
    n[:] = 4
    z.backward()
    assert v.grad.tolist() == [1.0] * 3
    leaf = tg.from_numpy(n).requires_grad_()
    (leaf[1:] * 2).sum().backward()
    assert leaf.grad.tolist() == [0.0, 2.0, 2.0]


@pytest.mark.parametrize("share", ["numpy", "from_numpy"])
def test_memory_is_shared_after_an_operator_failed(share):
    """The error, which a notebook or a debugger keeps, holds JAX's trace of the operator that failed."""
    with pytest.raises(NotImplementedError) as kept:
        tg.ones(7, 5).bitwise_or(1)
    if share == "numpy":
        t = tg.zeros(3)
        n = t.numpy()
    else:
        n = np.zeros(3)
        t = tg.from_numpy(n)
    n[0] = 1
    t[1] = 2
    assert t.tolist() == n.tolist() == [1, 2, 0]
    assert kept.value


WRITES = {
    "in place": lambda t: t.add_(1),
    "by another tensor": lambda t: t.mul_(tg.ones(50_000)),
    "filled": lambda t: t.fill_(2),
    "zeros": lambda t: t.zero_(),
    "copied": lambda t: t.copy_(tg.ones(50_000)),
    "all by an index": lambda t: t.__setitem__(slice(None), 3),
    "three leaves": lambda t: t.addcmul_(tg.ones(50_000), tg.ones(50_000)),
    "two bounds": lambda t: t.clamp_(0, 1),
    "gradient": lambda t: t.relu_(),
    "a view": lambda t: t.view(-1, 10).add_(1),
    "half": lambda t: t[:25_000].mul_(2),
}


@pytest.fixture
def no_meshes():
    """As where no tensor was ever spread over several devices: after that, each write looks where its tensor lies."""
    before = [*placement.MANY]
    placement.MANY.clear()
    yield
    placement.MANY.extend(before)


@pytest.mark.usefixtures("no_meshes")
@pytest.mark.parametrize("name", WRITES)
def test_a_write_compares_the_memory_at_most_once(name, monkeypatch):
    t = tg.linspace(-1, 1, 50_000)
    n = t.numpy()
    WRITES[name](t)
    looks, is_as_seen = [], shared.Shared.is_as_seen
    monkeypatch.setattr(shared.Shared, "is_as_seen", lambda memory: looks.append(memory) or is_as_seen(memory))
    WRITES[name](t)
    assert len(looks) <= 1
    assert n.tobytes() == t.numpy().tobytes()
    n[3] = 7
    assert t[3].item() == 7
