"""Parts of a large tensor whose memory NumPy has are read and written where they are, whichever side wrote last."""

import random

import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax._engine.memory import owned, shared

N = 200
assert N * N >= owned.FROM


EVERY = slice(None)
STEPS = {
    "NumPy writes a row": lambda t, a, c, i, j, k: (a.__setitem__(i, k), c.__setitem__(i, k)),
    "a row is added to": lambda t, a, c, i, j, k: (t[i].add_(k), c.__setitem__(i, c[i] + k)),
    "a column is set": lambda t, a, c, i, j, k: (t.__setitem__((EVERY, j), k), c.__setitem__((EVERY, j), k)),
    "an element is set": lambda t, a, c, i, j, k: (t.__setitem__((i, j), k), c.__setitem__((i, j), k)),
    "rows are put": lambda t, a, c, i, j, k: (t.__setitem__(torch.tensor([i, 0]), k), c.__setitem__([i, 0], k)),
    "the whole is added to": lambda t, a, c, i, j, k: (t.add_(1), c.__iadd__(1)),
    "a transposed part is set": lambda t, a, c, i, j, k: (t.t()[:j, 1:3].fill_(k), c.T[:j, 1:3].fill(k)),
    "a row is read": lambda t, a, c, i, j, k: np.testing.assert_array_equal(t[i].numpy(), c[i]),
    "a row takes part": lambda t, a, c, i, j, k: np.testing.assert_array_equal((t[i] * 2).numpy(), c[i] * 2),
    "the whole takes part": lambda t, a, c, i, j, k: np.testing.assert_array_equal((t + 1).numpy(), c + 1),
}
"""Steps on a tensor, an array that shares its memory, and a copy that shows what both have to hold."""


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("made_by", ["numpy()", "from_numpy"])
def test_both_sides_see_each_write(made_by, seed):
    if made_by == "numpy()":
        t = torch.zeros(N, N)
        a = t.numpy()
    else:
        a = np.zeros((N, N), np.float32)
        t = torch.from_numpy(a)
    c = np.zeros((N, N), np.float32)
    done = []
    rng = random.Random(seed)
    for k in range(40):
        done.append(rng.choice([*STEPS]))
        STEPS[done[-1]](t, a, c, rng.randrange(N), rng.randrange(1, N), k)
        assert shared.is_shared(t._st)
        np.testing.assert_array_equal(a, c, err_msg=f"the array, after {done}")
    np.testing.assert_array_equal(t.numpy(), c, err_msg=f"the tensor, after {done}")
    del a
    np.testing.assert_array_equal((t * 1).numpy(), c)


def test_a_saved_part_is_a_copy():
    t = torch.ones(N, N)
    a = t.numpy()
    w = torch.ones(N, requires_grad=True)
    y = (t[3] * w).sum()
    a[3] = 5
    y.backward()
    assert w.grad.tolist() == [1.0] * N


def test_a_write_to_a_part_is_counted_once():
    t = torch.zeros(N, N)
    a = t.numpy()
    view, before = t[1], t._version
    view.add_(1)
    assert t._version == view._version == before + 1
    assert a[1].tolist() == [1.0] * N


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_memory_that_numpy_made_read_only_is_left_by_a_write():
    a = np.zeros((N, N), np.float32)
    a.flags.writeable = False
    t = torch.from_numpy(a)
    t[0] = 1
    assert t[0].tolist() == [1.0] * N
    assert not a.any()


@pytest.mark.parametrize("kind", ["conjugated", "negative"])
def test_a_part_that_is_stored_otherwise_is_read_as_what_it_is(kind):
    t = torch.zeros(N, N, dtype=torch.complex64)
    a = t.numpy()
    a[2] = 1 + 2j
    part = t.conj()[2] if kind == "conjugated" else t.conj().imag[2]
    assert part.tolist() == ([1 - 2j] * N if kind == "conjugated" else [-2.0] * N)
    part.fill_(3)
    assert a[2, 0] == (3 if kind == "conjugated" else 1 - 3j)
