"""Rotary embeddings: plain, scaled by length, along two axes, for a cache of keys."""

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

torch.manual_seed(0)
q, k = torch.randn(1, 2, 6, 8, requires_grad=True), torch.randn(1, 2, 6, 8)
rotary = RotaryEmbedding(dim=8)
a, b = rotary.rotate_queries_or_keys(q), rotary.rotate_queries_or_keys(k)
(a * b).sum().backward()
print(f"{a.sum().item():.5f} {(a * b).sum().item():.5f} {q.grad.norm().item():.5f}")
print(f"{rotary.rotate_queries_with_cached_keys(q[:, :, -1:], k)[1].sum().item():.5f}")
xpos = RotaryEmbedding(dim=8, use_xpos=True)
a, b = xpos.rotate_queries_and_keys(q, k)
print(f"{a.sum().item():.5f} {b.sum().item():.5f}")
axial = RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=10)
freqs = axial.get_axial_freqs(3, 2)
print(freqs.shape, f"{apply_rotary_emb(freqs, torch.ones(1, 3, 2, 8)).sum().item():.5f}")
