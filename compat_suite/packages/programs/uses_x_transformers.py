"""Transformers with rotary positions, gated layers and flash attention; writing with a cache."""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, ViTransformerWrapper

STEPS = 30
ROWS = 200  # times 16 words of 16 features: more elements than NumPy computes
torch.manual_seed(0)
for options in (
    {"rotary_pos_emb": True},
    {"alibi_pos_bias": True},
    {"use_rmsnorm": True, "ff_glu": True, "ff_swish": True},
    {"attn_flash": True, "attn_one_kv_head": True},
    {"sandwich_norm": True},
    {"attn_qk_norm": True, "rel_pos_bias": True},
):
    torch.manual_seed(0)
    net = TransformerWrapper(
        num_tokens=12, max_seq_len=16, attn_layers=Decoder(dim=16, depth=1, heads=2, attn_dim_head=8, **options)
    )
    model = AutoregressiveWrapper(net)
    words = torch.randint(0, 12, (ROWS, 16))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(STEPS):
        loss = model(words)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(f"{loss.item():.5f}")
    print(options, losses[:2], losses[-1])
model.eval()
print(model.generate(words[:2, :2], 4, temperature=0.0, cache_kv=True).tolist())
vit = ViTransformerWrapper(
    image_size=8, patch_size=4, num_classes=3, attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8)
)
print([f"{v:.4f}" for v in vit(torch.randn(1, 3, 8, 8))[0].tolist()])
