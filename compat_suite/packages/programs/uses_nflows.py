"""Flows of coupling layers, autoregressive and spline transforms."""

import torch
from nflows import distributions, flows, transforms
from nflows.nn.nets import ResidualNet

STEPS = 30
ROWS = 3000  # times 16 features: more elements than NumPy computes
torch.manual_seed(0)
data = torch.randn(ROWS, 4).cumsum(-1) / 2


def coupling():
    return transforms.AffineCouplingTransform(
        torch.tensor([1, 0, 1, 0]), lambda i, o: ResidualNet(i, o, hidden_features=16, num_blocks=1)
    )


for name, parts in (
    ("affine", [coupling(), transforms.RandomPermutation(4), coupling()]),
    ("autoregressive", [transforms.MaskedAffineAutoregressiveTransform(4, 16), transforms.ReversePermutation(4)]),
    (
        "splines",
        [transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(4, 16, tails="linear", tail_bound=4.0)],
    ),
    ("linear", [transforms.LULinear(4), transforms.BatchNorm(4), transforms.QRLinear(4, 2)]),
):
    torch.manual_seed(1)
    flow = flows.Flow(transforms.CompositeTransform(parts), distributions.StandardNormal([4]))
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
    losses = []
    for _ in range(STEPS):
        loss = -flow.log_prob(data).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    flow.eval()
    noise = flow.transform_to_noise(data)
    back, _ = flow._transform.inverse(noise)
    print(name, losses[:4], losses[-1], f"{(back - data).abs().max().item() < 1e-3}")
