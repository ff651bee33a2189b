"""A dozen ordinary programs with many shapes, each of which takes PyTorch one to four seconds of CPU time.

``python -m benchmarks.programs MODULE NAME`` runs one of them with a module (`torch` or `torchgrad_jax`) in place of
PyTorch, and prints a number that both agree on.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[[Any], float]] = {}
WIDE: dict[str, Callable[[Any], float]] = {}
"""Wider ones over many shapes, whose second runs consist of JAX's tracing; they are measured where they are named."""


def _program(fn: Callable[[Any], float]) -> Callable[[Any], float]:
    PROGRAMS[fn.__name__] = fn
    return fn


@_program
def cnn(torch: Any) -> float:
    """Images, two convolutions, Adam; a smaller batch at the end of each epoch."""
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 49, 10),
    )
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    x, y = torch.randn(400, 1, 28, 28), torch.randint(0, 10, (400,))
    total = 0.0
    for _ in range(4):
        for i in range(0, 400, 64):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x[i : i + 64]), y[i : i + 64])
            loss.backward()
            opt.step()
            total += loss.item()
    net.eval()
    with torch.no_grad():
        return total + net(x[:100]).argmax(1).float().mean().item()


@_program
def gpt(torch: Any) -> float:
    """A small transformer with a causal mask; then text of growing length."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(64), nn.LayerNorm(64)
            self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
            self.mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = (s.view(b, t, 4, 16).transpose(1, 2) for s in self.qkv(self.norm(x)).split(64, -1))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tok, self.pos = nn.Embedding(65, 64), nn.Embedding(64, 64)
            self.blocks = nn.Sequential(Block(), Block(), Block())
            self.head = nn.Linear(64, 65)

        def forward(self, ids: Any) -> Any:
            return self.head(self.blocks(self.tok(ids) + self.pos(torch.arange(ids.shape[1]))))

    model = Model()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    data = torch.randint(0, 65, (2000,))
    total = 0.0
    for step in range(15):
        at = [(37 * step + 101 * k) % 1900 for k in range(16)]
        x = torch.stack([data[i : i + 64] for i in at])
        y = torch.stack([data[i + 1 : i + 65] for i in at])
        opt.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(x).view(-1, 65), y.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item()
    ids = data[:1].view(1, 1)
    with torch.no_grad():
        for _ in range(20):
            ids = torch.cat([ids, model(ids)[:, -1].argmax(-1, keepdim=True)], 1)
    return total


@_program
def lstm(torch: Any) -> float:
    """Sentences of 20 lengths."""
    nn = torch.nn
    embed, cell, head = nn.Embedding(50, 32), nn.LSTM(32, 48, batch_first=True), nn.Linear(48, 5)
    params = [p for m in (embed, cell, head) for p in m.parameters()]
    opt = torch.optim.SGD(params, 0.1, momentum=0.9)
    total = 0.0
    for step in range(60):
        length = 5 + (step * 7) % 20
        x, y = torch.randint(0, 50, (8, length)), torch.randint(0, 5, (8,))
        out, _ = cell(embed(x))
        loss = nn.functional.cross_entropy(head(out[:, -1]), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total


@_program
def gan(torch: Any) -> float:
    """Two networks, with a penalty on the gradient of one."""
    nn = torch.nn
    make = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    judge = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    opt_make = torch.optim.Adam(make.parameters(), 1e-3, betas=(0.5, 0.9))
    opt_judge = torch.optim.Adam(judge.parameters(), 1e-3, betas=(0.5, 0.9))
    total = 0.0
    for step in range(150):
        angle = torch.rand(128) * 2 * math.pi
        real = torch.stack([angle.cos(), angle.sin()], 1)
        fake = make(torch.randn(128, 8)).detach()
        mix = torch.rand(128, 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss = judge(fake).mean() - judge(real).mean() + 10 * penalty
        opt_judge.zero_grad()
        loss.backward()
        opt_judge.step()
        if step % 3 == 0:
            opt_make.zero_grad()
            (-judge(make(torch.randn(128, 8))).mean()).backward()
            opt_make.step()
        total += loss.item()
    return total


@_program
def maml(torch: Any) -> float:
    """Learning to learn sine waves: gradients of steps of gradients."""

    def net(params: Any, x: Any) -> Any:
        for i in range(0, 4, 2):
            x = torch.relu(x @ params[i] + params[i + 1])
        return x @ params[4] + params[5]

    sizes = [(1, 40), (40,), (40, 40), (40,), (40, 1), (1,)]
    params = [(0.1 * torch.randn(*s)).requires_grad_() for s in sizes]
    opt = torch.optim.Adam(params, 1e-3)
    total = 0.0
    for _ in range(60):
        opt.zero_grad()
        for _ in range(4):
            scale, phase = 0.1 + 4.9 * torch.rand(1), math.pi * torch.rand(1)
            x = 10 * torch.rand(10, 1) - 5
            fast = params
            for _ in range(2):
                loss = ((net(fast, x) - scale * torch.sin(x + phase)) ** 2).mean()
                slopes = torch.autograd.grad(loss, fast, create_graph=True)
                fast = [p - 0.01 * g for p, g in zip(fast, slopes)]
            x = 10 * torch.rand(10, 1) - 5
            loss = ((net(fast, x) - scale * torch.sin(x + phase)) ** 2).mean()
            loss.backward()
            total += loss.item()
        opt.step()
    return total


@_program
def vae(torch: Any) -> float:
    """A variational autoencoder."""
    nn, functional = torch.nn, torch.nn.functional
    enc, mean, spread = nn.Linear(784, 200), nn.Linear(200, 10), nn.Linear(200, 10)
    dec, out = nn.Linear(10, 200), nn.Linear(200, 784)
    params = [p for m in (enc, mean, spread, dec, out) for p in m.parameters()]
    opt = torch.optim.Adam(params, 1e-3)
    data = torch.rand(1000, 784)
    total = 0.0
    for _ in range(6):
        for i in range(0, 1000, 128):
            x = data[i : i + 128]
            h = torch.relu(enc(x))
            mu, logvar = mean(h), spread(h)
            z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
            y = torch.sigmoid(out(torch.relu(dec(z))))
            loss = functional.binary_cross_entropy(y, x, reduction="sum")
            loss = loss - 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() / 1000
    return total


@_program
def diffusion(torch: Any) -> float:
    """Denoising in steps at several resolutions."""
    nn, functional = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Linear(16, 16)
            self.a, self.b = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
            self.norm, self.c = nn.GroupNorm(4, 16), nn.Conv2d(16, 1, 3, padding=1)

        def forward(self, x: Any, t: Any) -> Any:
            at = t[:, None] * torch.exp(-torch.arange(8.0) / 2)
            h = self.a(x) + self.time(torch.cat([at.sin(), at.cos()], 1))[:, :, None, None]
            h = functional.silu(self.norm(h))
            h = h + functional.interpolate(self.b(functional.avg_pool2d(h, 2)), scale_factor=2)
            return self.c(functional.silu(h))

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    betas = torch.linspace(1e-4, 0.02, 30)
    alphas = torch.cumprod(1 - betas, 0)
    total = 0.0
    for step in range(30):
        size = (8, 12, 16, 20)[step % 4]
        x, noise, t = (torch.rand(8, 1, size, size), torch.randn(8, 1, size, size), torch.randint(0, 30, (8,)))
        a = alphas[t][:, None, None, None]
        loss = functional.mse_loss(net(a.sqrt() * x + (1 - a).sqrt() * noise, t.float()), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    with torch.no_grad():
        for size in (8, 12, 16, 20, 24, 28, 32):
            x = torch.randn(2, 1, size, size)
            for i in range(29, -1, -1):
                e = net(x, torch.full((2,), float(i)))
                x = (x - betas[i] / (1 - alphas[i]).sqrt() * e) / (1 - betas[i]).sqrt()
                if i:
                    x = x + betas[i].sqrt() * torch.randn_like(x)
    return total


@_program
def newton(torch: Any) -> float:
    """L-BFGS on the function of Rosenbrock in several dimensions, and Newton's method."""

    def bowl(x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    total = 0.0
    for n in (2, 3, 5, 8, 13):
        x = torch.full((n,), -0.5, requires_grad=True)
        opt = torch.optim.LBFGS([x], lr=0.5, max_iter=40, line_search_fn="strong_wolfe")

        def closure(x: Any = x, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = bowl(x)
            loss.backward()
            return loss

        opt.step(closure)
        y = torch.full((n,), 0.9, dtype=torch.float64)
        for _ in range(12):
            hessian = torch.autograd.functional.hessian(bowl, y)
            y.requires_grad_()
            (slope,) = torch.autograd.grad(bowl(y), y)
            y = y.detach() - torch.linalg.solve(hessian, slope)
        total += y.sum().item()
    return total


@_program
def graphs(torch: Any) -> float:
    """Messages along the edges of 15 graphs of different sizes."""
    nn = torch.nn
    first, second, head = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)
    params = [p for m in (first, second, head) for p in m.parameters()]
    opt = torch.optim.Adam(params, 1e-2)
    data = []
    for k in range(15):
        n, m = 20 + 7 * k, 60 + 31 * k
        data.append((torch.randn(n, 16), torch.randint(0, n, (2, m)), torch.randint(0, 4, (n,))))
    total = 0.0
    for _ in range(8):
        for x, (source, target), y in data:
            degree = torch.zeros(x.shape[0]).index_add_(0, target, torch.ones(target.shape[0])).clamp(min=1)
            h = x
            for layer in (first, second):
                h = layer(h)
                h = torch.zeros_like(h).index_add(0, target, h[source]) / degree[:, None]
                h = torch.relu(h)
            loss = nn.functional.cross_entropy(head(h), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
    return total


@_program
def reinforce(torch: Any) -> float:
    """Policy gradients over episodes of different lengths."""
    nn = torch.nn
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(policy.parameters(), 1e-2)
    total = 0.0
    for episode in range(30):
        state, logs, rewards = torch.zeros(4), [], []
        for t in range(10 + (episode * 11) % 25):
            chosen = torch.distributions.Categorical(logits=policy(state))
            action = chosen.sample()
            logs.append(chosen.log_prob(action))
            push = 2.0 * action.item() - 1
            state = 0.9 * state + 0.1 * torch.tensor([push, -push, t / 10, 1.0])
            rewards.append(1.0 - state[0].abs().item())
        returns, value = [], 0.0
        for r in reversed(rewards):
            value = r + 0.95 * value
            returns.append(value)
        returns = torch.tensor(returns[::-1])
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        loss = -(torch.stack(logs) * returns).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += len(rewards)
    return total


@_program
def jacobians(torch: Any) -> float:
    """Jacobians, Hessians, and gradients per example, of functions of several sizes."""
    functional = torch.func
    total = 0.0
    for n in (2, 3, 5, 8, 12, 17, 23):
        w, x = torch.linspace(-1, 1, n * n).view(n, n), torch.linspace(0, 1, n)

        def f(x: Any, w: Any = w) -> Any:
            return torch.tanh(w @ x) * x

        total += functional.jacrev(f)(x).sum().item() + functional.jacfwd(f)(x).sum().item()
        total += functional.hessian(lambda x, f=f: f(x).pow(2).sum())(x).sum().item()
        total += torch.autograd.functional.jacobian(f, x).sum().item()
        rows = torch.linspace(-1, 1, 6 * n).view(6, n)
        each = functional.vmap(functional.grad(lambda w, r: torch.tanh(w @ r).sum()), in_dims=(None, 0))
        total += each(w, rows).pow(2).sum().item()
        _, out = functional.vjp(f, x)
        total += out(torch.ones(n))[0].sum().item() + functional.jvp(f, (x,), (torch.ones(n),))[1].sum().item()
    return total


@_program
def loader(torch: Any) -> float:
    """Batches of sequences of different lengths, padded, with statistics per epoch."""
    nn, functional = torch.nn, torch.nn.functional
    data = importlib.import_module(torch.__name__ + ".utils.data")

    class Series(data.Dataset):
        def __len__(self) -> int:
            return 200

        def __getitem__(self, i: int) -> Any:
            x = torch.sin(torch.arange(10.0 + i % 17) * (1 + i % 5))
            return (x - x.mean()) / x.std(), i % 5

    def collate(items: Any) -> Any:
        xs, ys = zip(*items)
        longest = max(len(x) for x in xs)
        return torch.stack([functional.pad(x, (0, longest - len(x))) for x in xs]), torch.tensor(ys)

    net = nn.Sequential(
        nn.Conv1d(1, 8, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(32, 5)
    )
    opt = torch.optim.RMSprop(net.parameters(), 1e-3)
    total = 0.0
    for _ in range(4):
        right = 0
        for x, y in data.DataLoader(Series(), batch_size=16, shuffle=True, collate_fn=collate):
            out = net(x[:, None])
            loss = functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            right += (out.argmax(1) == y).sum().item()
        total += right
    return total


@_program
def segmentation(torch: Any) -> float:
    """A U-Net that names the class of each pixel, for images of three sizes."""
    nn = torch.nn

    def block(inside: int, outside: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inside, outside, 3, padding=1),
            nn.GroupNorm(4, outside),
            nn.SiLU(),
            nn.Conv2d(outside, outside, 3, padding=1),
            nn.ReLU(),
        )

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([block(3, 16), block(16, 32), block(32, 64)])
            self.rise = nn.ModuleList([nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)])
            self.up = nn.ModuleList([block(64, 32), block(32, 16)])
            self.head = nn.Conv2d(16, 5, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for i, down in enumerate(self.down):
                x = down(nn.functional.max_pool2d(x, 2) if i else x)
                kept.append(x)
            for i, (rise, up) in enumerate(zip(self.rise, self.up)):
                x = up(torch.cat([rise(x), kept[1 - i]], 1))
            return self.head(x)

    net = UNet()
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    total = 0.0
    for k in range(30):
        size = (32, 48, 64)[k % 3]
        x, y = torch.randn(2, 3, size, size), torch.randint(0, 5, (2, size, size))
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        total += loss.item()
    return total


def _wide(fn: Callable[[Any], float]) -> Callable[[Any], float]:
    WIDE[fn.__name__] = fn
    return fn


@_wide
def wide_lstm(torch: Any) -> float:
    """A bidirectional LSTM of 128 units, twice over each of 20 lengths."""
    nn = torch.nn
    net, head = nn.LSTM(32, 128, bidirectional=True, batch_first=True), nn.Linear(256, 5)
    parameters = [*net.parameters(), *head.parameters()]
    opt = torch.optim.Adam(parameters, 1e-3)
    total = 0.0
    for k in range(40):
        x, y = torch.randn(16, 5 + k % 20, 32), torch.randint(0, 5, (16,))
        opt.zero_grad()
        out, _ = net(x)
        loss = nn.functional.cross_entropy(head(out[:, -1]), y)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        opt.step()
        total += loss.item()
    return total


@_wide
def wide_transformer(torch: Any) -> float:
    """A transformer of width 96, eight times over each of six lengths."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(96, 4, 192, batch_first=True, dropout=0.0)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    embedding, head = nn.Embedding(50, 96), nn.Linear(96, 50)
    opt = torch.optim.AdamW([*net.parameters(), *embedding.parameters(), *head.parameters()], 1e-3)
    total = 0.0
    for k in range(48):
        length = 16 + 8 * (k % 6)
        x = torch.randint(0, 50, (8, length))
        mask = torch.triu(torch.full((length, length), -math.inf), 1)
        opt.zero_grad()
        logits = head(net(embedding(x), mask=mask)[:, :-1]).reshape(-1, 50)
        loss = nn.functional.cross_entropy(logits, x[:, 1:].reshape(-1))
        loss.backward()
        opt.step()
        total += loss.item()
    return total


def main() -> None:
    """Run one program."""
    module, name = sys.argv[1:]
    torch = importlib.import_module(module)
    torch.manual_seed(0)
    print({**PROGRAMS, **WIDE}[name](torch))


if __name__ == "__main__":
    main()
