"""Vector quantization: learned codebooks, residual, finite scalar, lookup-free."""

import torch
from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, SimVQ, VectorQuantize

STEPS = 30
torch.manual_seed(0)
x = torch.randn(4, 700, 16)  # more elements than NumPy computes
for name, make in {
    "VQ": lambda: VectorQuantize(dim=16, codebook_size=12, decay=0.8, commitment_weight=1.0),
    "cosine VQ": lambda: VectorQuantize(dim=16, codebook_size=12, use_cosine_sim=True),
    "learnable VQ": lambda: VectorQuantize(dim=16, codebook_size=12, learnable_codebook=True, ema_update=False),
    "residual": lambda: ResidualVQ(dim=16, num_quantizers=3, codebook_size=8),
    "FSQ": lambda: FSQ(levels=[5, 4, 3], dim=16),
    "LFQ": lambda: LFQ(codebook_size=16, dim=16, entropy_loss_weight=0.02),
    "SimVQ": lambda: SimVQ(dim=16, codebook_size=12),
}.items():
    try:
        torch.manual_seed(1)
        layer = make()
        z = x.clone().requires_grad_()
        optimizer = torch.optim.SGD([z, *layer.parameters()], lr=1e-2)
        for step in range(STEPS):
            out, index, *loss = layer(z)
            total = out.square().sum() + sum(v.sum() for v in loss if isinstance(v, torch.Tensor))
            optimizer.zero_grad()
            total.backward()
            if step in (0, STEPS - 1):
                print(name, tuple(out.shape), index.flatten()[:6].tolist())
                print(name, f"{total.item():.3f} {z.grad.norm().item():.3f}")
            optimizer.step()
    except Exception as e:
        print(name, type(e).__name__, str(e)[:300])
