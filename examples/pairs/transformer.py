"""A causal transformer block that learns to repeat what it read four letters ago."""

import jax
import jax.numpy as jnp
import numpy as np
from common import jax_losses, loaded, normal, torch_losses

LETTERS, WIDTH, HEADS, TIME = 6, 16, 2, 12
PARAMETERS = normal(
    0,
    0.3,
    embed__weight=(LETTERS, WIDTH),
    place=(TIME, WIDTH),
    qkv__weight=(3 * WIDTH, WIDTH),
    project__weight=(WIDTH, WIDTH),
    up__weight=(2 * WIDTH, WIDTH),
    down__weight=(WIDTH, 2 * WIDTH),
    predict__weight=(LETTERS, WIDTH),
)


def batches(steps):
    random = np.random.default_rng(1)
    for _ in range(steps):
        text = random.integers(0, LETTERS, (16, 4))
        yield (np.tile(text, (1, TIME // 4)),)


def in_torch(torch, steps, wrap):
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.place = (nn.Embedding(LETTERS, WIDTH), nn.Parameter(torch.zeros(TIME, WIDTH)))
            self.qkv, self.project = (nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False))
            self.up, self.down = (nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False))
            self.predict = nn.Linear(WIDTH, LETTERS, bias=False)

        def forward(self, text):
            x = self.embed(text) + self.place[: text.shape[1]]
            heads = self.qkv(F.layer_norm(x, (WIDTH,))).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(*heads.unbind(), is_causal=True)
            x = x + self.project(mixed.transpose(1, 2).flatten(2))
            x = x + self.down(F.gelu(self.up(F.layer_norm(x, (WIDTH,)))))
            return self.predict(x)

    model = loaded(torch, Model(), PARAMETERS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(text):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def layer_norm(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def loss(p, text):
        given, wanted = text[:, :-1], text[:, 1:]
        time = given.shape[1]
        x = p["embed.weight"][given] + p["place"][:time]
        heads = (layer_norm(x) @ p["qkv.weight"].T).reshape(*given.shape, 3, HEADS, -1)
        q, k, v = heads.transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(WIDTH / HEADS))
        scores = jnp.where(jnp.tri(time, dtype=bool), scores, -jnp.inf)
        mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + mixed @ p["project.weight"].T
        x = x + jax.nn.gelu(layer_norm(x) @ p["up.weight"].T, approximate=False) @ p["down.weight"].T
        chances = jax.nn.log_softmax(x @ p["predict.weight"].T)
        return -jnp.take_along_axis(chances, wanted[..., None], -1).mean()

    return jax_losses(loss, PARAMETERS, batches(steps), 0.1, 0.9)
