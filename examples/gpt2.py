"""A language model in the style of GPT-2: train it on text of your own, then let it write.

An ordinary PyTorch script in one file: byte-pair tokens, causal attention with a cache for writing, weights
shared between both ends, initial weights scaled by depth, AdamW with decay for matrices only, warm-up and
cosine, accumulated gradients, clipping, validation, checkpoints.
"""

import argparse
import inspect
import itertools
import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

RHYME = """
This is the house that Jack built. This is the malt that lay in the house that Jack built.
This is the rat that ate the malt that lay in the house that Jack built. This is the cat that chased
the rat that ate the malt that lay in the house that Jack built. This is the dog that worried the cat
that chased the rat that ate the malt that lay in the house that Jack built.
"""


# --- text -----------------------------------------------------------------------------------------


class Tokenizer:
    """Characters, and pairs of tokens that are often neighbours, as tokens of their own."""

    def __init__(self, text, merges):
        self.pieces = sorted(set(text))
        self.index = {piece: i for i, piece in enumerate(self.pieces)}
        self.merges = {}
        ids = [self.index[c] for c in text]
        for _ in range(merges):
            pair, count = Counter(itertools.pairwise(ids)).most_common(1)[0]
            if count < 2:
                break
            self.merges[pair] = len(self.pieces)
            self.pieces.append(self.pieces[pair[0]] + self.pieces[pair[1]])
            ids = self.merged(ids, pair)

    def merged(self, ids, pair):
        out, i = [], 0
        while i < len(ids):
            if tuple(ids[i : i + 2]) == pair:
                out.append(self.merges[pair])
                i += 2
            else:
                out.append(ids[i])
                i += 1
        return out

    def encode(self, text):
        ids = [self.index[c] for c in text]
        for pair in self.merges:
            ids = self.merged(ids, pair)
        return ids

    def decode(self, ids):
        return "".join(self.pieces[i] for i in ids)

    def __len__(self):
        return len(self.pieces)


class Windows(Dataset):
    """Every stretch of a text, and the same moved on by one."""

    def __init__(self, ids, length):
        self.ids, self.length = torch.tensor(ids), length

    def __len__(self):
        return len(self.ids) - self.length

    def __getitem__(self, i):
        return self.ids[i : i + self.length], self.ids[i + 1 : i + 1 + self.length]


# --- model ----------------------------------------------------------------------------------------


@dataclass
class Config:
    tokens: int
    length: int = 32
    layers: int = 2
    heads: int = 2
    width: int = 32
    dropout: float = 0.1
    bias: bool = True


class Norm(nn.Module):
    """A LayerNorm that can do without a bias."""

    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.width))
        self.bias = nn.Parameter(torch.zeros(config.width)) if config.bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.width % config.heads:
            raise ValueError(f"{config.heads} heads cannot share a width of {config.width}")
        self.heads, self.dropout = config.heads, config.dropout
        self.enter = nn.Linear(config.width, 3 * config.width, bias=config.bias)
        self.leave = nn.Linear(config.width, config.width, bias=config.bias)

    def forward(self, x, past=None):
        n, length, width = x.shape
        q, k, v = (
            part.view(n, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.enter(x).split(width, dim=2)
        )
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=past is None
        )
        y = self.leave(y.transpose(1, 2).reshape(n, length, width))
        return F.dropout(y, self.dropout, self.training), (k, v)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.attention = Norm(config), Attention(config)
        self.norm2 = Norm(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width, bias=config.bias),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * config.width, config.width, bias=config.bias),
            nn.Dropout(config.dropout),
        )

    def forward(self, x, past=None):
        y, present = self.attention(self.norm1(x), past)
        x = x + y
        return x + self.mlp(self.norm2(x)), present


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.tokens, config.width)
        self.place = nn.Embedding(config.length, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = Norm(config)
        self.head = nn.Linear(config.width, config.tokens, bias=False)
        self.apply(self.start)
        for name, weight in self.named_parameters():
            if name.endswith(("leave.weight", "mlp.2.weight")):  # what adds to the residual stream
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * config.layers))
        self.head.weight = self.token.weight

    @staticmethod
    def start(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)

    def forward(self, ids, targets=None, past=None):
        done = 0 if past is None else past[0][0].size(2)
        places = torch.arange(done, done + ids.size(1), device=ids.device)
        x = self.dropout(self.token(ids) + self.place(places))
        presents = []
        for block, before in zip(self.blocks, past or [None] * len(self.blocks)):
            x, present = block(x, before)
            presents.append(present)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, presents
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)

    @torch.inference_mode()
    def write(self, ids, count, temperature=1.0, top_k=None):
        """Draw `count` more tokens, one at a time, remembering keys and values."""
        self.eval()
        past, fresh = None, ids
        for _ in range(count):
            if past is not None and past[0][0].size(2) >= self.config.length:
                past, fresh = None, ids[:, -self.config.length // 2 :]
            logits, past = self(fresh, past=past)
            logits = logits[:, -1] / temperature
            if top_k is not None:
                lowest = torch.topk(logits, min(top_k, logits.size(-1))).values[:, -1:]
                logits = logits.masked_fill(logits < lowest, -torch.inf)
            fresh = torch.multinomial(F.softmax(logits, -1), 1)
            ids = torch.cat([ids, fresh], 1)
        return ids


# --- training -------------------------------------------------------------------------------------


def make_optimizer(model, lr, decay):
    """Weight decay for matrices, none for biases and norms."""
    weights = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in weights if p.dim() >= 2], "weight_decay": decay},
        {"params": [p for p in weights if p.dim() < 2], "weight_decay": 0.0},
    ]
    options = {"lr": lr, "betas": (0.9, 0.95)}
    if "fused" in inspect.signature(torch.optim.AdamW).parameters and torch.cuda.is_available():
        options["fused"] = True
    return torch.optim.AdamW(groups, **options)


def warm_up_and_cosine(step, warm_up, steps, lowest=0.1):
    if step < warm_up:
        return (step + 1) / warm_up
    done = (step - warm_up) / max(1, steps - warm_up)
    return lowest + (1 - lowest) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


@torch.no_grad()
def validate(model, windows, batch_size, device):
    model.eval()
    batches = DataLoader(windows, batch_size)
    losses = [model(x.to(device), y.to(device))[1] for x, y in batches]
    model.train()
    return torch.stack(losses).mean().item()


def endless(windows, batch_size):
    while True:
        order = RandomSampler(windows, replacement=True, num_samples=batch_size * 64)
        yield from DataLoader(windows, batch_size, sampler=order)


def train(model, training, held_out, args, device):
    optimizer = make_optimizer(model, args.lr, args.decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: warm_up_and_cosine(step, args.warm_up, args.steps)
    )
    batches = endless(training, args.batch_size)
    losses_of = torch.compile(model) if args.compile else model
    for step in range(args.steps):
        total = 0.0
        for _ in range(args.accumulate):
            x, y = next(batches)
            loss = losses_of(x.to(device), y.to(device))[1] / args.accumulate
            loss.backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rate = schedule.get_last_lr()[0]
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % args.print_every == 0 or step == args.steps - 1:
            print(f"step {step}  loss {total:.5f}  norm {norm.item():.4f}  lr {rate:.6f}")
    print(f"held out {validate(model, held_out, args.batch_size, device):.5f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a file to learn from, instead of a rhyme")
    parser.add_argument("--merges", type=int, default=30, help="tokens beyond single characters")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=2, help="batches of a step")
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--print-every", type=int, default=10)
    parser.add_argument("--write", type=int, default=30, help="tokens to write at the end")
    parser.add_argument("--compile", action="store_true", help="run the model through torch.compile")
    parser.add_argument("--save", type=Path, help="where to keep the trained model")
    parser.add_argument("--load", type=Path, help="a trained model: only write")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = args.text.read_text(encoding="utf-8") if args.text else RHYME.strip().replace("\n", " ")
    tokenizer = Tokenizer(text, args.merges)
    if args.load:
        kept = torch.load(args.load, map_location=device)
        model = GPT(Config(**kept["config"])).to(device)
        model.load_state_dict(kept["model"])
    else:
        config = Config(len(tokenizer), args.length, args.layers, args.heads, args.width, args.dropout)
        model = GPT(config).to(device)
        ids = tokenizer.encode(text)
        cut = max(len(ids) * 4 // 5, args.length + 1)
        training, held_out = (Windows(ids[:cut], args.length), Windows(ids[cut - args.length :], args.length))
        print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(ids)} of {len(tokenizer)} tokens")
        train(model, training, held_out, args, device)
    if args.save:
        torch.save({"config": asdict(model.config), "model": model.state_dict()}, args.save)
    start = torch.tensor([tokenizer.encode("This is ")], device=device)
    print(tokenizer.decode(model.write(start, args.write, temperature=0.8, top_k=10)[0].tolist()))


if __name__ == "__main__":
    main()
