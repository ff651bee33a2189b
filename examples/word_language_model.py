"""Learn to predict the next word: a recurrent network or a transformer. An ordinary PyTorch script.

The text is made up by a small grammar, so that nothing has to be downloaded.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

SENTENCES = (
    "the {0} sees a {1} .",
    "a {0} and the {1} sleep .",
    "does the {0} see a {1} ?",
    "the {1} that saw the {0} runs .",
)
ANIMALS = ("cat", "dog", "owl", "fox", "hen")


class Corpus:
    """Words as numbers, laid out in columns that are read side by side."""

    def __init__(self, sentences, columns):
        text = []
        for _ in range(sentences):
            pattern = SENTENCES[torch.randint(len(SENTENCES), ()).item()]
            first, second = torch.randperm(len(ANIMALS))[:2].tolist()
            text += pattern.format(ANIMALS[first], ANIMALS[second]).split()
        self.words = sorted(set(text))
        index = {word: i for i, word in enumerate(self.words)}
        ids = torch.tensor([index[word] for word in text])
        rows = len(ids) // columns
        self.data = ids[: rows * columns].view(columns, rows).t().contiguous()

    def batches(self, length):
        for i in range(0, len(self.data) - 1, length):
            n = min(length, len(self.data) - 1 - i)
            yield self.data[i : i + n], self.data[i + 1 : i + 1 + n].reshape(-1)


class Recurrent(nn.Module):
    def __init__(self, kind, words, width, layers, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(words, width)
        self.rnn = getattr(nn, kind)(width, width, layers, dropout=dropout)
        self.decoder = nn.Linear(width, words)
        self.decoder.weight = self.encoder.weight  # one table for both ends
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, words, state):
        out, state = self.rnn(self.drop(self.encoder(words)), state)
        return F.log_softmax(self.decoder(self.drop(out)).flatten(0, 1), dim=1), state


class Positions(nn.Module):
    def __init__(self, width, length=512):
        super().__init__()
        place = torch.arange(length).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        table = torch.zeros(length, 1, width)
        table[:, 0, 0::2] = torch.sin(place * rate)
        table[:, 0, 1::2] = torch.cos(place * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: len(x)]


class Transformer(nn.Module):
    def __init__(self, words, width, layers, dropout):
        super().__init__()
        self.width = width
        self.encoder = nn.Embedding(words, width)
        self.positions = Positions(width)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.decoder = nn.Linear(width, words)

    def forward(self, words, state):
        mask = nn.Transformer.generate_square_subsequent_mask(len(words))
        x = self.positions(self.encoder(words) * math.sqrt(self.width))
        return F.log_softmax(self.decoder(self.layers(x, mask=mask)).flatten(0, 1), dim=1), None


def detached(state):
    """A state without its history, so that gradients stop at the start of a batch."""
    if state is None or isinstance(state, torch.Tensor):
        return None if state is None else state.detach()
    return tuple(map(detached, state))


def train(model, corpus, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.25, patience=0)
    for epoch in range(args.epochs):
        model.train()
        losses, state = [], None
        for words, target in corpus.batches(args.length):
            optimizer.zero_grad()
            scores, state = model(words, detached(state))
            loss = F.nll_loss(scores, target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            losses.append(loss.item())
        mean = sum(losses) / len(losses)
        schedule.step(mean)
        print(f"epoch {epoch}  loss {mean:.5f}  perplexity {math.exp(mean):.3f}")


@torch.no_grad()
def write(model, corpus, count):
    """Words drawn from the model, one after the other."""
    model.eval()
    words = torch.randint(len(corpus.words), (1, 1))
    for _ in range(count):
        scores, _ = model(words, None)
        drawn = torch.multinomial(scores[-1].exp(), 1)
        words = torch.cat([words, drawn.view(1, 1)])
    return " ".join(corpus.words[i] for i in words.flatten().tolist())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("LSTM", "GRU", "RNN", "Transformer"), default="LSTM")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--length", type=int, default=12, help="words before gradients stop")
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    corpus = Corpus(args.sentences, args.columns)
    if args.model == "Transformer":
        model = Transformer(len(corpus.words), args.width, args.layers, args.dropout)
    else:
        model = Recurrent(args.model, len(corpus.words), args.width, args.layers, args.dropout)
    train(model, corpus, args)
    print(write(model, corpus, 20))


if __name__ == "__main__":
    main()
