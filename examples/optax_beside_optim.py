"""An optimizer of `optim` is one of optax's transformations, in a chain and under `jax.jit`, and takes the same steps.

python examples/optax_beside_optim.py
"""

import jax
import jax.numpy as jnp
import optax

import torchgrad_jax as torch
from torchgrad_jax import interop, nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
x, y = torch.randn(32, 3), torch.randn(32, 1)
forward = interop.to_jax(net)
params, arrays = forward.params, (jnp.asarray(x), jnp.asarray(y))
transformation = optax.chain(optax.clip(0.1), interop.as_optax(torch.optim.NAdam, lr=0.01))
state = transformation.init(params)


@jax.jit
def step(params, state):
    g = jax.grad(lambda params: ((forward(params, arrays[0]) - arrays[1]) ** 2).mean())(params)
    updates, state = transformation.update(g, state, params)
    return optax.apply_updates(params, updates), state


optimizer = torch.optim.NAdam(net.parameters(), lr=0.01)
for _ in range(20):
    params, state = step(params, state)
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    nn.utils.clip_grad_value_(net.parameters(), 0.1)
    optimizer.step()
same = all(jnp.allclose(params[name], jnp.asarray(p.detach()), atol=1e-5) for name, p in net.named_parameters())
print("the same after 20 steps:", same)
