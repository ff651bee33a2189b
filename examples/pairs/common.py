"""What the pairs share: numbers that both sides begin with, and a training loop on each side.

Each pair is a file with the same program twice. `in_torch(torch, steps, wrap)` is an ordinary PyTorch program, given
the library and what is done to its training step (nothing, or `torch.compile`). `in_jax(steps)` is pure JAX. Both
return their losses, and begin with the same arrays of NumPy.
"""

import jax
import jax.numpy as jnp
import numpy as np


def normal(seed, scale=1.0, **shapes):
    """Arrays of normal numbers by name; two underscores in a name are a dot in a `state_dict`."""
    random = np.random.default_rng(seed)
    return {
        name.replace("__", "."): (scale * random.standard_normal(shape)).astype("float32")
        for name, shape in shapes.items()
    }


def loaded(torch, module, parameters):
    """A module of torch's with these parameters."""
    module.load_state_dict({k: torch.tensor(v) for k, v in parameters.items()})
    return module


def torch_losses(torch, step, batches, wrap):
    """The losses of a training step over batches of NumPy arrays."""
    step = wrap(step)
    return [step(*(torch.tensor(x) for x in batch)).item() for batch in batches]


def jax_losses(loss, parameters, batches, rate, momentum=0.0):
    """The losses of gradient descent, with momentum as torch has it."""
    velocity = jax.tree.map(jnp.zeros_like, parameters)

    @jax.jit
    def step(parameters, velocity, *batch):
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, gradients)
        return value, jax.tree.map(lambda p, v: p - rate * v, parameters, velocity), velocity

    losses = []
    for batch in batches:
        value, parameters, velocity = step(parameters, velocity, *batch)
        losses.append(float(value))
    return losses
