"""A Wasserstein GAN with gradient penalty: the critic's loss holds its own gradient by its input."""

import jax
import jax.numpy as jnp
import numpy as np
from common import loaded, normal, torch_losses

LAYERS = {"0__weight": (16, 2), "0__bias": (16,), "2__weight": (16, 16), "2__bias": (16,)}
CRITIC = normal(0, 0.4, **LAYERS, **{"4__weight": (1, 16), "4__bias": (1,)})
GENERATOR = normal(1, 0.4, **LAYERS, **{"4__weight": (2, 16), "4__bias": (2,)})
RATE = 0.02


def batches(steps):
    random = np.random.default_rng(2)
    for _ in range(steps):
        real = random.normal(0, 0.2, (32, 2)) + np.sign(random.normal(0, 1, (32, 1)))
        arrays = real, random.standard_normal((32, 2)), random.uniform(0, 1, (32, 1))
        yield tuple(a.astype("float32") for a in arrays)


def in_torch(torch, steps, wrap):
    nn = torch.nn

    def network(out):
        return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, out))

    critic, generator = loaded(torch, network(1), CRITIC), loaded(torch, network(2), GENERATOR)
    of_critic = torch.optim.SGD(critic.parameters(), lr=RATE)
    of_generator = torch.optim.SGD(generator.parameters(), lr=RATE)

    def step(real, noise, between):
        fake = generator(noise).detach()
        mixed = (between * real + (1 - between) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(noise)).mean()).backward()
        of_generator.step()
        return loss.detach()

    return torch_losses(torch, step, batches(steps), wrap)


def in_jax(steps):
    def network(p, x):
        for i in (0, 2):
            x = jnp.tanh(x @ p[f"{i}.weight"].T + p[f"{i}.bias"])
        return x @ p["4.weight"].T + p["4.bias"]

    def critic_loss(critic, fake, real, between):
        mixed = between * real + (1 - between) * fake
        slope = jax.vmap(jax.grad(lambda x: network(critic, x)[0]))(mixed)
        penalty = ((jnp.linalg.norm(slope, axis=1) - 1) ** 2).mean()
        return network(critic, fake).mean() - network(critic, real).mean() + 10 * penalty

    @jax.jit
    def step(critic, generator, real, noise, between):
        fake = network(generator, noise)
        loss, slopes = jax.value_and_grad(critic_loss)(critic, fake, real, between)
        critic = jax.tree.map(lambda p, g: p - RATE * g, critic, slopes)
        slopes = jax.grad(lambda g: -network(critic, network(g, noise)).mean())(generator)
        return critic, jax.tree.map(lambda p, g: p - RATE * g, generator, slopes), loss

    critic, generator, losses = CRITIC, GENERATOR, []
    for batch in batches(steps):
        critic, generator, loss = step(critic, generator, *batch)
        losses.append(float(loss))
    return losses
