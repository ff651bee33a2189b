"""Parameters, gradients and whole runs of an optimizer, the same under torch and under torchgrad_jax."""

import numpy as np

SHAPES = ((2, 3), (4,), ())


def parameters(m, shapes=SHAPES, dtype="float32", seed=0):
    rs = np.random.RandomState(seed)
    made = []
    for shape in shapes:
        x = rs.randn(*shape)
        if dtype.startswith("complex"):
            x = x + 1j * rs.randn(*shape)
        made.append(m.tensor(np.asarray(x).tolist(), dtype=getattr(m, dtype), requires_grad=True))
    return made


def give_gradients(m, params, rs, skip=()):
    """Fresh gradients for all but some; drawn for these too, so that the others do not depend on it."""
    for i, p in enumerate(params):
        g = rs.randn(*p.shape)
        if p.is_complex():
            g = g + 1j * rs.randn(*p.shape)
        p.grad = None if i in skip else m.tensor(np.asarray(g).tolist(), dtype=p.dtype)


def train(m, make, steps=22, schedule=None, skipping=False, **kind):
    """The parameters, their versions and the optimizer's state after a number of steps."""
    params = parameters(m, **kind)
    optimizer = make(params)
    scheduler = schedule(optimizer) if schedule else None
    rs = np.random.RandomState(1)
    for i in range(steps):
        give_gradients(m, params, rs, skip=(1,) if skipping and i in (0, 2) else ())
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return report(optimizer, params)


def report(optimizer, params):
    state = optimizer.state_dict()["state"]
    versions = {i: {k: v._version for k, v in s.items() if hasattr(v, "_version")} for i, s in state.items()}
    return {
        "params": [p.detach() for p in params],
        "versions": [p._version for p in params],
        "state": state,
        "state_versions": versions,
    }
