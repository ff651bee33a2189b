"""Attention in linear time, in several ways: forward, backward, steps."""

import torch
from linear_attention_transformer import LinearAttentionTransformerLM
from perceiver_pytorch import Perceiver
from performer_pytorch import PerformerLM, SelfAttention

STEPS = 30
torch.manual_seed(0)


def show(name, net, *args):
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for step in range(STEPS):
        optimizer.zero_grad()
        out = net(*args)
        loss = out.float().square().mean()
        loss.backward()
        optimizer.step()
        norm = sum(p.grad.square().sum() for p in net.parameters() if p.grad is not None).sqrt()
        if step in (0, STEPS - 1):
            print(
                name,
                tuple(out.shape),
                f"{out.sum().item():.3f} {loss.item():.5f} {norm.item():.5f}",
                sum(p.numel() for p in net.parameters()),
            )


words = torch.randint(0, 20, (1, 16))
show(
    "linear",
    LinearAttentionTransformerLM(
        num_tokens=20, dim=16, heads=2, depth=1, max_seq_len=16, causal=True, blindspot_size=1
    ),
    words,
)
show("performer", SelfAttention(dim=16, heads=2, dim_head=8, nb_features=12, causal=False), torch.randn(1, 8, 16))
show(
    "performer lm",
    PerformerLM(num_tokens=20, max_seq_len=16, dim=16, depth=1, heads=2, dim_head=8, nb_features=12, causal=False),
    words,
)
show(
    "perceiver",
    Perceiver(
        input_channels=3,
        input_axis=2,
        num_freq_bands=2,
        max_freq=4.0,
        depth=1,
        num_latents=4,
        latent_dim=8,
        cross_heads=1,
        latent_heads=2,
        cross_dim_head=4,
        latent_dim_head=4,
        num_classes=3,
    ),
    torch.randn(2, 5, 5, 3),
)
