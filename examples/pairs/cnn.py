"""A convolutional network that tells horizontal stripes from vertical ones."""

import jax
import jax.numpy as jnp
import numpy as np
from common import jax_losses, loaded, normal, torch_losses

SHAPES = {"0__weight": (8, 1, 3, 3), "0__bias": (8,), "4__weight": (2, 8 * 16), "4__bias": (2,)}
PARAMETERS = normal(0, 0.3, **SHAPES)


def batches(steps):
    random = np.random.default_rng(1)
    for _ in range(steps):
        labels = random.integers(0, 2, 16)
        stripes = np.broadcast_to(np.arange(8) % 4 < 2, (16, 8, 8))
        images = np.where(labels[:, None, None] == 1, stripes, stripes.swapaxes(1, 2))
        yield (images + random.normal(0, 0.7, images.shape))[:, None].astype("float32"), labels


def in_torch(torch, steps, wrap):
    nn = torch.nn
    layers = (nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 2))
    model = loaded(torch, nn.Sequential(*layers), PARAMETERS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def loss(p, x, y):
        out = jax.lax.conv_general_dilated(x, p["0.weight"], (1, 1), "SAME") + p["0.bias"][:, None, None]
        out = jax.lax.reduce_window(jax.nn.relu(out), -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        scores = jax.nn.log_softmax(out.reshape(len(x), -1) @ p["4.weight"].T + p["4.bias"])
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    return jax_losses(loss, PARAMETERS, batches(steps), 0.02)
