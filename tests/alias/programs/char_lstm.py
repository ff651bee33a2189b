"""A character model: LSTM, truncated backpropagation through time, sampling."""

import torch
from torch import nn, optim

torch.manual_seed(3)
text = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. " * 3
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)


class CharLSTM(nn.Module):
    def __init__(self, v, e=16, h=32, layers=2):
        super().__init__()
        self.emb = nn.Embedding(v, e)
        self.rnn = nn.LSTM(e, h, layers, batch_first=True, dropout=0.1)
        self.out = nn.Linear(h, v)

    def forward(self, x, state=None):
        y, state = self.rnn(self.emb(x), state)
        return self.out(y), state


m = CharLSTM(len(chars))
opt = optim.AdamW(m.parameters(), lr=5e-3)
crit = nn.CrossEntropyLoss()
state = None
for step in range(12):
    i = (step * 16) % (len(data) - 17)
    x, y = data[i : i + 16].unsqueeze(0), data[i + 1 : i + 17].unsqueeze(0)
    opt.zero_grad()
    if state is not None:
        state = tuple(s.detach() for s in state)
    logits, state = m(x, state)
    loss = crit(logits.transpose(1, 2), y)
    loss.backward()
    g = nn.utils.clip_grad_norm_(m.parameters(), 0.5)
    opt.step()
    print(f"step {step} loss {loss.item():.5f} grad {g.item():.4f}")
m.eval()
with torch.no_grad():
    idx = torch.tensor([[0]])
    st = None
    out = []
    for _ in range(10):
        lg, st = m(idx, st)
        p = lg[:, -1].softmax(-1)
        idx = torch.multinomial(p, 1)
        out.append(chars[idx.item()])
print(repr("".join(out)))
for cls in (nn.GRU, nn.RNN):
    r = cls(4, 5, bidirectional=True)
    o, h = r(torch.randn(3, 2, 4))
    print(o.shape, f"{o.sum().item():.5f} {h.abs().sum().item():.5f}")
