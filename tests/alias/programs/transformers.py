"""A transformer language model, and one in the style of GPT with accumulated gradients."""

import math, torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(4)


class PosEnc(nn.Module):
    def __init__(self, d, n=100):
        super().__init__()
        pe = torch.zeros(n, d)
        pos = torch.arange(0, n, dtype=torch.float).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class LM(nn.Module):
    def __init__(self, v=20, d=16):
        super().__init__()
        self.e = nn.Embedding(v, d)
        self.p = PosEnc(d)
        layer = nn.TransformerEncoderLayer(d, 4, 32, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)
        self.o = nn.Linear(d, v)
        self.d = d

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
        return self.o(self.enc(self.p(self.e(x) * math.sqrt(self.d)), mask=mask, is_causal=True))


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.ln2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(0.1))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, v=20, d=16):
        super().__init__()
        self.tr = nn.ModuleDict(
            dict(
                wte=nn.Embedding(v, d),
                wpe=nn.Embedding(32, d),
                h=nn.ModuleList([Block(d, 4) for _ in range(2)]),
                ln=nn.LayerNorm(d),
            )
        )
        self.head = nn.Linear(d, v, bias=False)
        self.tr.wte.weight = self.head.weight

    def forward(self, x):
        h = self.tr.wte(x) + self.tr.wpe(torch.arange(x.size(1)))
        for b in self.tr.h:
            h = b(h)
        return self.head(self.tr.ln(h))


for cls in (LM, GPT):
    m = cls()
    opt = torch.optim.AdamW(
        [
            {"params": [p for p in m.parameters() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in m.parameters() if p.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=3e-3,
    )
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 6)
    for s in range(6):
        opt.zero_grad(set_to_none=True)
        for micro in range(2):
            x = torch.randint(0, 20, (4, 10))
            y = torch.roll(x, -1, 1)
            loss = F.cross_entropy(m(x).view(-1, 20), y.view(-1)) / 2
            loss.backward()
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
        sched.step()
        print(s, f"{loss.item():.5f} {sched.get_last_lr()[0]:.6f}")
    m.eval()
    print(f"{m(x).sum().item():.4f}")
mha = nn.MultiheadAttention(8, 2)
o, w = mha(torch.randn(3, 2, 8), torch.randn(4, 2, 8), torch.randn(4, 2, 8))
print(o.shape, w.shape, f"{o.sum().item():.5f}")
