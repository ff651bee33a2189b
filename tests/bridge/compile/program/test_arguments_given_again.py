"""What a compiled program only reads in each run is copied to JAX once, and is still what the tensor holds."""

import numpy as np

import torchgrad_jax as torch


def held_by_numpy(t):
    return type(t._st.array) is np.ndarray


def test_weights_and_constants_are_held_in_jax_and_writes_to_them_are_seen():
    constant, w = torch.ones(3), torch.tensor([1.0, 2.0, 3.0])
    # Not checked: what is given again is held in the shorter run, and a run with a check is none.
    step = torch.compile(lambda w, x: w * x + constant, verify=0)
    want = torch.tensor([1.0, 2.0, 3.0])
    for k in range(6):
        x = torch.tensor([float(k), 1.0, 2.0])
        assert held_by_numpy(x)
        assert torch.equal(step(w, x), want * x + 1)
        assert held_by_numpy(x)  # a new batch in each run
    assert not held_by_numpy(w)
    assert not held_by_numpy(constant)
    w.add_(1)
    constant.mul_(2)
    for _ in range(3):
        assert torch.equal(step(w, x), (want + 1) * x + 2)


def test_memory_that_numpy_shares_stays_shared():
    w, x = torch.tensor([1.0, 2.0]), torch.ones(2)
    step = torch.compile(lambda w, x: w * x)
    for _ in range(3):
        step(w, x)
    n = w.numpy()
    for k in range(4):
        n[0] = k
        assert step(w, x).tolist() == [k, 2]
    w.add_(1)
    assert n.tolist() == [4, 3]
