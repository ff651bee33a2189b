"""An LSTM that continues sums of two waves."""

import jax
import jax.numpy as jnp
import numpy as np
from common import jax_losses, normal, torch_losses

WIDTH = 16
SHAPES = {
    "read__weight_ih_l0": (4 * WIDTH, 1),
    "read__weight_hh_l0": (4 * WIDTH, WIDTH),
    "read__bias_ih_l0": (4 * WIDTH,),
    "read__bias_hh_l0": (4 * WIDTH,),
    "answer__weight": (1, WIDTH),
    "answer__bias": (1,),
}
PARAMETERS = normal(0, 0.3, **SHAPES)


def batches(steps):
    random = np.random.default_rng(1)
    for _ in range(steps):
        time = np.arange(21) / 4 + random.uniform(0, 6, (8, 1))
        waves = np.sin(time) + 0.5 * np.sin(3 * time)
        yield waves[:, :-1, None].astype("float32"), waves[:, 1:, None].astype("float32")


def in_torch(torch, steps, wrap):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.read = torch.nn.LSTM(1, WIDTH, batch_first=True)
            self.answer = torch.nn.Linear(WIDTH, 1)

        def forward(self, x):
            states, _ = self.read(x)
            return self.answer(states)

    model = Model()
    model.load_state_dict({k: torch.tensor(v) for k, v in PARAMETERS.items()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def loss(p, x, y):
        def cell(carry, now):
            h, c = carry
            gates = now @ p["read.weight_ih_l0"].T + p["read.bias_ih_l0"]
            gates = gates + h @ p["read.weight_hh_l0"].T + p["read.bias_hh_l0"]
            i, f, g, o = jnp.split(gates, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((len(x), WIDTH), x.dtype)
        _, states = jax.lax.scan(cell, (zero, zero), x.swapaxes(0, 1))
        answer = states.swapaxes(0, 1) @ p["answer.weight"].T + p["answer.bias"]
        return ((answer - y) ** 2).mean()

    return jax_losses(loss, PARAMETERS, batches(steps), 0.2, 0.9)
