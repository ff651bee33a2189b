"""Writes to a part of a large tensor touch that part alone, and nobody sees it who took the values before."""

import copy
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax._core.jax.caches import KERNELS
from torchgrad_jax._engine.memory.owned import FROM, OwnedStorage
from torchgrad_jax._engine.memory.tensor import Storage

ROWS = COLUMNS = 1 + int(FROM**0.5)
AT = torch.tensor([3, 1, 3, ROWS - 1])
TO = torch.tensor([0, 5, 0, 2])


def matrix(seed=0):
    return torch.tensor(np.random.RandomState(seed).randn(ROWS, COLUMNS).astype(np.float32))


SLOT = Storage.array


def owns(x):
    return x._st.__class__ is OwnedStorage


WRITES = {
    "one element": lambda x: x.__setitem__((3, 4), 1.5),
    "a row": lambda x: x.__setitem__(2, torch.arange(COLUMNS).float()),
    "a column": lambda x: x[:, 1].fill_(2.0),
    "a block": lambda x: x[1:7, 2:9].mul_(3),
    "every third of a row": lambda x: x[5, ::3].add_(1),
    "a diagonal": lambda x: x.diagonal().zero_(),
    "a part of a transpose": lambda x: x.t()[4, 2:].copy_(torch.ones(ROWS - 2)),
    "index_put_": lambda x: x.index_put_((AT, TO), torch.arange(4).float()),
    "index_put_, adding": lambda x: x.index_put_((AT, TO), torch.arange(4) / 3, accumulate=True),
    "rows": lambda x: x.__setitem__(AT, torch.arange(4.0)[:, None].expand(4, COLUMNS)),
    "columns": lambda x: x.__setitem__((slice(None), TO), torch.arange(4.0).expand(ROWS, 4)),
    "index_add_": lambda x: x.index_add_(0, AT, torch.ones(4, COLUMNS) / 3, alpha=2),
    "index_add_, along rows": lambda x: x.index_add_(1, TO, torch.ones(ROWS, 4) / 3),
    "index_copy_": lambda x: x.index_copy_(0, AT[1:], torch.ones(3, COLUMNS) / 3),
    "index_fill_": lambda x: x.index_fill_(1, TO, 7.0),
    "index_fill_, by a tensor": lambda x: x.index_fill_(0, AT, torch.tensor(7.0)),
    "index_reduce_": lambda x: x.index_reduce_(0, AT, torch.ones(4, COLUMNS) / 3, "amax"),
    "index_reduce_, along rows": lambda x: x.index_reduce_(1, TO, torch.ones(ROWS, 4) / 3, "prod"),
    "scatter_reduce_": lambda x: x.scatter_reduce_(0, AT[None], torch.arange(4.0)[None], "amin"),
    "scatter_reduce_, multiplying": lambda x: x.scatter_reduce_(0, AT[None], torch.arange(4.0)[None] / 3, "prod"),
    "scatter_": lambda x: x.scatter_(0, AT[None], torch.arange(4.0)[None]),
    "scatter_, a number": lambda x: x.scatter_(1, TO[:, None], 9.0),
    "scatter_add_": lambda x: x.scatter_add_(0, AT[None], torch.arange(4.0)[None] / 3),
    "put_": lambda x: x.put_(AT * TO, torch.arange(4.0)),
    "masked_fill_ of a row": lambda x: x[4].masked_fill_(torch.arange(COLUMNS) % 2 == 0, -1.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_part_is_written_where_it_lies(name):
    x, other = matrix(), matrix()
    x[0, 0] = other[0, 0] = 1  # from here on the storages have their memory alone
    WRITES[name](other)  # finds out what is to be done
    memory, version = SLOT.__get__(x._st), x._vc.version
    WRITES[name](x)
    assert owns(x)
    assert SLOT.__get__(x._st) is memory
    np.testing.assert_array_equal(np.asarray(x), np.asarray(other))
    assert x._vc.version == other._vc.version == version + 1


@pytest.mark.parametrize("name", WRITES)
def test_a_plan_that_became_old_is_still_known(name):
    """Every few kernels all plans become old; a write with such a plan neither copies nor takes another way."""
    x, other = matrix(), matrix()
    x[0, 0] = other[0, 0] = 1
    WRITES[name](other)  # finds out what is to be done
    WRITES[name](x)
    memory = SLOT.__get__(x._st)
    for cache in list(KERNELS._caches):
        cache.age(KERNELS._generation)
    WRITES[name](x)
    assert owns(x)
    assert SLOT.__get__(x._st) is memory


WAYS_OUT = {
    "a clone": lambda x: x.clone(),
    "a row": lambda x: x[3],
    "a row, cloned": lambda x: x[3].clone(),
    "a sum of rows": lambda x: x[2:9].sum(0),
    "a result that is the argument": lambda x: x.clone().mul(1),
    "a copy": copy.deepcopy,
    "pickled": lambda x: pickle.loads(pickle.dumps(x)),
    "an array of JAX": jnp.asarray,
    "an array of NumPy, copied": lambda x: np.array(x),
    "a list": lambda x: x.tolist(),
    "another type and back": lambda x: x.double().float(),
    "what a compiled function gives": torch.compile(lambda x: x.clone()),
    "what a compiled function passes on": torch.compile(lambda x: x + 0),
    "a gathered row": lambda x: x[AT],
    "a part through its own storage": lambda x: torch.empty(0).set_(x.clone().untyped_storage()),
    "a contiguous row": lambda x: x[3].contiguous().clone(),
    "a column": lambda x: x[:, 4].clone(),
    "a part as a leaf of JAX's": lambda x: jax.tree.leaves(x[16:])[0],
    "all of it as a leaf of JAX's": lambda x: jax.tree.leaves(x)[0],
}
FOLLOW = ("a row",)


def values(x):
    return np.array(x.detach() if isinstance(x, torch.Tensor) else x)


@pytest.mark.parametrize("write", ["one element", "a row", "rows", "index_add_"])
@pytest.mark.parametrize("way", WAYS_OUT)
def test_what_was_taken_stays(way, write):
    x = matrix()
    WRITES[write](x)
    for _ in range(3):
        taken = WAYS_OUT[way](x)
        before = values(taken)
        WRITES[write](x)
        x[3].add_(1)
        after = before if way not in FOLLOW else values(x[3])
        np.testing.assert_array_equal(values(taken), after)


@pytest.mark.parametrize("write", WRITES)
def test_what_was_written_to_all_of_it_stays(write):
    """`copy_` may give a storage the array of another one."""
    x, y = matrix(), matrix(1) + 1
    before = values(y)
    for _ in range(3):
        x[0, 0] = 1
        x.copy_(y)
        WRITES[write](x)
    np.testing.assert_array_equal(values(y), before)


def test_numpy_shares_the_memory_in_both_directions():
    x = matrix()
    x[3, 4] = 1
    n = x.numpy()
    x[3, 4] = 2
    assert n[3, 4] == 2
    n[5, 6] = 7
    assert x[5, 6] == 7
    x[AT] = 3.0
    assert n[3, 7] == 3
    del n
    x[3, 4] = 5
    assert x[3, 4] == 5


def test_dlpack_shares_the_memory():
    x = matrix()
    x[3, 4] = 1
    n = np.from_dlpack(x)
    x[3, 4] = 2
    x[AT] = 0.0
    np.testing.assert_array_equal(n, np.asarray(x))
    assert n[3, 4] == 0


def test_views_and_the_base_see_each_other():
    x = matrix()
    x[3, 4] = 1
    row, turned, flat = x[3], x.t(), x.view(-1)
    row[5] = 8
    assert turned[5, 3] == 8
    assert flat[3 * COLUMNS + 5] == 8
    flat[3 * COLUMNS + 5] = 9
    assert row[5] == 9
    assert x.detach()[3, 5] == 9
    assert x.data[3, 5] == 9
    turned[5, 3:5].zero_()
    assert row[5] == 0
    np.testing.assert_array_equal(np.asarray(x.clone()).reshape(-1), np.asarray(flat.clone()))


VIEWS_OF_ALL = {
    "view": lambda x: x.view(-1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[None].squeeze(0),
    "two views": lambda x: x.view(1, -1).view(COLUMNS, ROWS, 1),
}


@pytest.mark.parametrize("name", VIEWS_OF_ALL)
def test_a_gradient_that_is_the_given_one_in_another_shape_is_no_part_of_it(name):
    """It lies in the same memory, and neither a write to one of the two nor one by NumPy is seen in the other."""
    x = matrix().requires_grad_()
    out = VIEWS_OF_ALL[name](x)
    g = torch.tensor(np.random.RandomState(5).randn(*out.shape).astype(np.float32))
    want = values(g).reshape(ROWS, COLUMNS).copy()
    for _ in range(4):
        x.grad = None
        VIEWS_OF_ALL[name](x).backward(g)
        np.testing.assert_array_equal(values(x.grad), want)
    at = (0,) * g.ndim
    grad = x.grad
    assert grad is not None
    grad[0, 0] = 7.0
    grad.numpy()[0, 1] = 8
    np.testing.assert_array_equal(values(g).reshape(ROWS, COLUMNS), want)
    x.grad = None
    VIEWS_OF_ALL[name](x).backward(g)
    g.numpy()[at] = 9
    g[at] = 10.0
    np.testing.assert_array_equal(values(x.grad), want)


def test_a_saved_tensor_that_was_written_to_is_refused():
    w = torch.ones((), requires_grad=True)
    x = matrix()
    x[3, 4] = 1
    y = (w * x).sum()
    x[3, 4] = 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_recorded(name):
    expected = None
    for owned in (True, False):
        w = torch.full((), 2.0, requires_grad=True)
        x = matrix() * w
        if owned:
            x.data[0, 0] = float(x.detach()[0, 0])
            assert owns(x)
        WRITES[name](x)
        (x * x.detach()).sum().backward()
        expected = w.grad if expected is None else expected
        torch.testing.assert_close(w.grad, expected, rtol=1e-5, atol=1e-3)


def test_values_written_to_a_part_get_gradients():
    x, v = torch.zeros(ROWS, COLUMNS), torch.ones(4, COLUMNS, requires_grad=True)
    x[0, 0] = 1
    x[AT] = v
    x.index_add_(0, AT[:2], v[:2] * 3)
    (x * matrix()).sum().backward()
    m = matrix()
    want = m[AT]
    want[:2] *= 4
    torch.testing.assert_close(v.grad, want)


def test_a_transform_of_jax_undoes_its_writes():
    x = matrix()
    x[3, 4] = 1
    before = np.array(x)

    def f(v):
        x[3, 4] = 5.0
        x[4, 4] = v
        return v

    with pytest.raises(RuntimeError, match="traced"):
        jax.grad(f)(torch.ones(()))
    np.testing.assert_array_equal(before, np.asarray(x))


def test_recomputed_values_are_those_of_the_first_time():
    x, w = matrix(), torch.ones(COLUMNS, requires_grad=True)
    x[3, 4] = 1

    def block(w):
        y = x * w
        y[2] = w
        y[AT] = y[AT] * 2
        return y.sin()

    torch.utils.checkpoint.checkpoint(block, w, use_reentrant=False).sum().backward()
    once, w.grad = w.grad, None
    block(w).sum().backward()
    torch.testing.assert_close(w.grad, once)


def test_threads_that_write_and_read():
    """Each row is written by one thread and has equal elements whenever anybody looks."""
    x, wrong = torch.zeros(8, 1 << 14), []
    x[0, 0] = 0

    def write(i):
        for k in range(60):
            x[i] = float(k)
            row = x[i].clone()
            if float(row.min()) != k or float(row.max()) != k:
                wrong.append((i, k))

    def read():
        for _ in range(60):
            rows = np.array(x.clone())
            if (rows.min(1) != rows.max(1)).any():
                wrong.append("half a row")

    threads = [*[threading.Thread(target=write, args=(i,)) for i in range(8)], threading.Thread(target=read)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert np.array(x).tolist() == [[59.0] * (1 << 14)] * 8


def test_any_order_of_writes_and_looks():
    """Random programs beside NumPy: what was taken stays, and the tensor holds what was written."""
    rs = np.random.RandomState(3)
    x, model, taken = matrix(), matrix().numpy().copy(), []
    ways = [w for w in WAYS_OUT if w not in FOLLOW and "compiled" not in w]
    for _ in range(250):
        i, j, kind = rs.randint(0, ROWS - 9), rs.randint(0, COLUMNS - 9), rs.randint(7)
        v = float(rs.randint(100))
        if kind == 0:
            x[i, j], model[i, j] = v, v
        elif kind == 1:
            x[i : i + 3, j] = v
            model[i : i + 3, j] = v
        elif kind == 2:
            x[torch.tensor([i, i + 2])] = v
            model[[i, i + 2]] = v
        elif kind == 3:
            x.index_add_(0, torch.tensor([i, i]), torch.full((2, COLUMNS), v))
            model[i] += np.float32(2 * v)
        elif kind == 4 and v < 20:
            x.add_(1)
            model += 1
        elif kind == 5:
            got = WAYS_OUT[ways[rs.randint(len(ways))]](x)
            taken.append((got, values(got)))
        else:
            x[i + 1] = x[i]
            model[i + 1] = model[i]
    np.testing.assert_allclose(np.asarray(x), model, rtol=1e-5)
    assert len(taken) > 20
    for got, before in taken:
        np.testing.assert_array_equal(values(got), before)
