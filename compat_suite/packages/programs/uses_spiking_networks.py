"""Networks of spiking neurons with surrogate gradients, of snnTorch and of norse."""

import norse.torch as norse
import snntorch as snn
import torch
from snntorch import functional, spikegen, surrogate, utils

STEPS = 30
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Linear(10, 16),
    snn.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid(), init_hidden=True, learn_beta=True),
    torch.nn.Linear(16, 4),
    snn.Synaptic(0.8, 0.9, spike_grad=surrogate.atan(), init_hidden=True, output=True),
)
spikes, y = spikegen.rate(torch.rand(8, 10), num_steps=10), torch.randint(0, 4, (8,))
print("spikes in", int(spikes.sum()))
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for step in range(STEPS):
    criterion = functional.mse_count_loss(0.8, 0.2) if step % 2 else functional.ce_rate_loss()
    utils.reset(net)
    out = torch.stack([net(spike)[0] for spike in spikes])
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step < 2:
        print(f"{loss.item():.4f}", int(out.sum()), f"{net[0].weight.grad.norm().item():.5f}")
# Rounding decides on some later spikes, in torch itself too.
print("accuracy", bool(loss.isfinite()), 0 <= functional.accuracy_rate(out, y) <= 1)
torch.manual_seed(2)
layers = norse.SequentialState(norse.LIFCell(), torch.nn.Linear(10, 5), norse.LICell())
x, state = torch.rand(4, 10) * 3, None
for _ in range(6):
    out, state = layers(x, state)
out.square().sum().backward()
print("norse", f"{out.sum().item():.5f} {layers[1].weight.grad.norm().item():.5f}")
